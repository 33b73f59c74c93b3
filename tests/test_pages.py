"""What the docs promise can be looked up: tests, constraints and queries that they name exist."""

import itertools
import re
from pathlib import Path

import asyncpg
import pytest

from holdfast.api.app import ROUTES
from mutants.catalogue import MUTATIONS
from protocol.check import PROPERTIES

ROOT = Path(__file__).resolve().parents[1]
OPERATING = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
SOURCES = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"^```sql\n(.*?)^```$", OPERATING, re.MULTILINE | re.DOTALL)


def rows_of_guarantees() -> list[list[str]]:
    """List the cells of each guarantee."""
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    return rows_in(text.partition("\n## ")[2])


def rows_in(text: str) -> list[list[str]]:
    """List the cells of the rows of tables, but for their heads."""
    lines = text.splitlines()
    heads = {above for above, line in itertools.pairwise(lines) if line.startswith("|---")}
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    return [row for row in rows if "---" not in row[0] and f"|{'|'.join(row)}|" not in heads]


def names_in(text: str) -> list[str]:
    """List the single words that a text writes as code."""
    return re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+)+)`", text)


@pytest.mark.parametrize("row", rows_of_guarantees(), ids=lambda row: row[0].strip())
def test_a_guarantee_names_what_keeps_it_and_a_test_that_exists(row: list[str]) -> None:
    files = (ROOT / "holdfast/store/schema").rglob("*.sql")
    schema = "".join(file.read_text() for file in files)
    tests = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    keeper, shown_by = row[2], row[-1]
    for name in names_in(keeper):
        assert re.search(rf"\b(constraint|trigger|index) {name}\b", schema), name
    assert names_in(shown_by)
    for name in names_in(shown_by):
        assert f"def {name}(" in tests, name


def test_guarantees_assume_what_is_explained_and_name_what_the_models_prove() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    explained = {row[0].strip() for row in rows_in(text.partition("\n## ")[0])}
    known = {name.lower() for name in PROPERTIES} | {"locks", "trace"}
    assumed, proven = set(), set()
    for _, assumes, _, model, *_ in rows_of_guarantees():
        assumed |= {word.strip() for word in assumes.split(",")}
        proven |= {word.strip() for word in model.split(",")}
    assert assumed == explained
    assert proven - {"not modelled"} == known


def test_guarantees_name_checks_and_planted_bugs_that_there_are() -> None:
    chaos = (ROOT / "docs" / "chaos.md").read_text(encoding="utf-8")
    checks = {
        name.strip()
        for row in rows_in(chaos.partition("\n## What is checked")[2].partition("\n## ")[0])
        for name in row[0].split(",")
    }
    named_checks, named_bugs = set(), set()
    for _, _, _, _, chaos_checks, bugs, _ in rows_of_guarantees():
        named_checks |= {name.strip() for name in chaos_checks.split(",")}
        named_bugs |= set(re.findall(r"`([a-z0-9-]+)`", bugs))
    assert "overlaps" in named_checks
    assert named_checks - {"-"} <= checks
    assert "claim-without-lock" in named_bugs
    assert named_bugs <= {mutation.name for mutation in MUTATIONS}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.splitlines()[0])
async def test_a_query_for_the_paged_runs(query: str, database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(query)
    finally:
        await connection.close()


def rows_of_sources() -> list[list[str]]:
    """List the cells of each requirement of the sources."""
    sections = SOURCES.split("\n## Where")[0].split("\n## Document")[1:]
    lines = [line for section in sections for line in section.splitlines()]
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    return [row for row in rows if "---" not in row[0] and row[0].strip() != "the source asks"]


def test_a_requirement_of_the_sources_names_a_test() -> None:
    rows = rows_of_sources()
    assert {len(row) for row in rows} == {4}
    assert len(rows) > 100
    assert [row[0] for row in rows if not re.search(r"`tests/\S+\.py`", row[2])] == []


def test_what_the_sources_are_said_to_be_kept_by_exists() -> None:
    files = (ROOT / "holdfast/store/schema").rglob("*.sql")
    schema = "".join(file.read_text() for file in files)
    for kind, name in re.findall(r"(trigger|constraint) `(\w+)`", SOURCES):
        assert re.search(rf"\b{kind} {name}\b", schema), name
    served = {(route.method, re.sub(r":\w+}", "}", route.path)) for route in ROUTES}
    named = re.findall(r"`(GET|POST|PUT|DELETE) (/[\w/{}:.-]+)", SOURCES)
    assert named
    assert set(named) <= served


def test_there_are_guarantees_and_queries_to_check() -> None:
    assert len(rows_of_guarantees()) > 20
    assert len(QUERIES) > 5
