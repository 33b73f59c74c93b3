"""The upward half of every change: counts of task states, and from them the states of jobs.

Every operation that moves tasks collects its moves in `Moves` and ends with `apply_moves`, which
locks the job rows, last and in order, and lets each job's state follow from its counts.
"""

from collections import Counter

from holdfast.model.states import ENDED_STATES, JobState, TaskState
from holdfast.rules.job_state import job_state
from holdfast.rules.lifecycle import EVENT_TYPES
from holdfast.store.database import Transaction
from holdfast.store.tables.jobs import EndedJob, JobMoves, count_moves, finish_jobs, start_jobs
from holdfast.store.tables.outbox import FollowUp, insert_outbox

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


class JobChanged(Exception):
    """A job ended or was cancelled after its tasks were read: the transaction has to run again."""


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
    jobs = moves.jobs()
    counted = await count_moves(
        tx, [JobMoves(job_id, job.counts, job.error, job.exit_code) for job_id, job in jobs]
    )
    assert len(counted) == len(jobs), "a task without its job"
    must_be_live = {job_id for job_id, job in jobs if job.must_be_live}
    started: list[int] = []
    ended: list[tuple[int, JobState, int]] = []
    for job_id, state, cancel, fan_out, tolerated, has_started, counts in counted:
        finished = state in ENDED_STATES
        if job_id in must_be_live and (finished or cancel is not None):
            raise JobChanged(job_id)
        if finished:
            continue
        following = job_state(
            counts,
            fan_out=fan_out,
            max_task_failures=tolerated,
            cancel=cancel,
            has_started=has_started,
        )
        if following == state:
            continue
        if following == JobState.RUNNING:
            started.append(job_id)
        else:
            ended.append((job_id, following, counts.live))
    if started:
        await start_jobs(tx, sorted(started))
    if ended:
        await _finish(tx, sorted(ended))
    tx.news.moves.update(moves.made)
    tx.news.ended_jobs += [job_id for job_id, _, _ in ended]
    return [(job_id, state) for job_id, state, _ in ended]


async def _finish(tx: Transaction, ended: list[tuple[int, JobState, int]]) -> None:
    finished = await finish_jobs(
        tx, [EndedJob(job_id, state, EVENT_TYPES[state]) for job_id, state, _ in ended]
    )
    # What follows downward happens in transactions of its own.
    follow_ups = [("sweep", job_id) for job_id, _, live in ended if live]
    follow_ups += [
        ("job_ended", job_id) for job_id, state, _ in ended if state != JobState.SUCCEEDED
    ]
    for job_id, is_to_be_undone, is_compensation, is_awaited in finished:
        if is_to_be_undone:
            follow_ups.append(("undo", job_id))
        if is_compensation:
            follow_ups.append(("undone", job_id))
        if is_awaited:
            follow_ups.append(("release", job_id))
    await add_follow_ups(tx, follow_ups)


async def add_follow_ups(
    tx: Transaction, follow_ups: list[tuple[str, int]], next_index: int = 0
) -> None:
    """Leave work for later transactions."""
    if follow_ups:
        if tx.news is not None:
            tx.news.has_follow_ups = True
        await insert_outbox(tx, [FollowUp(kind, job_id, next_index) for kind, job_id in follow_ups])
