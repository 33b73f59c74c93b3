"""Why a task stands where it stands: the reason for which it waits, and all of it in sentences."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.api.convert import is_orphaned, say_time, task_error, to_ms
from holdfast.model.work.outcomes import PUT_OFF
from holdfast.model.work.states import TaskState
from holdfast.rules.limits.gates import Gate, explain_gate
from holdfast.rules.placement.scheduler import Reason
from holdfast.store.reads.limits.queues import AHEAD_MAX, Feeding, QueueCondition
from holdfast.store.reads.limits.shares import ShareTurn
from holdfast.store.reads.work.attempts import AttemptRow
from holdfast.store.reads.work.dead_letters import DeadLetterRow
from holdfast.store.reads.work.graph import UnmetRow
from holdfast.store.reads.work.jobs import JobRow
from holdfast.store.reads.work.signals import KeptRow, ParkedRow
from holdfast.store.reads.work.tasks import TaskRow

ATTEMPTS_SHOWN_MAX = 20
_JOINING = Reason("joining", "joins the line for the next pass", {})


class _InChain(msgspec.Struct, frozen=True):
    """What a spec says of chains."""

    chain: str | None = None


def pending_reason(
    job: JobRow,
    task: TaskRow,
    condition: QueueCondition,
    *,
    ahead: int | ShareTurn | None = None,
    placing: Reason | None = None,
    no_room: Reason | None = None,
    unmet: Sequence[UnmetRow] = (),
    feeding: Feeding | None = None,
    parked: ParkedRow | None = None,
    gate: Gate | None = None,
) -> Reason | None:
    """Say what a task waits for; None if it does not wait.

    `placing` is what the scheduler says, `no_room` what the workers of its queue lack,
    `unmet` are jobs that its job still waits for, `feeding` is how far the tasks of its job have
    come to stand in line, `parked` is the signal that it waits for, `gate` the limit.
    """
    if task.state != TaskState.PENDING:
        return None
    if job.cancel_mode is not None or job.finished_at is not None:
        return Reason("job_ended", "its job has ended or is being cancelled", {})
    held_back = _order(job, unmet) or _release(job, task) or _signal(parked)
    held_back = held_back or _later(job, task, condition.now)
    held_back = held_back or _not_in_line(task, feeding)
    if held_back is not None:
        return held_back
    if job.queue is None:
        return (gate and explain_gate(gate, condition.now)) or placing or _JOINING
    return _queue_reason(job.queue, condition, ahead=ahead, no_room=no_room, gate=gate)


def job_reasons(
    job: JobRow,
    condition: QueueCondition,
    *,
    found: Sequence[Reason | None],
    no_room: Reason | None = None,
    later_count: int,
    unmet: Sequence[UnmetRow],
    feeding: Feeding | None,
) -> list[Reason]:
    """Say what the pending tasks of a job wait for, each way once; nothing if none of them waits.

    `found` are the reasons of some of them, and `later_count` of all wait for a time or a limit.
    """
    if job.pending == 0 or job.cancel_mode is not None or job.finished_at is not None:
        return []
    order = _order(job, unmet)
    if order is not None:
        return [order]
    reasons = [reason for reason in found if reason is not None]
    fed = job.num_tasks if feeding is None else feeding.next_index
    in_line = job.pending - later_count - (job.num_tasks - fed)
    if job.queue is not None and in_line > 0:
        reasons.insert(0, _queue_reason(job.queue, condition, ahead=None, no_room=no_room))
    if feeding is not None:
        details = {"next_at_ms": to_ms(feeding.due_at), "tasks": job.num_tasks - fed}
        message = f"not in line yet: the next at {say_time(feeding.due_at)}"
        reasons.append(Reason("not_in_line", message, details))
    return reasons or [_JOINING]


def _order(job: JobRow, unmet: Sequence[UnmetRow]) -> Reason | None:
    """Tell of other jobs that have to end first."""
    if not unmet:
        return None
    count = max(job.unmet, len(unmet))
    message = f"waits for job {unmet[0].job_id}"
    if count > 1:
        message += f" and {count - 1} other{'s' if count > 2 else ''}"
    chain = None if job.spec is None else msgspec.json.decode(job.spec, type=_InChain).chain
    if chain is not None:
        message += f", in chain {chain}"
    details: dict[str, Any] = {"count": count, "job_ids": [str(each.job_id) for each in unmet]}
    if chain is not None:
        details["chain"] = chain
    failed = next((each.job_id for each in unmet if each.stands_still), None)
    if failed is not None:
        message += f", which stands still: job {failed} has failed; `holdfast pass {failed}`"
        details["stands_still_after"] = str(failed)
    return Reason("dependencies", message, details)


def _release(job: JobRow, task: TaskRow) -> Reason | None:
    """Tell of a last attempt whose process may still live."""
    if not task.lease_is_ending or task.lease_expires_at is None:
        return None
    message = "last attempt's lease is still ending"
    if job.queue is None:
        message = f"waits for release of attempt {task.lease_attempt} on {task.lease_worker_id}"
    details = {
        "attempt": task.lease_attempt,
        "worker_id": task.lease_worker_id,
        "lease_expires_at_ms": to_ms(task.lease_expires_at),
    }
    until = say_time(task.lease_expires_at)
    return Reason("release", f"{message}, until {until} at the latest", details)


def _signal(parked: ParkedRow | None) -> Reason | None:
    """Tell of a signal that has not come yet."""
    if parked is None:
        return None
    message = f"waits for signal {parked.name} since {say_time(parked.since)}"
    details: dict[str, Any] = {"signal": parked.name, "since_ms": to_ms(parked.since)}
    if parked.until is not None:
        message += f", until {say_time(parked.until)}"
        details["until_ms"] = to_ms(parked.until)
    return Reason("signal", message, details)


def _later(job: JobRow, task: TaskRow, now: datetime) -> Reason | None:
    """Tell of a task that may not start yet."""
    if task.eligible_at <= now:
        return None
    seconds = math.ceil((task.eligible_at - now).total_seconds())
    due = say_time(task.eligible_at)
    message = f"retry due at {due}" if task.attempt else f"not before {due}"
    if task.attempt and task.error_class == PUT_OFF:
        message = f"put off until {due} by its own code"
    elif job.queue is None:
        message = f"eligible in {seconds} s"
    details = {"seconds": seconds, "eligible_at_ms": to_ms(task.eligible_at)}
    return Reason("not_eligible", message, details)


def _not_in_line(task: TaskRow, feeding: Feeding | None) -> Reason | None:
    """Tell of a task that others of its job precede into the line: it is paced, or very large."""
    if feeding is None or task.task_index < feeding.next_index or task.attempt:
        return None
    before = task.task_index - feeding.next_index
    message = f"not in line yet: the next of its job at {say_time(feeding.due_at)}"
    if before:
        message += f", and {before} before this one"
    return Reason("not_in_line", message, {"before": before, "next_at_ms": to_ms(feeding.due_at)})


def _queue_reason(
    queue: str,
    condition: QueueCondition,
    *,
    ahead: int | ShareTurn | None,
    no_room: Reason | None,
    gate: Gate | None = None,
) -> Reason:
    """Tell what stands between a queue's tasks and a worker."""
    nearest = [] if no_room is None else no_room.nearest
    details: dict[str, Any] = {"queue": queue}
    if condition.paused_by is not None:
        message = f"queue {queue} is paused by {condition.paused_by}"
        return Reason("queue_paused", message, details | {"paused_by": condition.paused_by})
    if not condition.is_served:
        return Reason("queue_not_served", f"no worker serves queue {queue}", details)
    if condition.too_large is not None:
        message = f"could never fit on a worker of queue {queue}: {condition.too_large}"
        return Reason("never_fits", message, details, nearest)
    gate = gate or condition.gate
    if gate is not None:
        return explain_gate(gate, condition.now)
    message = f"waiting in queue {queue}"
    if isinstance(ahead, ShareTurn):
        return _share_reason(message, ahead, details)
    if ahead is not None:
        message += f": {ahead}{' or more' if ahead == AHEAD_MAX else ''} ahead"
    details["ahead"] = ahead
    if no_room is None:
        return Reason("in_queue", message, details)
    details |= no_room.details
    return Reason("lacks_resources", f"{message}; {no_room.message}", details, nearest)


def _share_reason(message: str, turn: ShareTurn, details: dict[str, Any]) -> Reason:
    """Tell whose turn has to come first."""
    by, value, before = turn
    whose = f"its {by}'s turn ({value or 'none'})" if by != "nothing" else "its turn"
    more = " or more" if before == AHEAD_MAX else ""
    details |= {"by": by, "share": value, "before": before}
    return Reason("share", f"{message} for {whose}: {before}{more} before it", details)


def explain_task(
    job: JobRow,
    task: TaskRow,
    condition: QueueCondition,
    *,
    attempts: Sequence[AttemptRow],
    reason: Reason | None,
    letter: DeadLetterRow | None,
    what_if: Sequence[str] = (),
    kept: Sequence[KeptRow] = (),
    terms: Sequence[str] = (),
) -> list[str]:
    """Explain a task to people: what it waits for or how it ended, its budgets, its attempts.

    `what_if` answers a question that was asked along with it; `kept` are signals that nobody has
    waited for, `terms` what holds for its job from its submission on.
    """
    state = TaskState(task.state)
    lines = [f"Task {task.id} of job {job.job_id} ({job.name}) is {state.name}."]
    if reason is not None:
        lines.append(f"It waits: {reason.message}.")
        lines += describe_nearest(reason)
    lines += what_if
    if job.cancel_mode is not None and task.finished_at is None:
        lines.append(f"Its job is being stopped ({job.cancel_mode}): {job.cancel_reason}.")
    lines += [_describe_kept(row) for row in kept]
    lines += terms
    lines += _describe_lease(task, condition)
    if task.finished_at is not None:
        lines.append(f"It finished at {say_time(task.finished_at)}.")
    error = task_error(task)
    is_parked = reason is not None and reason.code == "signal"
    if error is not None and not is_parked:  # then it would be the wait, said again
        lines.append(f"Its last error: {error}")
    if letter is not None:
        lines.append(_describe_letter(letter))
    lines.append(_describe_budgets(job, task))
    if len(attempts) > ATTEMPTS_SHOWN_MAX:
        lines.append(f"Of its {len(attempts)} attempts, these are the last:")
    lines += [_describe_attempt(attempt) for attempt in attempts[-ATTEMPTS_SHOWN_MAX:]]
    return lines


def describe_nearest(reason: Reason) -> list[str]:
    """Name the workers that come closest, each with what it lacks."""
    return [f"Nearest: {miss}." for miss in reason.nearest]


def _describe_lease(task: TaskRow, condition: QueueCondition) -> list[str]:
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
    if is_orphaned(task, condition.now):
        lines.append(
            "The lease has missed two renewals; if it runs out, the attempt counts as lost."
        )
    if task.cancel_deadline_at is not None:
        lines.append(f"It was asked to stop and has until {say_time(task.cancel_deadline_at)}.")
    return lines


def _describe_kept(kept: KeptRow) -> str:
    count = "a signal" if kept.number == 1 else f"{kept.number} signals"
    since = say_time(kept.since)
    return f"It keeps {count} {kept.name}, since {since}, that its function has not waited for."


def _describe_letter(letter: DeadLetterRow) -> str:
    stage = f" in stage {letter.stage}" if letter.stage else ""
    if letter.replayed_as is not None:
        fate = f"replayed as job {letter.replayed_as}"
    elif letter.discarded_at is not None:
        fate = f"discarded by {letter.discarded_by}"
    else:
        fate = "neither replayed nor discarded yet"
    return f"It is a dead letter: {letter.reason_code}{stage}; {fate}."


def _describe_budgets(job: JobRow, task: TaskRow) -> str:
    assert job.spec is not None, "a job is explained with its spec"
    spec = msgspec.json.decode(job.spec)
    failures, preemptions = spec["max_retries_failure"], spec["max_retries_preemption"]
    return (
        f"Failures: {task.failure_count}, up to {failures} are retried. "
        f"Lost workers: {task.preemption_count}, up to {preemptions} are retried."
    )


def _describe_attempt(attempt: AttemptRow) -> str:
    text = f"Attempt {attempt.attempt} on {attempt.worker_id}: {TaskState(attempt.state).name}"
    if attempt.started_at is not None and attempt.finished_at is not None:
        text += f" after {(attempt.finished_at - attempt.started_at).total_seconds():.1f} s"
    if attempt.exit_code is not None:
        text += f", exit code {attempt.exit_code}"
    if attempt.error is not None:
        text += f": {attempt.error}"
    return text + ("" if text.endswith(".") else ".")
