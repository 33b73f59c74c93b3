"""The upward half of every change: counts of task states, and from them the states of jobs.

Every operation that moves tasks collects its moves in `Moves` and ends with `apply_moves`, which
locks the job rows, last and in order, and lets each job's state follow from its counts.
"""

from collections import Counter

from holdfast.model.work.states import JobState, TaskState
from holdfast.store.database import Transaction
from holdfast.store.tables.upkeep.outbox import FollowUp, insert_outbox
from holdfast.store.tables.work.jobs import JobMoves, count_moves

_COLUMN = {
    TaskState.PENDING: 0,
    TaskState.ASSIGNED: 1,
    TaskState.BUILDING: 2,
    TaskState.RUNNING: 3,
    TaskState.SUCCEEDED: 4,
    TaskState.FAILED: 5,
    TaskState.KILLED: 6,
    TaskState.WORKER_FAILED: 7,
    TaskState.UNSCHEDULABLE: 8,
    TaskState.DEAD_LETTERED: 9,
}
_TIMED_OUT = 10


class _JobMoves:
    __slots__ = ("counts", "error", "exit_code", "must_be_live")

    def __init__(self) -> None:
        self.counts = [0] * 11
        self.error: str | None = None
        self.exit_code: int | None = None
        self.must_be_live = False


class Moves:
    """What one transaction does to the tasks of each job."""

    def __init__(self) -> None:
        self._jobs: dict[int, _JobMoves] = {}
        self.made: Counter[tuple[int, int]] = Counter()

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def _of(self, job_id: int) -> _JobMoves:
        moves = self._jobs.get(job_id)
        if moves is None:
            moves = self._jobs[job_id] = _JobMoves()
        return moves

    def add(self, job_id: int, start: int, end: int, *, through: int | None = None) -> None:
        """Note that a task of a job went from one state to another, at once or through a third."""
        if through is None:
            self.made[start, end] += 1
        else:
            self.made[start, through] += 1
            self.made[through, end] += 1
        counts = self._of(job_id).counts
        counts[_COLUMN[start]] -= 1  # type: ignore[index]
        counts[_COLUMN[end]] += 1  # type: ignore[index]

    def add_timeout(self, job_id: int) -> None:
        """Note that a task was killed by its timeout."""
        self._of(job_id).counts[_TIMED_OUT] += 1

    def add_error(self, job_id: int, error: str | None, exit_code: int | None = None) -> None:
        """Note a task's final error; the job keeps the first in time."""
        moves = self._of(job_id)
        if moves.error is None and error is not None:
            moves.error, moves.exit_code = error, exit_code

    def require_live(self, job_id: int) -> None:
        """Insist that the job has not ended and is not flagged for cancel when this commits."""
        self._of(job_id).must_be_live = True

    def jobs(self) -> list[tuple[int, _JobMoves]]:
        """List the jobs touched, in the order in which their rows are locked."""
        return sorted(self._jobs.items())


async def apply_moves(tx: Transaction, moves: Moves) -> list[tuple[int, JobState]]:
    """Apply counts and let job states follow; returns the jobs that ended. Raises JobChanged."""
    if not moves:
        return []
    jobs = [
        JobMoves(job_id, job.counts, job.error, job.exit_code, job.must_be_live)
        for job_id, job in moves.jobs()
    ]
    counted = await count_moves(tx, jobs)
    assert counted.num_counted == len(jobs), "a task without its job"
    ended = counted.ended_job_ids or []
    tx.news.moves.update(moves.made)
    tx.news.ended_jobs += ended
    if counted.has_follow_ups:
        tx.news.has_follow_ups = True
    return list(zip(ended, map(JobState, counted.ended_states or []), strict=True))


async def add_follow_ups(
    tx: Transaction, follow_ups: list[tuple[str, int]], next_index: int = 0
) -> None:
    """Leave work for later transactions."""
    if follow_ups:
        if tx.news is not None:
            tx.news.has_follow_ups = True
        await insert_outbox(tx, [FollowUp(kind, job_id, next_index) for kind, job_id in follow_ups])
