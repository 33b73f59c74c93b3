"""Tables of cases: servers, workers, versions, certificates and disks."""

import pytest

from holdfast.rules.checkup.cluster import (
    ChoreState,
    Disk,
    Program,
    ServerState,
    WorkerState,
    judge_certificate,
    judge_disk,
    judge_leader,
    judge_servers,
    judge_versions,
    judge_workers,
)
from holdfast.rules.checkup.findings import Finding

DAY = 86_400.0
FAILING = WorkerState("a-1", "a", "failing", "http://h:1", "refused", 2)


def severities(findings: list[Finding]) -> list[str]:
    assert all(bool(each.remedy) == (each.severity != "ok") for each in findings)
    return [each.severity for each in findings]


def test_versions() -> None:
    one, other = Program("server", "a", "1.0"), Program("worker", "b", "1.1")
    assert severities(judge_versions([])) == []
    assert severities(judge_versions([one, one])) == ["ok"]
    [judged] = judge_versions([one, other, Program("worker", "c", None)])
    assert judged.severity == "warning"
    assert judged.found == "3 at once: 1.0: server a; 1.1: worker b; not told: worker c"


def test_servers_that_are_silent_and_chores_that_are_late() -> None:
    assert severities(judge_servers([])) == ["error"]
    assert "says nothing of itself" in judge_servers([])[0].remedy
    assert severities(judge_servers([ServerState("a", 60.0)])) == ["error"]
    live = ServerState("a", 1.0, [ChoreState("prune", 0.0, None)])
    assert severities(judge_servers([live])) == ["ok"]
    assert severities(judge_servers([live, ServerState("b", 60.0)])) == ["ok", "warning"]
    late = [ChoreState("reap", 90.0, None), ChoreState("prune", 0.0, "no right to delete")]
    judged = judge_servers([live._replace(chores=late)])
    assert severities(judged) == ["ok", "warning", "warning"]
    assert "`reap` of a is 90 s late" in judged[1].found
    assert "no right to delete" in judged[2].found


def test_a_command_names_a_worker_by_its_id_and_not_as_it_has_chosen() -> None:
    _, judged = judge_workers([WorkerState("a-1", "a; reboot", "failing")])
    assert "`holdfast workers attempts a-1 --unsuccessful`" in judged.remedy


@pytest.mark.parametrize(
    ("worker", "severity", "words"),
    [
        (FAILING, "warning", "http://h:1: refused"),
        (WorkerState("a-1", "a", "lost", "http://h:1", None, 3), "error", "no answer"),
        (WorkerState("a-1", "a", "silent", holds=4), "warning", "holds 4"),
        (WorkerState("a-1", "a", "failing"), "warning", "have failed"),
    ],
)
def test_a_worker_that_is_not_well(worker: WorkerState, severity: str, words: str) -> None:
    well, judged = judge_workers([worker])
    assert well.found == "0 of 1 are healthy"
    assert severities([judged]) == [severity]
    assert words in judged.found


def test_workers_that_are_well_or_not_there() -> None:
    assert severities(judge_workers([WorkerState("a-1", "a", "healthy")])) == ["ok"]
    assert severities(judge_workers([])) == ["warning"]


@pytest.mark.parametrize(
    ("left", "severity"),
    [(-1.0, "error"), (0.0, "warning"), (30 * DAY, "warning"), (31 * DAY, "ok")],
)
def test_a_certificate(left: float, severity: str) -> None:
    assert severities([judge_certificate("a", left)]) == [severity]


@pytest.mark.parametrize(
    ("total", "free", "severity"),
    [(100, 11, "ok"), (100, 10, "warning"), (100, 2, "error"), (100, 0, "error"), (0, 0, "error")],
)
def test_a_disk(total: int, free: int, severity: str) -> None:
    assert severities([judge_disk(Disk("x", "/f", total, free))]) == [severity]


def test_a_leader_is_missed_only_where_work_is_placed() -> None:
    assert judge_leader(0, {}) == []
    assert judge_leader(2, {"a": True}) == []
    assert severities(judge_leader(2, {"a": False})) == ["error"]
    assert severities(judge_leader(2, {})) == ["error"]
