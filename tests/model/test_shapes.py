"""A decoder's complaint becomes an error that names the field, wherever in the body it stands."""

from typing import Annotated, Any

import msgspec
import pytest

from holdfast.model.shapes import as_invalid, read_tolerantly


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    """What stands inside."""

    number: Annotated[int, msgspec.Meta(ge=0)] = 0


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    """What is decoded."""

    name: str
    inner: Inner | None = None
    many: list[Inner] = []
    labels: dict[str, str] = {}
    rows: list[list[int]] = []


@pytest.mark.parametrize(
    ("content", "field", "problem"),
    [
        (b'{"name": 1}', "name", "Expected `str`, got `int`"),
        (b"{}", "name", "Object missing required field `name`"),
        (b'{"name": "a", "nmae": 1}', "nmae", "Object contains unknown field `nmae`"),
        (b'{"name": "a", "inner": {"number": -1}}', "inner.number", "Expected `int` >= 0"),
        (b'{"name": "a", "inner": {"x": 1}}', "inner.x", "Object contains unknown field `x`"),
        (b'{"name": "a", "many": [{}, {"number": ""}]}', "many[1].number", None),
        (b'{"name": "a", "many": [{"x": 1}]}', "many[0].x", None),
        (b'{"name": "a", "many": 1}', "many", "Expected `array`, got `int`"),
        (b'{"name": "a", "labels": {"k": 1}}', "labels", "Expected `str`, got `int`"),
        (b'{"name": "a", "rows": [[1], [2, "x"]]}', "rows[1][1]", None),
        (b"[]", "body", "Expected `object`, got `array`"),
        (b"null", "body", "Expected `object`, got `null`"),
    ],
)
def test_the_field_is_named_with_its_path(content: bytes, field: str, problem: str | None) -> None:
    with pytest.raises(msgspec.ValidationError) as complaint:
        msgspec.json.decode(content, type=Outer)
    error = as_invalid(complaint.value, "body")
    assert error.field == field
    assert problem is None or error.problem == problem
    assert " - at `" not in str(error)


def test_a_place_in_the_whole_is_named_after_it() -> None:
    shape: Any = list[int]
    with pytest.raises(msgspec.ValidationError) as complaint:
        msgspec.json.decode(b'[1, "x"]', type=shape)
    assert as_invalid(complaint.value, "ids").field == "ids[1]"


def test_the_name_of_a_field_is_not_taken_for_a_path() -> None:
    content = msgspec.json.encode({"name": "a", "x` - at `$.y": 1})
    with pytest.raises(msgspec.ValidationError) as complaint:
        msgspec.json.decode(content, type=Outer)
    assert as_invalid(complaint.value, "body").field != ""


def test_what_a_newer_version_has_written_is_read_without_what_we_do_not_know() -> None:
    text = b"""{"name": "n", "inner": {"number": 1, "new": [1]}, "later": null,
                "many": [{"number": 2}, {"number": 3, "x": 1, "y": 2}], "labels": {"x": "kept"}}"""
    expected = Outer("n", Inner(1), [Inner(2), Inner(3)], {"x": "kept"})
    assert read_tolerantly(text, Outer) == expected


@pytest.mark.parametrize("text", ['{"name": 1, "new": 1}', "{}", "[]", '{"name": "n", "inner": 1}'])
def test_what_is_wrong_otherwise_is_still_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_tolerantly(text, Outer)
