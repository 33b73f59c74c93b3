"""Why a task stands where it stands, in sentences."""

from collections.abc import Sequence

import msgspec

from holdfast.api.convert import is_orphaned, pending_reason, say_time, task_error
from holdfast.model.states import TaskState
from holdfast.store.fleet import DeadLetterRow
from holdfast.store.views import AttemptRow, JobRow, Line, TaskRow

ATTEMPTS_TOLD_MAX = 20


def explain_task(
    job: JobRow,
    task: TaskRow,
    line: Line,
    *,
    attempts: Sequence[AttemptRow],
    ahead: int | None,
    letter: DeadLetterRow | None,
) -> list[str]:
    """Explain a task to people: what it waits for or how it ended, its budgets, its attempts."""
    state = TaskState(task.state)
    lines = [f"Task {task.id} of job {job.job_id} ({job.name}) is {state.name}."]
    waits_for = pending_reason(job, task, line, ahead=ahead)
    if waits_for is not None:
        lines.append(f"It waits: {waits_for}.")
    if job.cancel_mode is not None and task.finished_at is None:
        lines.append(f"Its job was cancelled ({job.cancel_mode}): {job.cancel_reason}.")
    lines += _tell_lease(task, line)
    if task.finished_at is not None:
        lines.append(f"It finished at {say_time(task.finished_at)}.")
    error = task_error(task)
    if error is not None:
        lines.append(f"Its last error: {error}")
    if letter is not None:
        lines.append(_tell_letter(letter))
    lines.append(_tell_budgets(job, task))
    if len(attempts) > ATTEMPTS_TOLD_MAX:
        lines.append(f"Of its {len(attempts)} attempts, these are the last:")
    lines += [_tell_attempt(attempt) for attempt in attempts[-ATTEMPTS_TOLD_MAX:]]
    return lines


def _tell_lease(task: TaskRow, line: Line) -> list[str]:
    if task.lease_expires_at is None:
        return []
    until = say_time(task.lease_expires_at)
    if task.lease_is_ending:
        return [
            f"Attempt {task.lease_attempt} has ended, but its process may still live on "
            f"{task.lease_worker_id}: its lease is ending, until {until} at the latest."
        ]
    lines = [
        f"Worker {task.lease_worker_id} holds attempt {task.lease_attempt} "
        f"under a lease until {until}."
    ]
    if is_orphaned(task, line.now):
        lines.append(
            "The lease has missed two renewals; if it runs out, the attempt counts as lost."
        )
    if task.cancel_deadline_at is not None:
        lines.append(f"It was asked to stop and has until {say_time(task.cancel_deadline_at)}.")
    return lines


def _tell_letter(letter: DeadLetterRow) -> str:
    stage = f" in stage {letter.stage}" if letter.stage else ""
    if letter.replayed_as is not None:
        fate = f"replayed as job {letter.replayed_as}"
    elif letter.discarded_at is not None:
        fate = f"discarded by {letter.discarded_by}"
    else:
        fate = "neither replayed nor discarded yet"
    return f"It is a dead letter: {letter.reason_code}{stage}; {fate}."


def _tell_budgets(job: JobRow, task: TaskRow) -> str:
    assert job.spec is not None, "a job is explained with its spec"
    spec = msgspec.json.decode(job.spec)
    failures, preemptions = spec["max_retries_failure"], spec["max_retries_preemption"]
    return (
        f"Failures: {task.failure_count}, up to {failures} are retried. "
        f"Lost workers: {task.preemption_count}, up to {preemptions} are retried."
    )


def _tell_attempt(attempt: AttemptRow) -> str:
    text = f"Attempt {attempt.attempt} on {attempt.worker_id}: {TaskState(attempt.state).name}"
    if attempt.started_at is not None and attempt.finished_at is not None:
        text += f" after {(attempt.finished_at - attempt.started_at).total_seconds():.1f} s"
    if attempt.exit_code is not None:
        text += f", exit code {attempt.exit_code}"
    if attempt.error is not None:
        text += f": {attempt.error}"
    return text + ("" if text.endswith(".") else ".")
