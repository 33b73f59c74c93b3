"""Named statements: how they are read, that Postgres understands each, and that each is used."""

import re
from pathlib import Path

import pytest

import holdfast
from holdfast.store.statements import Statement, load_statements, parse_statements
from tests.store.raw import Raw

PACKAGE = Path(holdfast.__file__).parent
FOLDER = PACKAGE / "store" / "sql"
AGGREGATES = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.sql"))


def test_a_file_is_split_at_its_names() -> None:
    text = "-- about this file\n-- name: one\nselect 1;\n\n-- name: two\n-- why\nselect 2;\n"
    statements = parse_statements(text)
    assert list(statements) == ["one", "two"]
    assert statements["one"] == Statement("one", "select 1", ())
    assert statements["two"].text == "-- why\nselect 2"


def test_parameters_are_numbered_in_the_order_of_their_first_use() -> None:
    [statement] = parse_statements(
        "-- name: find\nselect $b::int, $a, $b from t where c = $a_b::text[]"
    ).values()
    assert statement.text == "select $1::int, $2, $1 from t where c = $3::text[]"
    assert statement.parameters == ("b", "a", "a_b")


def test_values_are_put_into_the_order_the_driver_wants() -> None:
    statement = Statement("find", "", ("b", "a"))
    assert statement.arguments({"a": 1, "b": 2}) == [2, 1]


@pytest.mark.parametrize("values", [{"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 3}, {}])
def test_a_missing_or_unknown_value_is_a_bug(values: dict[str, int]) -> None:
    with pytest.raises((AssertionError, KeyError)):
        Statement("find", "", ("b", "a")).arguments(values)


def test_two_statements_of_one_name_are_a_bug() -> None:
    with pytest.raises(AssertionError, match="two statements are named one"):
        parse_statements("-- name: one\nselect 1;\n-- name: one\nselect 2;\n")


def test_a_file_is_read_once() -> None:
    assert load_statements("work/jobs") is load_statements("work/jobs")


def test_an_unknown_file_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        load_statements("nonsense")


@pytest.mark.parametrize("aggregate", AGGREGATES)
async def test_postgres_understands_every_statement(raw: Raw, aggregate: str) -> None:
    statements = load_statements(aggregate)
    assert statements
    for statement in statements.values():
        prepared = await raw.connection.prepare(statement.text)
        assert len(prepared.get_parameters()) == len(statement.parameters), statement.name


def test_no_name_is_used_twice_across_files() -> None:
    names = [name for aggregate in AGGREGATES for name in load_statements(aggregate)]
    assert len(names) == len(set(names))


def sources() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]


def test_every_statement_has_a_caller() -> None:
    spoken = {name for text in sources() for name in re.findall(r'"([a-z_]+)"', text)}
    assert {name for file in AGGREGATES for name in load_statements(file)} <= spoken


def test_every_call_finds_its_statement() -> None:
    called = set()
    for text in sources():
        for variable, file in re.findall(r'^(\w+) = load_statements\("([\w/]+)"\)', text, re.M):
            names = re.findall(rf'\b{variable}\[\s*"(\w+)"\s*\]', text)
            called |= {(file, name) for name in names}
    assert called
    assert called <= {(file, name) for file in AGGREGATES for name in load_statements(file)}
