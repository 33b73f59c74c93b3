"""What `top` makes of a look: rates of whole steps, sorted and chosen rows, inert text."""

from typing import Any

import msgspec
import pytest

from holdfast.cli.output.top_look import ENDS, Look, add_up_rates, list_sections, summarise
from holdfast.wire.checkup import ChoreReport, ServerReport, ServerStatus
from holdfast.wire.overview import LiveTasks, Series
from holdfast.wire.status import JobStatus, QueueStatus, WorkerStatus

NOW = 1_000_000_000
TASKS = LiveTasks(
    ready=5, paused=1, unserved=0, never_fits=0, waiting=2, assigned=0, building=0, running=3,
    is_estimate=True,
)  # fmt: skip


def server(name: str, seen_ms: int, **report: Any) -> ServerStatus:
    return ServerStatus(
        server_id=name,
        host=name,
        version="1.0",
        migration=1,
        started_at_ms=NOW - 60_000,
        last_seen_at_ms=NOW - seen_ms,
        clock_skew_seconds=-0.5,
        report=ServerReport(**report),
    )


def worker(name: str, health: str, running: int, registered: int = 0) -> WorkerStatus:
    return WorkerStatus(
        worker_id=name,
        name=name,
        host="h",
        queues=["q"],
        health=health,
        registered_at_ms=registered,
        running=running,
        running_tasks=[f"{n}.0" for n in range(running)],
        lost_cause="left" if health == "lost" else None,
    )


def job(job_id: str, name: str, running: int) -> JobStatus:
    return JobStatus(
        job_id=job_id,
        state="JOB_STATE_RUNNING",
        name=name,
        type="t",
        owner="ann",
        submitted_at_ms=int(job_id),
        correlation_id="c",
        status_message="",
        num_tasks=10,
        tasks_running=running,
    )


def a_look(**more: Any) -> Look:
    given: dict[str, Any] = {
        "at_ms": NOW,
        "server": "http://h",
        "version": "1.0",
        "servers": [server("a", 1000), server("gone", 60_000)],
        "tasks": TASKS,
        "rates": dict.fromkeys(ENDS, 0.0) | {"succeeded": 2.5, "dead_lettered": 0.1},
        "rates_over_seconds": 30,
        "dead_letters": 4,
        "attention": [],
        "queues": [
            QueueStatus(queue="mail", depth=3, oldest_age_seconds=90.0),
            QueueStatus(queue="bulk", depth=900, paused=True),
            QueueStatus(queue="alone", depth=0, running=7, is_served=False),
        ],
        "workers": [worker("z", "healthy", 1), worker("b", "healthy", 3), worker("x", "lost", 0)],
        "worker_counts": {"healthy": 2, "failing": 0, "lost": 1},
        "jobs": [job("7", "one", 1), job("9", "two", 4)],
    }
    return Look(**given | more)


def rows(look: Look, title: str, **choice: str) -> list[str]:
    """Name the rows of a section by their first column."""
    found = {section.title: section for section in list_sections(look, **choice)}
    return [row[0] for row in found[title].rows] if title in found else []


def test_rates_are_of_whole_steps_and_nothing_is_known_as_nothing() -> None:
    counts: dict[str, Any] = {name: [100, 1, None, 5, 99] for name in ENDS}
    series = Series(at_ms=[], depth=[], running=[], wait_p50_ms=[], wait_p95_ms=[], **counts)
    assert add_up_rates(series, 10) == (dict.fromkeys(ENDS, 0.2), 30)


def test_what_is_under_way_is_said_in_three_lines() -> None:
    tasks, rates, others = summarise(a_look())
    assert tasks == ("tasks    ~5 ready, 1 paused, 2 due later, 0 assigned, 0 building, 3 running")
    assert rates == "per s    0.0 submitted, 2.5 succeeded, 0.0 failed, 0.1 dead lettered"
    assert others == "workers  2 healthy, 1 lost; dead letters 4"
    more = msgspec.structs.replace(TASKS, gated=7, awaiting_signal=8)
    assert ", 7 gated, 8 wait for a signal, 2 due later" in summarise(a_look(tasks=more))[0]


@pytest.mark.parametrize(
    ("sort", "queues", "workers", "jobs"),
    [
        ("load", ["bulk", "alone", "mail"], ["x", "b", "z"], ["9", "7"]),
        ("name", ["alone", "bulk", "mail"], ["b", "x", "z"], ["7", "9"]),
        ("age", ["mail", "alone", "bulk"], ["b", "x", "z"], ["7", "9"]),
    ],
)
def test_rows_are_sorted(sort: str, queues: list[str], workers: list[str], jobs: list[str]) -> None:
    look = a_look()
    assert rows(look, "queues", sort=sort) == queues
    assert rows(look, "workers", sort=sort) == workers
    assert rows(look, "running jobs", sort=sort) == jobs


def test_rows_are_chosen_by_a_text_in_their_names_and_empty_sections_left_out() -> None:
    look = a_look()
    assert rows(look, "queues", only="AL") == ["alone"]
    assert rows(look, "running jobs", only="tw") == ["9"]
    assert [each.title for each in list_sections(look, only="nowhere")] == ["servers"]


def test_a_queue_says_how_much_of_it_waits_for_a_limit() -> None:
    gated = QueueStatus(queue="keyed", depth=0, gated=17)
    full = QueueStatus(queue="full", depth=3, limited_by="pace")
    look = a_look(queues=[full, gated])
    [section] = [each for each in list_sections(look) if each.title == "queues"]
    assert [(row[0], row[-1]) for row in section.rows] == [
        ("keyed", "17 wait for a limit"),
        ("full", "limit pace is used up"),
    ]


def test_a_server_that_is_gone_is_left_out_and_late_chores_are_named() -> None:
    late = [ChoreReport("prune", 0.0, "no right"), ChoreReport("reap", 99.0), ChoreReport("a", 1.0)]
    look = a_look(servers=[server("a", 0, chores=late), server("gone", 60_000)])
    [section] = [each for each in list_sections(look) if each.title == "servers"]
    assert section.rows == [("a", "1.0", "1 min", "-0.5 s", "prune, reap")]


def test_of_a_worker_what_runs_there_is_told_or_why_nothing_does() -> None:
    [section] = [each for each in list_sections(a_look()) if each.title == "workers"]
    assert [row[-1] for row in section.rows] == ["left", "0.0, 1.0, 2.0", "0.0"]
