"""Payloads that only their owners can read are known by their mark."""

from typing import Any

import pytest

from holdfast.model.submitting.payloads import find_codec_name


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"$holdfast_codec": "fernet", "v": 1, "data": "eA=="}, "fernet"),
        ({"$holdfast_codec": 7}, None),
        ({"codec": "fernet"}, None),
        (["$holdfast_codec"], None),
        ("$holdfast_codec", None),
        (None, None),
    ],
)
def test_a_payload_is_known_by_its_mark(value: Any, name: str | None) -> None:
    assert find_codec_name(value) == name
