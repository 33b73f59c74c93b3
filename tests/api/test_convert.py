"""Rows as answers: states, messages, what a task shows at each turn of its life."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.api import convert
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Capacity
from holdfast.store.reads.limits.queues import QueueRow
from holdfast.store.reads.work.attempts import AccountRow, AttemptRow
from holdfast.store.reads.work.dead_letters import DeadLetterRow
from holdfast.store.reads.work.tasks import ResultRow
from holdfast.store.reads.workers.workers import WorkerLoad
from holdfast.store.tables.upkeep.samples import WorkerEnds
from holdfast.wire.status import Amounts, BuildMetrics, ResourceUsage, WorkerResources
from tests.api.rows import CLOSED, LATER, NOW, OPEN, a_task, a_worker

USAGE_TEXT = '{"cpu_seconds":1.5,"memory_peak_bytes":4096,"processes_max":2,"limits":"cgroup2"}'
USAGE = ResourceUsage(cpu_seconds=1.5, memory_peak_bytes=4096, processes_max=2, limits="cgroup2")


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


@pytest.mark.parametrize("state", [TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED])
def test_a_task_that_has_finished_is_not_under_way_but_has_its_last_word(state: TaskState) -> None:
    ended = OPEN | CLOSED | {"state": state, "finished_at": LATER, "progress_attempt": 0}
    noted = '{"fraction":0.9,"message":"9 of 10"}'
    told = convert.task_status(a_task(**ended | {"attempt": 0}, progress=noted), now=NOW)
    assert (told.progress, told.status_message) == (None, "9 of 10")


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
        ports='{"http":20000}',
        devices='["3"]',
        usage=USAGE_TEXT,
        build='{"fetch_ms":3.5,"bundle_cached":true,"novelty":1}',
    )
    task = a_task(**OPEN | {"lease_expires_at": NOW})
    told = convert.task_attempt(row, task, NOW)
    assert (told.attempt_id, told.state) == (1, "TASK_STATE_RUNNING")
    assert told.lease_expires_at_ms == convert.to_ms(LATER)
    assert told.is_orphaned
    assert (told.ports, told.devices) == ({"http": 20000}, ["3"])
    assert told.usage == USAGE
    assert told.build == BuildMetrics(fetch_ms=3.5, bundle_cached=True)
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


@pytest.mark.parametrize("text", ['"much"', '{"cpu_seconds":"much"}', "[]"])
def test_what_a_worker_says_in_another_shape_counts_as_not_said(text: str) -> None:
    account = AccountRow(None, None, None, text, text)
    told = convert.task_status(a_task(**OPEN), now=NOW, account=account)
    assert told.resource_usage is None
    told_in_part = AccountRow(usage='{"memory_peak_bytes":1}')
    told = convert.task_status(a_task(**OPEN), now=NOW, account=told_in_part)
    assert told.resource_usage == ResourceUsage(memory_peak_bytes=1)


def test_a_placed_task_shows_the_account_of_its_current_attempt() -> None:
    given = ("http://w2:7000", '{"http":20000}', '["0","1"]')
    account = AccountRow(*given, USAGE_TEXT, '{"fetch_ms":3.5}')
    told = convert.task_status(a_task(**OPEN), now=NOW, account=account)
    assert (told.worker_address, told.ports) == ("http://w2:7000", {"http": 20000})
    assert told.devices == ["0", "1"]
    assert (told.resource_usage, told.build_metrics) == (USAGE, BuildMetrics(fetch_ms=3.5))
    waiting = a_task(**OPEN | CLOSED | {"state": TaskState.PENDING})
    told = convert.task_status(waiting, now=NOW, account=account._replace(worker_address=None))
    assert (told.worker_id, told.ports, told.devices) == (None, {}, [])
    assert told.resource_usage == USAGE


def test_the_current_attempt_is_where_its_worker_is() -> None:
    assert convert.current_attempt_of(a_task()) == (3, -1, None)
    assert convert.current_attempt_of(a_task(**OPEN)) == (3, 1, "w2")
    ended = OPEN | CLOSED | {"state": TaskState.FAILED, "attempt": 0, "finished_at": LATER}
    assert convert.current_attempt_of(a_task(**ended)) == (3, 0, "w1")
    waiting = OPEN | CLOSED | {"state": TaskState.PENDING}
    assert convert.current_attempt_of(a_task(**waiting)) == (3, 0, None)


def test_a_workers_health_is_a_word() -> None:
    told = convert.worker_status(
        a_worker(illness=2), WorkerLoad([TaskId(7, 0)], Capacity()), WorkerEnds(3, 1)
    )
    assert (told.health, told.running, told.last_seen_at_ms) == ("silent", 2, None)
    assert (told.placed, told.resources, told.running_tasks) == (False, None, ["7.0"])
    assert (told.ended_last_hour.succeeded, told.ended_last_hour.failed) == (3, 1)


def test_a_called_worker_is_told_with_what_it_has_left() -> None:
    row = a_worker(
        illness=1,
        address="http://h:7000",
        capacity='{"cpu":4.0,"memory":100,"gpu":2,"gpu_model":"H100"}',
        attributes='{"region":"eu","spot":true}',
        consecutive_failures=2,
        last_failure="refused",
        answered_at=NOW,
    )
    told = convert.worker_status(row, WorkerLoad([], Capacity(0.1 + 0.2, 150, 0, 1)), WorkerEnds())
    assert (told.health, told.placed, told.address) == ("failing", True, "http://h:7000")
    assert told.resources == WorkerResources(
        capacity=Amounts(cpu=4.0, memory=100, disk=0, gpu=2),
        used=Amounts(cpu=0.3, memory=150, disk=0, gpu=1),
        free=Amounts(cpu=3.7, memory=0, disk=0, gpu=1),
        gpu_model="H100",
    )
    assert told.attributes == {"region": "eu", "spot": True}
    assert (told.consecutive_failures, told.last_failure) == (2, "refused")
    assert told.last_answer_at_ms == convert.to_ms(NOW)


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
