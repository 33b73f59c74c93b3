"""An answer names everything that is there, and stays within what a server reads of it."""

from pathlib import Path
from uuid import uuid4

from holdfast.wire.cluster import WorkerHeartbeatRequest
from holdfast.worker.placed.answers import write_answer
from holdfast.worker.placed.attempt import PlacedAttempt, TakeoverRecord
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.attempt_outcome import Outcome
from tests.worker.placed_orders import a_job

CALL = WorkerHeartbeatRequest(worker_id="w", epoch=2, number=5)


def an_attempt(folder: Path, index: int, outcome: Outcome | None = None) -> PlacedAttempt:
    record = TakeoverRecord(
        task_id=f"7.{index}",
        attempt=0,
        lease_token=uuid4(),
        job=a_job(),
        began_at=boot_clock(),
    )
    attempt = PlacedAttempt(record, folder, boot_clock() + 60)
    attempt.outcome = outcome
    return attempt


def test_what_runs_and_what_ended_is_named(tmp_path: Path) -> None:
    attempts = [an_attempt(tmp_path, 0), an_attempt(tmp_path, 1, Outcome("succeeded", 0))]
    answer = write_answer(CALL, attempts)
    assert (answer.worker_id, answer.epoch, answer.number) == ("w", 2, 5)
    assert [task.task_id for task in answer.running_tasks] == ["7.0"]
    assert [task.task_id for task in answer.completed_tasks] == ["7.1"]


def test_results_that_do_not_fit_wait_for_the_next_answer_and_are_not_missing(
    tmp_path: Path,
) -> None:
    large = Outcome("succeeded", 0, result='"' + "x" * (1 << 20) + '"')
    attempts = [an_attempt(tmp_path, index, large) for index in range(40)]
    told: set[str] = set()
    for _ in range(len(attempts)):
        left = [attempt for attempt in attempts if attempt.task_id not in told]
        if not left:
            break
        answer = write_answer(CALL, left)
        named = {task.task_id for task in answer.running_tasks}
        named |= {task.task_id for task in answer.completed_tasks}
        assert named == {attempt.task_id for attempt in left}
        assert 0 < len(answer.completed_tasks) < 10
        told |= {task.task_id for task in answer.completed_tasks}
    assert len(told) == 40
