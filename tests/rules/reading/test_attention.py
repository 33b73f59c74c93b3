"""What somebody should look at, and what is as it should be."""

from typing import Any

import pytest

from holdfast.rules.reading.attention import (
    ATTENTION_MAX,
    ErrorStanding,
    ImpossibleStanding,
    QueueStanding,
    TypeStanding,
    WorkerStanding,
    list_attention,
)


def told(**standings: Any) -> list[tuple[str, str]]:
    """List severity and subject of what needs attention."""
    return [(one.severity, one.subject) for one in list_attention(**standings)]


@pytest.mark.parametrize(
    ("queue", "severity", "words"),
    [
        ({"paused_by": "eve"}, "warning", "paused by eve with 3 tasks in line"),
        ({"paused_by": "eve", "depth": 0}, None, ""),
        ({"is_served": False, "waited_seconds": 60}, "critical", "no worker serves it"),
        ({"is_served": False, "waited_seconds": 59}, None, ""),
        (
            {"waited_seconds": 61, "limited_by": "mail"},
            "warning",
            "limit mail lets nothing more start, 0 run; 3 tasks in line",
        ),
        ({"waited_seconds": 61}, "critical", "nothing runs or finishes; 3 tasks in line"),
        ({"waited_seconds": 61, "running": 4}, "warning", "nothing finished in the last minute"),
        (
            {"is_served": False, "waited_seconds": 61, "running": 4},
            "critical",
            "no worker serves it; 3 tasks in line, the oldest for 61 s; 4 attempts left running",
        ),
        ({"waited_seconds": 601, "has_finished": True}, "warning", "has waited for 10 min"),
        ({"waited_seconds": 600, "has_finished": True}, None, ""),
        (
            {"is_served": False, "waited_seconds": 600, "has_finished": True},
            "critical",
            "no worker serves it",
        ),
        ({"waited_seconds": 9e5, "depth": 0}, None, ""),
    ],
)
def test_a_queue_needs_attention_if_it_does_not_drain(
    queue: dict[str, Any], severity: str | None, words: str
) -> None:
    found = list_attention(queues=[QueueStanding(**{"queue": "q", "depth": 3, **queue})])
    if severity is None:
        assert found == []
    else:
        [one] = found
        assert (one.kind, one.subject, one.count) == ("queue_stalled", "q", 3)
        assert one.severity == severity
        assert words in one.message


@pytest.mark.parametrize(
    ("attempts", "failures", "severity"),
    [
        (25, 5, "warning"),
        (26, 5, None),
        (10, 5, "critical"),
        (101, 50, "warning"),
        (4, 4, None),
        (5, 5, "critical"),
    ],
)
def test_a_type_needs_attention_if_many_of_its_attempts_fail(
    attempts: int, failures: int, severity: str | None
) -> None:
    found = list_attention(types=[TypeStanding("mail", attempts, failures)])
    assert [one.severity for one in found] == ([] if severity is None else [severity])
    for one in found:
        assert (one.kind, one.subject, one.count) == ("failing_type", "mail", failures)
        assert one.message.startswith(f"{failures} of {attempts} attempts failed")


def test_jobs_that_end_with_one_error_are_told_once_whatever_their_types() -> None:
    types = [TypeStanding(name, 10, 8) for name in ("a", "b", "c", "d", "e")]
    same = ErrorStanding("f" * 16, "no route to host", tuple("abcde"), 40, 12, last_seconds=180)
    found = list_attention(errors=[same], types=types)
    assert [(one.kind, one.severity, one.subject) for one in found] == [
        ("failing_jobs", "critical", "no route to host")
    ]
    assert (found[0].count, found[0].fingerprint) == (40, "f" * 16)
    assert found[0].message == (
        "40 jobs of a, b, c and 2 other types ended with it, 12 within the last hour, "
        "the last 3 min ago"
    )


@pytest.mark.parametrize(
    ("error", "attempts", "failures", "told"),
    [
        ({"recent": 5, "jobs": 5}, 10, 5, ["failing_jobs"]),
        ({"recent": 4, "jobs": 9}, 10, 4, []),
        # One job with many tasks, or one that was tried often.
        ({"recent": 1, "jobs": 1}, 10, 5, ["failing_jobs"]),
        ({"recent": 0, "jobs": 9}, 10, 5, ["failing_type"]),
        ({"recent": 9, "jobs": 9}, 100, 9, []),
        # Never as far as an attempt, as when no worker took it in time.
        ({"recent": 5, "jobs": 5}, 0, 0, ["failing_jobs"]),
    ],
)
def test_an_error_is_told_if_it_is_recent_and_frequent(
    error: dict[str, int], attempts: int, failures: int, told: list[str]
) -> None:
    standing = ErrorStanding("f" * 16, "boom", ("mail",), error["jobs"], error["recent"], 1.0)
    types = [TypeStanding("mail", attempts, failures)] if attempts else []
    assert [one.kind for one in list_attention(errors=[standing], types=types)] == told


def test_an_error_that_is_settled_is_told_no_more_unless_its_type_fails_on() -> None:
    settled = ErrorStanding("f" * 16, "boom", ("mail",), 9, 9, last_seconds=1.0, is_settled=True)
    types = [TypeStanding("mail", 18, 9), TypeStanding("etl", 9, 9)]
    assert told(errors=[settled], types=types) == [("critical", "etl")]
    since = [TypeStanding("mail", 10, 6), TypeStanding("etl", 1, 1)]
    assert told(errors=[settled], types=types, types_since=since) == [
        ("critical", "etl"),
        ("critical", "mail"),
    ]


def test_work_that_could_never_run_is_told_with_its_jobs_and_what_to_do() -> None:
    waits: dict[str, Any] = {
        "why": "the largest has 8 gpu",
        "job_ids": tuple(range(1, 41)),
        "tasks": 90,
    }
    found = list_attention(
        impossible=[
            ImpossibleStanding("1 cpu, 64 gpu", waited_seconds=1860, **waits),
            ImpossibleStanding("1 cpu, 65 gpu", waited_seconds=59, **waits),
        ]
    )
    [one] = found
    assert (one.kind, one.severity, one.subject) == ("never_fits", "critical", "1 cpu, 64 gpu")
    assert one.message == (
        "90 tasks of 40 jobs could never fit (the largest has 8 gpu), the oldest waits for 31 min; "
        "cancel and ask for less, or start a worker that has it"
    )
    assert (one.count, one.job_ids) == (90, tuple(str(number) for number in range(1, 21)))


def test_dead_letters_that_wait_for_a_decision_are_told_by_reason() -> None:
    letters = {"timeout": 1, "parse_error": 7, "compensation_failed": 2, "policy_violation": 0}
    found = list_attention(dead_letters=letters)
    assert [(one.severity, one.subject, one.count) for one in found] == [
        ("critical", "compensation_failed", 2),
        ("warning", "parse_error", 7),
        ("warning", "timeout", 1),
    ]
    assert {one.kind for one in found} == {"dead_letters"}
    assert found[2].message == "1 dead letter to be replayed or discarded"


def test_a_worker_that_is_missed_is_told_with_what_it_holds() -> None:
    found = list_attention(
        workers=[
            WorkerStanding("gone", is_lost=True, cause="3 heartbeats in a row failed"),
            WorkerStanding("holding", is_lost=True, leases=2),
            WorkerStanding("silent", is_lost=False, leases=1),
            WorkerStanding("asleep", is_lost=False),
        ]
    )
    assert [(one.severity, one.subject, one.message) for one in found] == [
        ("critical", "holding", "lost: no cause is known; holds 2 attempts"),
        ("warning", "silent", "silent, and holds 1 attempt"),
        ("warning", "gone", "lost: 3 heartbeats in a row failed"),
    ]


def test_the_worst_stands_first_then_the_most() -> None:
    assert told(
        queues=[QueueStanding("paused", 900, paused_by="eve"), QueueStanding("dead", 9, 99.0)],
        types=[TypeStanding("bad", 10, 10), TypeStanding("poor", 30, 10)],
        dead_letters={"timeout": 100},
    ) == [
        ("critical", "bad"),
        ("critical", "dead"),
        ("warning", "paused"),
        ("warning", "timeout"),
        ("warning", "poor"),
    ]


def test_no_more_is_told_than_somebody_can_look_at() -> None:
    many = [QueueStanding(f"q{number}", number, paused_by="eve") for number in range(200)]
    found = told(queues=many)
    assert len(found) == ATTENTION_MAX
    assert found[0] == ("warning", "q199")


def test_where_all_is_well_nothing_needs_attention() -> None:
    assert told(queues=[QueueStanding("q", 0)], types=[TypeStanding("t", 100, 0)]) == []
