"""A job's state, from the counts of its tasks' states: the first rule that applies."""

from typing import NamedTuple

from holdfast.model.work.outcomes import CancelMode
from holdfast.model.work.states import JobState


class JobCounts(NamedTuple):
    """How many tasks of a job stand in each state; `timed_out` of the killed ran out of time."""

    pending: int = 0
    assigned: int = 0
    building: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    killed: int = 0
    worker_failed: int = 0
    unschedulable: int = 0
    dead_lettered: int = 0
    timed_out: int = 0

    @property
    def open(self) -> int:
        """Count the tasks with an attempt under way."""
        return self.assigned + self.building + self.running

    @property
    def live(self) -> int:
        """Count the tasks that have not finished."""
        return self.pending + self.open

    @property
    def total(self) -> int:
        """Count all tasks."""
        return sum(self[:10])


def job_state(
    counts: JobCounts,
    *,
    fan_out: bool,
    max_task_failures: int | None,
    cancel: CancelMode | None,
    has_started: bool,
) -> JobState:
    """Derive a job's state; `fan_out` is one task per input, not replicas that belong together."""
    if counts.succeeded == counts.total:
        return JobState.SUCCEEDED
    # One bad input never stops the others; a soft cancel leaves everyone their grace.
    waits_for_all = cancel == "soft" or (fan_out and max_task_failures is None)
    if counts.live == 0 or not waits_for_all:
        ended = _ended_early(
            counts, fan_out=fan_out, tolerated=max_task_failures or 0, cancelled=cancel is not None
        )
        if ended is not None:
            return ended
    if counts.live == 0:
        return JobState.WORKER_FAILED if counts.worker_failed else JobState.SUCCEEDED
    if counts.open or has_started:
        return JobState.RUNNING
    return JobState.PENDING


def _ended_early(
    counts: JobCounts, *, fan_out: bool, tolerated: int, cancelled: bool
) -> JobState | None:
    """Apply the rules that end a job whether or not all of its tasks have finished."""
    failed = counts.failed + (counts.timed_out if fan_out else 0)
    if failed > tolerated:
        return JobState.FAILED
    if failed + counts.dead_lettered > tolerated:
        return JobState.DEAD_LETTERED
    if counts.unschedulable:
        return JobState.UNSCHEDULABLE
    if counts.killed:
        none_succeeded = counts.live == 0 and counts.succeeded == 0
        if not fan_out or cancelled or none_succeeded:
            return JobState.KILLED
    return None
