"""`holdfast db`: what it applies, what it shows, and when it refuses."""

import json

import pytest

from holdfast.cli.commands.processes.db import Step, compare, judge
from holdfast.embedded import EmbeddedPostgres
from holdfast.store.migrate import Applied, Definition, Migration, Recorded, Schema, load_schema
from tests.cli.program import finish, run, start
from tests.conftest import run_sql

OURS = load_schema()
NAMES = [definition.name for definition in OURS.definitions]


def test_migrate_says_what_it_applied_and_then_that_nothing_is_missing(
    empty_database_url: str,
) -> None:
    first = run("db", "migrate", "--database-url", empty_database_url)
    listed = "".join(f"applied {step.version:04} {step.name}\n" for step in OURS.migrations)
    listed += "".join(f"defined {name}\n" for name in NAMES)
    assert (first.code, first.out, first.err) == (0, listed, "")
    second = run("db", "migrate", "--database-url", empty_database_url)
    assert (second.code, second.out, second.err) == (0, "nothing was missing\n", "")


def test_migrate_tells_programs_in_json(empty_database_url: str) -> None:
    flag = f"--database-url={empty_database_url}"
    applied = json.loads(run("db", "migrate", "--json", flag).out)
    steps = [{"version": step.version, "name": step.name} for step in OURS.migrations]
    assert applied == {"applied": steps, "defined": NAMES}
    assert json.loads(run("db", "migrate", "--json", flag).out) == {"applied": [], "defined": []}


def test_migrate_applies_definitions_that_have_changed_and_no_others(
    redefined_database_url: str,
) -> None:
    flag = f"--database-url={redefined_database_url}"
    assert run("db", "migrate", flag).out == "defined views/events\n"
    assert run("db", "check", flag).code == 0


def test_two_migrators_at_once_do_no_harm(empty_database_url: str) -> None:
    flag = f"--database-url={empty_database_url}"
    both = [start("db", "migrate", "--json", flag) for _ in range(2)]
    ended = [finish(process) for process in both]
    assert [(one.code, one.err) for one in ended] == [(0, ""), (0, "")]
    applied = [step["version"] for one in ended for step in json.loads(one.out)["applied"]]
    assert sorted(applied) == [step.version for step in OURS.migrations]
    assert [name for one in ended for name in json.loads(one.out)["defined"]] == NAMES
    assert run("db", "check", flag).code == 0


def test_check_is_silent_when_the_schema_fits(database_url: str) -> None:
    ended = run("db", "check", "--database-url", database_url)
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_a_program_goes_on_beside_a_schema_that_says_it_may(ahead_database_url: str) -> None:
    flag = f"--database-url={ahead_database_url}"
    ended = run("db", "check", flag)
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert run("db", "migrate", flag).out == "nothing was missing\n"


def test_how_long_a_step_may_hold_locks_has_to_be_some_time(database_url: str) -> None:
    ended = run("db", "migrate", "--hold-seconds=0", f"--database-url={database_url}")
    assert (ended.code, ended.out) == (2, "")
    assert "--hold-seconds" in ended.err


@pytest.mark.parametrize(
    ("fixture", "reason"),
    [
        ("empty_database_url", "lacks migration 1 (clock); run `holdfast db migrate`"),
        ("newer_database_url", "it is older than the schema; upgrade holdfast"),
        ("changed_database_url", "made by a different build of holdfast"),
        ("redefined_database_url", "another version of views/events; run `holdfast db migrate`"),
        ("too_old_database_url", "from before its first release, and cannot be upgraded; use"),
    ],
)
def test_check_says_why_a_schema_does_not_fit(
    request: pytest.FixtureRequest, fixture: str, reason: str
) -> None:
    ended = run("db", "check", "--database-url", request.getfixturevalue(fixture))
    assert (ended.code, ended.out) == (1, "")
    assert reason in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    "fixture", ["newer_database_url", "changed_database_url", "too_old_database_url"]
)
def test_migrate_refuses_a_schema_it_does_not_know(
    request: pytest.FixtureRequest, fixture: str
) -> None:
    ended = run("db", "migrate", "--database-url", request.getfixturevalue(fixture))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("holdfast: ")
    assert "holdfast" in ended.err.removeprefix("holdfast: ")


@pytest.mark.parametrize(
    ("fixture", "verdict", "states", "definitions"),
    [
        ("empty_database_url", "behind", {"missing"}, {"missing"}),
        ("database_url", "current", {"applied"}, {"applied"}),
        ("newer_database_url", "newer", {"applied", "unknown"}, {"applied"}),
        ("ahead_database_url", "ahead", {"applied", "newer"}, {"applied"}),
        ("changed_database_url", "different", {"different"}, {"applied"}),
        ("redefined_database_url", "behind", {"applied"}, {"applied", "changed"}),
        ("too_old_database_url", "too_old", {"different", "missing"}, {"missing"}),
    ],
)
def test_status_shows_each_migration(
    request: pytest.FixtureRequest,
    fixture: str,
    verdict: str,
    states: set[str],
    definitions: set[str],
) -> None:
    flag = f"--database-url={request.getfixturevalue(fixture)}"
    told = json.loads(run("db", "status", "--json", flag).out)
    assert told["verdict"] == verdict
    assert {step["state"] for step in told["migrations"]} == states
    assert {key for step in told["migrations"] for key in step} == {"version", "name", "state"}
    assert {step["state"] for step in told["definitions"]} == definitions
    assert [step["name"] for step in told["definitions"]] == NAMES
    shown = run("db", "status", flag)
    assert (shown.code, shown.err) == (0, "")
    for step in told["migrations"]:
        assert f"{step['version']:04}" in shown.out
    for step in (*told["migrations"], *told["definitions"]):
        assert step["name"] in shown.out
        assert step["state"] in shown.out


def test_status_changes_nothing(empty_database_url: str) -> None:
    for _ in range(2):
        told = json.loads(run("db", "status", "--json", "--database-url", empty_database_url).out)
        assert told["verdict"] == "behind"


async def test_a_role_without_rights_is_told_so_in_one_line(
    postgres: EmbeddedPostgres, database_url: str
) -> None:
    await run_sql(database_url, "create role stranger_of_cli login")
    try:
        url = database_url.replace("postgres@", "stranger_of_cli@")
        ended = run("db", "migrate", "--database-url", url)
    finally:
        await run_sql(database_url, "drop role stranger_of_cli")
    assert (ended.code, ended.out) == (2, "")
    assert "permission denied" in ended.err
    assert ended.err.count("\n") == 1


def test_the_gravest_difference_makes_the_verdict() -> None:
    one, two = Migration(1, "one", "text"), Migration(2, "two", "text")
    view = Definition("views/any", "text")
    same, other = Applied(1, "one", one.checksum), Applied(1, "one", "other")
    unknown = Applied(3, "three", "any")
    assert compare(Schema((one, two), (view,)), Recorded((same,), {})) == [
        Step(1, "one", "applied"),
        Step(2, "two", "missing"),
        Step(None, "views/any", "missing"),
    ]

    def judged(*applied: Applied, checksum: str = view.checksum) -> str:
        recorded = Recorded(applied, {view.name: checksum})
        return judge(compare(Schema((one,), (view,)), recorded))[0]

    assert judged() == "behind"
    assert judged(same, checksum="other") == "behind"
    assert judged(other, checksum="other") == "different"
    assert judged(other, unknown) == "newer"
    assert judged(same) == "current"
    assert judged(same, Applied(3, "three", "any", 1), checksum="other") == "ahead"
