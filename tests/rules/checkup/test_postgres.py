"""Tables of cases: what is judged how, and that whatever is not ok has a remedy."""

import pytest

from holdfast.rules.checkup.findings import Finding
from holdfast.rules.checkup.postgres import (
    Connections,
    PoolMode,
    judge_autovacuum_of,
    judge_clock,
    judge_connections,
    judge_pooler,
    judge_refusal,
    judge_role,
    judge_settings,
    judge_transaction_ids,
)

SOUND = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "autovacuum": "on"}


def severities(findings: list[Finding]) -> list[str]:
    assert all(bool(each.remedy) == (each.severity != "ok") for each in findings)
    return [each.severity for each in findings]


@pytest.mark.parametrize(
    ("skew", "uncertain", "severity", "words"),
    [
        (0.0, 0.0, "ok", "agrees"),
        (-1.9, 0.0, "ok", "agrees"),
        (2.0, 0.0, "warning", "2 s ahead of"),
        (-29.9, 0.0, "warning", "behind"),
        (30.0, 0.0, "error", "30 s ahead of"),
        (-3600.0, 0.0, "error", "3600 s behind"),
        (31.0, 2.0, "warning", "29 s ahead of"),
        (5.0, 9.0, "ok", "agrees"),
    ],
)
def test_a_clock(skew: float, uncertain: float, severity: str, words: str) -> None:
    judged = judge_clock("x", skew, uncertain_seconds=uncertain)
    assert severities([judged]) == [severity]
    assert words in judged.found


@pytest.mark.parametrize("name", [*SOUND, "track_counts"])
def test_each_setting_that_must_not_be_off(name: str) -> None:
    [judged] = judge_settings(SOUND | {name: "off"})
    assert (judged.severity, judged.check) == ("error", f"setting {name}")
    assert f"alter system set {name} = on" in judged.remedy


@pytest.mark.parametrize("commit", ["on", "local", "remote_write", "remote_apply"])
def test_settings_that_are_sound_or_hidden(commit: str) -> None:
    assert severities(judge_settings(SOUND | {"synchronous_commit": commit})) == ["ok"]
    assert severities(judge_settings({})) == ["ok"]


def test_tables_without_autovacuum() -> None:
    assert judge_autovacuum_of([]) == []
    [judged] = judge_autovacuum_of(["ready", "tasks_1"])
    assert severities([judged]) == ["error"]
    assert ("ready, tasks_1" in judged.found, "holdfast.ready" in judged.remedy) == (True, True)


@pytest.mark.parametrize(
    ("used", "servers", "pooled", "severity"),
    [
        (10, 2, False, "ok"),
        (89, 1, False, "warning"),
        (97, 1, False, "error"),
        (20, 7, False, "warning"),
        (20, 7, True, "ok"),
    ],
)
def test_connections(used: int, servers: int, pooled: bool, severity: str) -> None:
    found = Connections(limit=100, reserved=3, used=used, servers=servers)
    assert severities(judge_connections(found, is_pooled=pooled)) == [severity]


@pytest.mark.parametrize(
    ("mode", "heard", "expected"),
    [
        ("none", False, ["ok"]),
        ("transaction", True, ["ok"]),
        ("transaction", False, ["ok", "warning"]),
        ("session", True, ["warning"]),
        ("session", False, ["warning", "warning"]),
        ("exhausted", True, ["error"]),
        ("statement", True, ["error"]),
    ],
)
def test_a_pooler(mode: PoolMode, heard: bool, expected: list[str]) -> None:
    assert severities(judge_pooler(mode, is_heard=heard)) == expected


def test_a_role_is_granted_what_it_lacks_under_its_own_name_however_that_is_written() -> None:
    assert judge_role("app", []).severity == "ok"
    judged = judge_role('a"b', ["insert on jobs"])
    assert (judged.severity, "insert on jobs" in judged.found) == ("error", True)
    assert judged.remedy.endswith("""`holdfast db grant 'a"b'`""")


@pytest.mark.parametrize(
    ("age", "severity"),
    [(50, "ok"), (999_999_999, "ok"), (1_000_000_000, "warning"), (1_800_000_000, "error")],
)
def test_transaction_ids(age: int, severity: str) -> None:
    assert severities([judge_transaction_ids(age)]) == [severity]


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ('role "a-b" does not exist', 'create role "a-b" login'),
        ('role "a"b" does not exist', 'create role "a""b" login'),
        ('role "a b" does not exist', "`holdfast db grant 'a b'`"),
        ('password authentication failed for user "x"', "user and password"),
        ("no pg_hba.conf entry for host", "pg_hba.conf"),
        ('database "x-y" does not exist', 'create database "x-y"'),
        ("sorry, too many clients already", "max_connections"),
        ("certificate verify failed", "sslrootcert"),
        ("Connect call failed", "db:5432 can be reached"),
    ],
)
def test_why_a_database_cannot_be_reached(message: str, remedy: str) -> None:
    judged = judge_refusal(message, "db:5432")
    assert (judged.severity, judged.found) == ("error", message)
    assert remedy in judged.remedy
