"""JSON that passes through untouched, and what JSON has no form for."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.wire.raw import absent_is_null, encode_json, null, raw

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


class Holder(msgspec.Struct):
    """A message with something of the user's."""

    value: msgspec.Raw = absent_is_null()


def test_what_is_left_out_is_null() -> None:
    assert bytes(Holder().value) == bytes(null()) == b"null"
    assert bytes(msgspec.json.decode(b"{}", type=Holder).value) == b"null"


def test_a_stored_text_is_taken_as_it_is() -> None:
    assert bytes(raw('{"a":  "é"}')) == '{"a":  "é"}'.encode()
    assert bytes(raw(None)) == b"null"
    assert msgspec.json.encode(Holder(raw("[1,  2]"))) == b'{"value":[1,  2]}'


@settings(deadline=None)
@given(JSON)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert msgspec.json.decode(encode_json(value)) == value


def test_it_is_short_and_plain() -> None:
    assert encode_json({"a": [1, "é"], 1: None}) == '{"a":[1,"é"],"1":null}'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [-float("inf")]}])
def test_a_number_that_json_lacks_is_refused_and_not_changed(value: Any) -> None:
    with pytest.raises(ValueError):
        encode_json(value)


@pytest.mark.parametrize("value", [object(), {"a": lambda: 1}, 1j])
def test_what_has_no_form_in_json_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        encode_json(value)
