"""Where types are looked up."""

from urllib.parse import unquote

import pytest

from holdfast.wire.policies import LIST_PATH, type_path


@pytest.mark.parametrize("name", ["train", "a/b", "..", "a?b#c d", "größe"])
def test_a_type_is_one_step_of_the_path(name: str) -> None:
    path = type_path(name)
    assert path.count("/") == LIST_PATH.count("/") + 1
    assert unquote(path) == f"{LIST_PATH}/{name}"
