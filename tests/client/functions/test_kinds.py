"""Kinds of values: what comes out of JSON by an annotation, and what would come out changed."""

import dataclasses
import enum
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest

from holdfast.client.functions.kinds import Kind
from holdfast.wire.raw import encode_json


class Point(NamedTuple):
    """A tuple with names."""

    x: int
    y: int


class Size(TypedDict):
    """A dict whose keys are known."""

    width: int


class Suit(enum.Enum):
    """Values with names."""

    HEARTS = "hearts"


class Node(msgspec.Struct):
    """A struct that may hold others of its kind."""

    at: date
    children: list["Node"] = []


@dataclasses.dataclass(eq=False)
class Plain:
    """A dataclass whose objects are equal to themselves alone."""

    day: date


class Model(pydantic.BaseModel):
    """A model of pydantic."""

    day: date


class Foreign:
    """A class that JSON knows nothing of."""


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (bytes, b"abc"),
        (date | None, date(2030, 1, 31)),
        (date | None, None),
        (datetime, datetime(2030, 1, 31, tzinfo=BERLIN)),
        (datetime, datetime(2030, 10, 27, 2, 30, tzinfo=BERLIN, fold=1)),
        (time, time(12, 30)),
        (timedelta, timedelta(days=1, seconds=1)),
        (Decimal, Decimal("1.10")),
        (UUID, UUID(int=1)),
        (set[int], {1, 2}),
        (frozenset[str], frozenset("a")),
        (tuple[int, ...], (1, 2)),
        (dict[int, Decimal], {1: Decimal(2)}),
        (dict[date, list[tuple[int, str]]], {date(2030, 1, 31): [(1, "a")]}),
        (Point, Point(1, 2)),
        (Size, {"width": 1}),
        (Suit, Suit.HEARTS),
        (Node, Node(date(2030, 1, 1), [Node(date(2030, 1, 2))])),
        (list[Plain], [Plain(date(2030, 1, 1))]),
        (list[Model], [Model(day=date(2030, 1, 1))]),
        (Path, Path("a/b")),
        (float, 1),
        (Any, {"a": [1, 2.5, None, "x"]}),
        (Foreign, {"a": 1}),
        (Iterable[int], [1]),
        (date | str, "text"),
    ],
)
def test_what_the_annotation_says_arrives_as_it_went(annotation: Any, value: Any) -> None:
    kind, text = Kind(annotation), msgspec.Raw(encode_json(value))
    assert kind.find_change(value, text) is None
    arrived = kind.read(msgspec.json.decode(text))
    assert type(arrived) is (float if annotation is float else type(value))
    assert kind.read(arrived) == arrived  # of a result that was pickled


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, "5"),
        (int, None),
        (str, 5),
        (bool | None, 1),
        (date, "yesterday"),
        (list[date], ["2030-01-31", 5]),
        (dict[int, str], {"a": "b"}),
        (Annotated[int, msgspec.Meta(gt=0)], 0),
        (Model, {"day": "never"}),
        (Suit, "spades"),
    ],
)
def test_what_does_not_fit_is_not_taken(annotation: Any, value: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        Kind(annotation).read(value)


@pytest.mark.parametrize("annotation", [Any, object, Foreign, list[Foreign], bytes | str])
def test_an_annotation_that_says_nothing_about_json_leaves_values_as_they_are(
    annotation: Any,
) -> None:
    kind = Kind(annotation)
    assert kind.annotation is None
    assert kind.read({"a": 1}) == {"a": 1}
    assert str(kind.find_change(b"a", msgspec.Raw(b'"YQ=="'))) == "b'a' would arrive as 'YQ=='"
