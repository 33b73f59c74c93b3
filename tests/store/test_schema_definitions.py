"""Definitions change with a migration: so an older program refuses them, and what is gone goes.

`definitions.txt` has the checksum of all definitions at each version of the tables, and every
function, view and trigger that a version has had.
"""

import hashlib
import re
from pathlib import Path

import pytest

from holdfast.store.migrate import Definition, Migration, Schema, load_schema
from tests.databases import connect

RECORD = Path(__file__).with_name("definitions.txt")
ONE = Migration(1, "one", "select 1")
FIRST = Schema((ONE,), (Definition("functions/new", "select 1"),))
LATER = Schema((ONE,), (Definition("functions/new", "select 2"),))

_OBJECTS = """
select 'function ' || oid::regprocedure from pg_proc where pronamespace = 'holdfast'::regnamespace
union all
select 'view ' || oid::regclass from pg_class
 where relnamespace = 'holdfast'::regnamespace and relkind = 'v'
union all
select format('trigger %s on %s', tgname, tgrelid::regclass) from pg_trigger
  join pg_class on pg_class.oid = tgrelid
 where relnamespace = 'holdfast'::regnamespace and not tgisinternal and tgparentid = 0
 order by 1"""


def digest(schema: Schema) -> str:
    """Tell these definitions from others."""
    texts = "".join(f"{each.name} {each.checksum}\n" for each in schema.definitions)
    return hashlib.sha256(texts.encode()).hexdigest()


def find_problem(recorded: list[str], schema: Schema, objects: set[str]) -> str | None:
    """Find what a change of the definitions lacks."""
    version = schema.migrations[-1].version
    line = f"version {version} {digest(schema)}"
    if line not in recorded:
        return (
            f"the definitions have changed since version {version}: if that was released, add a "
            "migration of the next number (`select;`, if no table changes); then write into "
            f"definitions.txt the version's line: {line}"
        )
    known = {item for item in recorded if not item.startswith("version ")}
    for new in sorted(objects - known):
        return f"add to definitions.txt: {new}"
    drops = "\n".join(migration.text for migration in schema.migrations)
    for gone in sorted(known - objects):
        if f"drop {gone}" not in drops:
            return f"stays in databases that are upgraded; in a migration: drop {gone}"
    return None


async def test_a_change_of_the_definitions_has_a_version_and_drops_what_is_gone(
    shared_database_url: str,
) -> None:
    connection = await connect(shared_database_url)
    try:
        objects = {row[0] for row in await connection.fetch(_OBJECTS)}
    finally:
        await connection.close()
    recorded = RECORD.read_text(encoding="utf-8").splitlines()
    assert find_problem(recorded, load_schema(), objects) is None


async def test_no_constraint_is_left_for_new_rows_alone(shared_database_url: str) -> None:
    query = (
        "select conname from pg_constraint "
        "where connamespace = 'holdfast'::regnamespace and not convalidated"
    )
    connection = await connect(shared_database_url)
    try:
        assert await connection.fetch(query) == []
    finally:
        await connection.close()


def test_each_version_is_recorded_once() -> None:
    lines = RECORD.read_text(encoding="utf-8").splitlines()
    versions = [int(line.split()[1]) for line in lines if line.startswith("version ")]
    assert versions == sorted(set(versions))
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize(
    ("schema", "objects", "problem"),
    [
        (FIRST, {"function holdfast.old(integer)"}, None),
        (LATER, {"function holdfast.old(integer)"}, "changed since version 1"),
        (FIRST, {"function holdfast.old(integer)", "view holdfast.b"}, "add.*view holdfast.b"),
        (FIRST, set(), r"in a migration: drop function holdfast.old\(integer\)"),
    ],
)
def test_what_a_change_lacks_is_named(
    schema: Schema, objects: set[str], problem: str | None
) -> None:
    recorded = [f"version 1 {digest(FIRST)}", "function holdfast.old(integer)"]
    found = find_problem(recorded, schema, objects)
    assert found is None if problem is None else re.search(problem, found or "")


def test_what_a_migration_drops_may_be_gone() -> None:
    drops = Migration(2, "two", "drop function holdfast.old(integer);")
    schema = Schema((ONE, drops), LATER.definitions)
    recorded = [f"version 2 {digest(LATER)}", "function holdfast.old(integer)"]
    assert find_problem(recorded, schema, set()) is None
