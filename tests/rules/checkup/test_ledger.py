"""Tables of cases: what keeps up, what does not, and what to do about it."""

import pytest

from holdfast.rules.checkup.findings import Finding
from holdfast.rules.checkup.ledger import (
    Backlog,
    ScheduleProblem,
    Standby,
    TableRows,
    judge_backlog,
    judge_dead_rows,
    judge_horizon,
    judge_lag,
    judge_partitions,
    judge_schedules,
    judge_schema,
    judge_standbys,
)
from holdfast.rules.reading.horizon import Holder


def severities(findings: list[Finding]) -> list[str]:
    assert all(bool(each.remedy) == (each.severity != "ok") for each in findings)
    return [each.severity for each in findings]


def test_a_schema() -> None:
    assert judge_schema(None, is_newer=False).severity == "ok"
    assert "db migrate" in judge_schema("lacks 7", is_newer=False).remedy
    assert "upgrade this program" in judge_schema("has 99", is_newer=True).remedy


@pytest.mark.parametrize(
    ("live", "dead", "severity"),
    [(10, 49_999, "ok"), (10, 50_000, "warning"), (200_000, 150_000, "ok")],
)
def test_dead_rows(live: int, dead: int, severity: str) -> None:
    judged = judge_dead_rows([TableRows("jobs", 1, 0), TableRows("ready", live, dead)])
    assert severities(judged) == [severity]
    assert severity == "ok" or "vacuum holdfast.ready" in judged[0].remedy


def test_whoever_holds_the_horizon_is_named_with_what_ends_it() -> None:
    def holder(seconds: float) -> Holder:
        return Holder("session", "77", "report", "ann", "idle", "select 1", None, seconds, 5)

    assert severities(judge_horizon([holder(299.0)])) == ["ok"]
    [judged] = judge_horizon([holder(1.0), holder(301.0)])
    assert (judged.severity, "session 77 of ann" in judged.found) == ("warning", True)
    assert "pg_terminate_backend(77)" in judged.remedy


def test_partitions() -> None:
    assert judge_partitions(10_000, 10_001).severity == "ok"
    assert judge_partitions(10_001, 10_001).severity == "warning"
    assert judge_partitions(1, 0).severity == "warning"


@pytest.mark.parametrize(
    ("backlog", "expected"),
    [
        (Backlog(None, None, None), ["ok"]),
        (Backlog(-5.0, 29.9, -1.0), ["ok"]),
        (Backlog(30.0, None, None), ["warning"]),
        (Backlog(None, 300.0, 31.0), ["error", "warning"]),
        (Backlog(schedules=31.0, expiries=301.0), ["warning", "error"]),
    ],
)
def test_what_is_overdue(backlog: Backlog, expected: list[str]) -> None:
    assert severities(judge_backlog(backlog)) == expected


def test_a_schedule_that_cannot_fire_is_named_with_its_reason() -> None:
    assert judge_schedules([]) == []
    [judged] = judge_schedules([ScheduleProblem("every night", "ann has too much")])
    assert (judged.severity, judged.check) == ("warning", "schedule every night")
    assert "ann has too much" in judged.found
    assert "holdfast schedules show 'every night'" in judged.remedy


@pytest.mark.parametrize(
    ("seconds", "missing", "severity"),
    [
        (0.0, 0, "ok"),
        (None, None, "ok"),
        (9.9, 100, "ok"),
        (10.0, 100, "warning"),
        (60.0, None, "error"),
        (None, 64 << 20, "warning"),
        (0.0, 1 << 30, "error"),
    ],
)
def test_how_far_a_replica_is_behind(
    seconds: float | None, missing: int | None, severity: str
) -> None:
    assert severities([judge_lag("r", seconds, missing)]) == [severity]


def test_commits_that_wait_for_a_standby_that_is_not_there() -> None:
    behind = Standby("a", "streaming", "async", 0.1, 10)
    assert severities(judge_standbys([], "")) == []
    assert severities(judge_standbys([behind], "")) == ["ok"]
    assert severities(judge_standbys([behind], "b")) == ["error", "ok"]
    assert severities(judge_standbys([behind._replace(sync_state="sync")], "a")) == ["ok"]
    hidden = Standby("a", None, None, None, None)
    assert severities(judge_standbys([hidden], "a")) == ["ok"]
