"""The demo's tasks are plain functions too."""

import pytest

import holdfast as hf
from holdfast.demo.story_tasks import parse_order, thumbnail


async def test_a_thumbnail_has_the_name_of_its_picture() -> None:
    assert await thumbnail("picture-1") == "picture-1.png"


def test_an_order_that_is_no_number_will_never_be_one() -> None:
    assert parse_order("12") == 12
    with pytest.raises(hf.ValidationError, match="poison"):
        parse_order("poison")
