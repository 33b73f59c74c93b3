"""`holdfast audit`: silent on a sound ledger, and what it says of a broken one."""

import json

import pytest

from tests.cli.program import run
from tests.conftest import run_sql
from tests.world import World

DAMAGE = "update holdfast.tasks set state = 9 where task_index = 0"


@pytest.fixture
async def broken_database_url(world: World, database_url: str) -> str:
    """A ledger with a task that moved without an event."""
    await world.submit([1, 2, 3])
    await run_sql(database_url, "set session_replication_role = replica", DAMAGE)
    return database_url


def test_a_sound_ledger_is_silent(database_url: str) -> None:
    ended = run("audit", "--database-url", database_url)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "sound: no invariant is broken\n"


def test_programs_are_told_that_it_is_sound(database_url: str) -> None:
    ended = run("audit", "--json", "--database-url", database_url)
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out) == {"findings": [], "count": 0, "sound": True}


def test_damage_is_shown_and_makes_exit_code_1(broken_database_url: str) -> None:
    ended = run("audit", "--database-url", broken_database_url)
    assert ended.code == 1
    assert "1.0" in ended.out
    assert ended.err.startswith("not sound: ")


def test_programs_are_told_each_finding(broken_database_url: str) -> None:
    ended = run("audit", "--json", "--database-url", broken_database_url)
    assert (ended.code, ended.err) == (1, "")
    told = json.loads(ended.out)
    assert (told["sound"], told["count"]) == (False, len(told["findings"]))
    assert "1.0" in {finding["subject"] for finding in told["findings"]}
    for finding in told["findings"]:
        assert finding.keys() == {"invariant", "subject", "detail"}


@pytest.mark.parametrize("flags", [[], ["--json"]])
@pytest.mark.parametrize("fixture", ["empty_database_url", "newer_database_url"])
def test_a_schema_that_does_not_fit_cannot_be_audited(
    request: pytest.FixtureRequest, fixture: str, flags: list[str]
) -> None:
    ended = run("audit", *flags, "--database-url", request.getfixturevalue(fixture))
    assert (ended.code, ended.out) == (2, "")
    assert "migration" in ended.err
    assert ended.err.count("\n") == 1
