"""Constraints on workers: how they are read, what is refused, and what fulfils them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.errors import Invalid
from holdfast.model.workers.resources import OPERATORS, AttributeValue, Constraint
from holdfast.rules.placement.constraints import (
    check_constraint,
    matches,
    parse_constraint,
    parse_value,
)

EU: dict[str, AttributeValue] = {
    "region": "eu",
    "gpu_gb": 40,
    "nvme": True,
    "rack": "r1",
    "zone": "7",
}
VALUES = some.one_of(some.booleans(), some.integers(), some.floats(), some.text(max_size=3))


@pytest.mark.parametrize(
    ("text", "fulfilled"),
    [
        ("region=eu", True),
        ("region=us", False),
        ("region!=us", True),
        ("region!=eu", False),
        ("gpu_gb>=40", True),
        ("gpu_gb>40", False),
        ("gpu_gb<=40.0", True),
        ("gpu_gb<39.5", False),
        ("gpu_gb=40.0", True),
        ("rack in r1,r2", True),
        ("rack in r2,r3", False),
        ("rack not in r2", True),
        ("rack not in r1,r2", False),
        ("nvme exists", True),
        ("nvme=true", True),
        ("nvme=false", False),
        ("zone=7", True),
        ("zone=7.0", True),
        ("zone>6", True),
        ("zone<10", True),
        ("region>ea", True),
        ("region<ea", False),
        ("region>5", False),
        ("region<5", False),
        ("nvme>0", False),
        ("nvme=1", False),
    ],
)
def test_a_constraint_is_answered(text: str, fulfilled: bool) -> None:
    assert matches(parse_constraint(text), EU) is fulfilled


@pytest.mark.parametrize("op", OPERATORS)
def test_what_is_missing_is_only_unequal(op: Any) -> None:
    value: Any = {"exists": None, "in": [1], "not in": [1]}.get(op, 1)
    assert matches(Constraint("gone", op, value), EU) is (op in ("!=", "not in"))


@pytest.mark.parametrize(
    ("found", "wanted", "equal"),
    [
        (7, 7.0, True),
        (7, "7", True),
        ("7.0", 7, True),
        ("7", "7.0", False),
        ("1e3", 1000, True),
        (True, "true", True),
        ("False", False, True),
        (True, 1, False),
        (1, True, False),
        (True, "1", False),
        ("nan", 1, False),
        ("inf", 1e400, False),
        ("007", 7, True),
        ("007", "7", False),
        (10**30, 10**30 + 1, False),
    ],
)
def test_values_are_equal_when_they_read_alike(
    found: AttributeValue, wanted: AttributeValue, equal: bool
) -> None:
    assert matches(Constraint("a", "=", wanted), {"a": found}) is equal
    assert matches(Constraint("a", "!=", wanted), {"a": found}) is not equal
    assert matches(Constraint("a", "in", ["other", wanted]), {"a": found}) is equal
    assert matches(Constraint("a", "not in", ["other", wanted]), {"a": found}) is not equal


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("region=eu", Constraint("region", "=", "eu")),
        (" region == eu ", Constraint("region", "=", "eu")),
        ("gpu_gb>=40", Constraint("gpu_gb", ">=", 40)),
        ("load < 0.5", Constraint("load", "<", 0.5)),
        ("shift>-2", Constraint("shift", ">", -2)),
        ("spot=false", Constraint("spot", "=", False)),
        ("rack=007", Constraint("rack", "=", "007")),
        ("rack in r1,r2", Constraint("rack", "in", ["r1", "r2"])),
        ("rack  not  in  (r1, 2)", Constraint("rack", "not in", ["r1", 2])),
        ("nvme exists", Constraint("nvme", "exists")),
        ("index=3", Constraint("index", "=", 3)),
        ("cloud/zone.name-1!=a b", Constraint("cloud/zone.name-1", "!=", "a b")),
    ],
)
def test_a_constraint_is_read_as_people_write_it(text: str, constraint: Constraint) -> None:
    found = parse_constraint(text)
    assert found == constraint
    assert type(found.value) is type(constraint.value)
    assert parse_constraint(str(found)) == found


@pytest.mark.parametrize(
    "text",
    ["", "region", "=eu", "region=", "region=>eu", "rack in", "rack in ,", "a b=c", "rack like r",
     "nvme exists now", "region!eu", "nvme<true"],
)  # fmt: skip
def test_what_is_no_constraint_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="constraints"):
        parse_constraint(text, "constraints[0]")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (("", "=", 1), "attribute"),
        (("a" * 257, "=", 1), "attribute"),
        (("a", "like", 1), "op"),
        (("a", "in", "r1"), "value"),
        (("a", "in", None), "value"),
        (("a", "in", []), "value"),
        (("a", "not in", ["x"] * 257), "value"),
        (("a", "in", [""]), "value"),
        (("a", "exists", True), "value"),
        (("a", "=", None), "value"),
        (("a", "=", ["x"]), "value"),
        (("a", "=", ""), "value"),
        (("a", "=", "x" * 257), "value"),
        (("a", "<", True), "value"),
        (("a", "<", float("nan")), "value"),
    ],
)
def test_a_constraint_that_makes_no_sense_is_refused(fields: Any, named: str) -> None:
    with pytest.raises(Invalid) as refusal:
        check_constraint(Constraint(*fields), "constraints[2]")
    assert refusal.value.field == f"constraints[2].{named}"


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("false", False), ("True", "True"), ("12", 12), ("-0.5", -0.5),
     ("1e3", 1000.0), ("01", "01"), ("1_000", "1_000"), ("r1", "r1"), (".5", ".5"), ("nan", "nan")],
)  # fmt: skip
def test_a_value_gets_the_type_it_shows(text: str, value: AttributeValue) -> None:
    assert (parse_value(text), type(parse_value(text))) == (value, type(value))


@given(VALUES, some.sampled_from(["=", "!=", "<", "<=", ">", ">="]), VALUES)
def test_any_two_values_can_be_compared(found: Any, op: Any, wanted: Any) -> None:
    fulfilled = matches(Constraint("a", op, wanted), {"a": found})
    if op in ("<", ">"):
        either = matches(Constraint("a", op + "=", wanted), {"a": found})
        assert either >= fulfilled
    if op in ("=", "!="):
        other: Any = {"=": "!=", "!=": "="}[op]
        assert matches(Constraint("a", other, wanted), {"a": found}) is not fulfilled
