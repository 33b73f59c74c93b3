"""Rows as answers: states, messages, what a task shows at each turn of its life."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.api import convert
from holdfast.model.states import TaskState
from holdfast.store.fleet import DeadLetterRow, QueueRow, WorkerRow
from holdfast.store.views import AttemptRow, JobRow, Line, ResultRow, TaskRow

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=90)
COUNTS = (
    "pending", "assigned", "building", "running", "succeeded", "failed", "killed", "worker_failed",
    "unschedulable", "dead_lettered",
)  # fmt: skip


def a_job(**fields: Any) -> JobRow:
    usual: dict[str, Any] = dict.fromkeys(JobRow._fields) | {
        "job_id": 4182,
        "name": "crawl",
        "type": "crawl",
        "owner": "eve",
        "queue": "emails",
        "priority": 0,
        "labels": "{}",
        "correlation_id": "c",
        "submitted_at": NOW,
        "state": TaskState.PENDING,
        "num_tasks": 3,
        **dict.fromkeys(COUNTS, 0),
    }
    return JobRow(**usual | fields)


def a_task(**fields: Any) -> TaskRow:
    usual: dict[str, Any] = dict.fromkeys(TaskRow._fields) | {
        "job_id": 4182,
        "task_index": 3,
        "state": TaskState.PENDING,
        "attempt": 0,
        "failure_count": 0,
        "preemption_count": 0,
        "eligible_at": NOW,
        "submitted_at": NOW,
    }
    return TaskRow(**usual | fields)


OPEN: dict[str, Any] = {
    "state": TaskState.RUNNING,
    "attempt": 1,
    "started_at": NOW,
    "lease_attempt": 1,
    "lease_worker_id": "w2",
    "lease_expires_at": NOW + timedelta(seconds=30),
    "lease_duration": timedelta(seconds=30),
    "lease_is_ending": False,
    "last_attempt": 0,
    "last_worker_id": "w1",
    "last_started_at": NOW,
    "exit_code": 3,
    "error": "boom",
    "error_class": "TransientError",
}
CLOSED: dict[str, Any] = {name: None for name in OPEN if name.startswith("lease")}


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"running": 2, "pending": 1}, "Tasks: 3 total, 2 running, 1 pending"),
        ({"pending": 3}, "Tasks: 3 total, 3 pending"),
        (
            {"succeeded": 1, "worker_failed": 1, "dead_lettered": 1},
            "Tasks: 3 total, 1 succeeded, 1 worker failed, 1 dead lettered",
        ),
        (
            {"assigned": 1, "building": 1, "running": 1},
            "Tasks: 3 total, 1 running, 1 building, 1 assigned",
        ),
    ],
)
def test_a_job_is_summed_up_in_a_line(counts: dict[str, int], message: str) -> None:
    assert convert.job_status(a_job(**counts)).status_message == message


def test_a_job_is_told_in_the_words_of_the_protocol() -> None:
    told = convert.job_status(
        a_job(
            state=TaskState.SUCCEEDED,
            succeeded=3,
            started_at=NOW,
            finished_at=LATER,
            parent_job_id=7,
            replay_of=8,
            labels='{"team":"search"}',
            spec='{"entrypoint":{"shell":"make"}}',
        )
    )
    assert (told.job_id, told.parent_job_id, told.replay_of) == ("4182", "7", "8")
    assert told.state == "JOB_STATE_SUCCEEDED"
    assert told.labels == {"team": "search"}
    assert told.spec == {"entrypoint": {"shell": "make"}}
    assert told.submitted_at_ms == told.started_at_ms == 1_772_366_400_000
    assert told.finished_at_ms == 1_772_366_490_000
    assert told.tasks_succeeded == told.num_tasks == 3
    assert told.tasks is None


def test_a_task_before_its_first_attempt_has_none() -> None:
    told = convert.task_status(a_task(), now=NOW)
    assert (told.task_id, told.job_id, told.task_index) == ("4182.3", "4182", 3)
    assert told.state == "TASK_STATE_PENDING"
    assert told.current_attempt_id == -1
    assert (told.worker_id, told.error, told.exit_code, told.started_at_ms) == (None,) * 4


def test_a_task_under_way_shows_its_open_attempt_alone() -> None:
    told = convert.task_status(a_task(**OPEN), now=NOW)
    assert (told.state, told.worker_id, told.current_attempt_id) == ("TASK_STATE_RUNNING", "w2", 1)
    assert told.started_at_ms == convert.to_ms(NOW)
    assert (told.error, told.exit_code, told.finished_at_ms) == (None,) * 3


def test_a_task_that_waits_for_its_retry_shows_no_worker_and_its_last_error() -> None:
    waiting = OPEN | CLOSED | {"state": TaskState.PENDING, "started_at": None}
    told = convert.task_status(a_task(**waiting), now=NOW)
    assert (told.worker_id, told.started_at_ms, told.finished_at_ms) == (None, None, None)
    assert (told.error, told.exit_code, told.current_attempt_id) == ("boom", 3, 0)


def test_a_finished_task_shows_its_last_attempt() -> None:
    ended = OPEN | CLOSED | {"state": TaskState.FAILED, "attempt": 0, "finished_at": LATER}
    told = convert.task_status(a_task(**ended), now=NOW)
    assert (told.worker_id, told.error, told.exit_code) == ("w1", "boom", 3)
    assert (told.started_at_ms, told.finished_at_ms) == (convert.to_ms(NOW), convert.to_ms(LATER))


def test_a_task_killed_while_it_waited_shows_why_and_no_worker() -> None:
    killed = OPEN | CLOSED | {"state": TaskState.KILLED, "finished_at": LATER}
    told = convert.task_status(a_task(**killed, cause="cancelled"), now=NOW)
    assert (told.worker_id, told.error, told.exit_code) == (None, "cancelled", None)
    assert told.current_attempt_id == 0


def test_a_task_killed_on_its_worker_shows_why() -> None:
    killed = OPEN | CLOSED | {"state": TaskState.KILLED, "attempt": 0, "finished_at": LATER}
    told = convert.task_status(a_task(**killed | {"error": None}, cause="cancelled"), now=NOW)
    assert (told.worker_id, told.error) == ("w1", "cancelled")


def test_a_task_that_succeeded_after_failures_shows_no_error() -> None:
    good = OPEN | CLOSED | {"state": TaskState.SUCCEEDED, "attempt": 0, "finished_at": LATER}
    told = convert.task_status(a_task(**good | {"error": None, "exit_code": 0}), now=NOW)
    assert (told.error, told.exit_code) == (None, 0)


@pytest.mark.parametrize(
    ("progress", "attempt", "expected"),
    [
        ('{"fraction":0.5,"message":"half"}', 1, (0.5, "half")),
        ('{"fraction":1,"message":null}', 1, (1.0, None)),
        ('{"fraction":0.5,"message":"half"}', 0, (None, None)),
        ('"what user code noted under the same name"', 1, (None, None)),
        ('{"fraction":"much"}', 1, (None, None)),
    ],
)
def test_progress_is_that_of_the_current_attempt(
    progress: str, attempt: int, expected: tuple[Any, Any]
) -> None:
    task = a_task(**OPEN, progress=progress, progress_attempt=attempt)
    told = convert.task_status(task, now=NOW)
    assert (told.progress, told.status_message) == expected


def test_a_task_that_waits_for_its_retry_has_no_progress() -> None:
    waiting = OPEN | CLOSED | {"state": TaskState.PENDING, "progress_attempt": 0}
    told = convert.task_status(a_task(**waiting, progress='{"fraction":0.5}'), now=NOW)
    assert told.progress is None


@pytest.mark.parametrize(
    ("duration", "remaining", "orphaned"),
    [
        (30, 8, False),
        (30, 7, True),
        (30, -5, True),
        (60, 16, False),
        (60, 14, True),
        (120, 61, False),
        (120, 59, True),
    ],
)
def test_a_lease_that_missed_two_renewals_is_orphaned(
    duration: int, remaining: int, orphaned: bool
) -> None:
    task = a_task(
        **OPEN
        | {
            "lease_duration": timedelta(seconds=duration),
            "lease_expires_at": NOW + timedelta(seconds=remaining),
        }
    )
    assert convert.task_status(task, now=NOW).is_orphaned is orphaned


def test_only_the_lease_of_an_open_attempt_can_be_orphaned() -> None:
    assert not convert.is_orphaned(a_task(), NOW)
    ending = a_task(**OPEN | {"lease_is_ending": True, "lease_expires_at": NOW})
    assert not convert.is_orphaned(ending, NOW)


SERVED = Line(NOW, None, True)
RETRY = {"attempt": 1, "last_attempt": 0}


@pytest.mark.parametrize(
    ("job", "task", "line", "reason"),
    [
        ({}, {}, SERVED, "waiting in queue emails"),
        ({}, {}, SERVED._replace(paused_by="eve"), "queue emails is paused by eve"),
        ({}, {}, SERVED._replace(is_served=False), "no worker serves queue emails"),
        ({}, {"eligible_at": LATER}, SERVED, "not before 2026-03-01T12:01:30Z"),
        ({}, {"eligible_at": LATER, **RETRY}, SERVED, "retry due at 2026-03-01T12:01:30Z"),
        (
            {},
            {"lease_is_ending": True, "lease_expires_at": LATER, **RETRY},
            SERVED,
            "last attempt's lease is still ending, until 2026-03-01T12:01:30Z at the latest",
        ),
        ({"queue": None}, {}, SERVED, "waiting to be placed on a worker"),
        ({"cancel_mode": "soft"}, {}, SERVED, "its job has ended or is being cancelled"),
        ({}, {"state": TaskState.RUNNING}, SERVED, None),
        ({}, {"state": TaskState.SUCCEEDED}, SERVED, None),
    ],
)
def test_a_pending_task_says_what_it_waits_for(
    job: dict[str, Any], task: dict[str, Any], line: Line, reason: str | None
) -> None:
    assert convert.pending_reason(a_job(**job), a_task(**task), line) == reason


def test_those_ahead_are_told_where_they_were_counted() -> None:
    def told(ahead: int) -> str | None:
        return convert.pending_reason(a_job(), a_task(), SERVED, ahead=ahead)

    assert told(3) == "waiting in queue emails: 3 ahead"
    assert told(1000) == "waiting in queue emails: 1000 or more ahead"


def test_an_attempt_is_told_with_its_lease() -> None:
    row = AttemptRow(
        attempt=1,
        worker_id="w2",
        state=TaskState.RUNNING,
        created_at=NOW,
        started_at=None,
        finished_at=None,
        released_at=None,
        exit_code=None,
        error=None,
        error_class=None,
        stage=None,
        is_worker_failure=False,
        lease_expires_at=LATER,
    )
    task = a_task(**OPEN | {"lease_expires_at": NOW})
    told = convert.task_attempt(row, task, NOW)
    assert (told.attempt_id, told.state) == (1, "TASK_STATE_RUNNING")
    assert told.lease_expires_at_ms == convert.to_ms(LATER)
    assert told.is_orphaned
    lost = row._replace(attempt=0, state=TaskState.WORKER_FAILED, is_worker_failure=True)
    told = convert.task_attempt(lost, task, NOW)
    assert (told.is_worker_failure, told.is_orphaned) == (True, False)


def test_a_result_is_told_with_the_error_of_a_task_that_ended_badly() -> None:
    row = ResultRow(0, TaskState.SUCCEEDED, True, '{"n":1}', None, 0, None, None, False)
    told = convert.task_result("4182.0", row)
    assert (told.state, bytes(told.result)) == ("TASK_STATE_SUCCEEDED", b'{"n":1}')
    assert told.error is None
    failed = row._replace(state=TaskState.FAILED, result=None, error="boom", error_class="E")
    told = convert.task_result("4182.0", failed)
    assert (bytes(told.result), told.error, told.error_class) == (b"null", "boom", "E")
    killed = row._replace(state=TaskState.KILLED, result=None, cause="cancelled")
    assert convert.task_result("4182.0", killed).error == "cancelled"
    retried = failed._replace(state=TaskState.PENDING, is_finished=False)
    assert convert.task_result("4182.0", retried).error is None


def test_a_workers_health_is_a_word() -> None:
    row = WorkerRow("w1", "n", "h", ["q"], 1, NOW, None, None, None, None, False, 2)
    told = convert.worker_status(row)
    assert (told.health, told.running, told.last_seen_at_ms) == ("silent", 2, None)


def test_a_queue_is_as_old_as_its_oldest_task() -> None:
    told = convert.queue_status(QueueRow("q", 2, NOW), LATER)
    assert (told.depth, told.oldest_age_seconds, told.paused) == (2, 90.0, False)
    told = convert.queue_status(QueueRow("q", paused_by="eve"), LATER)
    assert (told.oldest_age_seconds, told.paused, told.paused_by) == (None, True, "eve")


def test_a_dead_letter_is_told_with_its_input() -> None:
    fields: dict[str, Any] = dict.fromkeys(DeadLetterRow._fields) | {
        "job_id": 4182,
        "task_index": 3,
        "reason_code": "timeout",
        "attempts": 2,
        "correlation_id": "c",
        "type": "t",
        "input": "[1]",
        "dead_lettered_at": NOW,
        "replayed_as": 9,
    }
    told = convert.dead_letter(DeadLetterRow(**fields))
    assert (told.task_id, told.replayed_as, bytes(told.input)) == ("4182.3", "9", b"[1]")
