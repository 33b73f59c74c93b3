"""The ledger of a simulation: plain values for tables, and every change decided by the rules.

It is no store: nothing is locked, since one thing happens after the other. What the SQL of the real
one guards is asserted here: legal moves, one lease per task, and that only who holds one speaks.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from operator import attrgetter
from random import Random
from typing import NamedTuple, Protocol
from uuid import UUID

from holdfast.errors import LeaseConflict
from holdfast.model.submitting.spec import JobSpec, Submission, TaskTerms
from holdfast.model.work.attempts import LockedLease, LockedTask
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import (
    CancelMode,
    Killed,
    TaskDeadLettered,
    TaskRetried,
)
from holdfast.model.work.states import LIVE_STATES, OPEN_STATES, TaskState
from holdfast.rules.ending import AttemptEnd, DecidedEnd, Judged, decide_ends
from holdfast.rules.job_state import JobCounts, job_state
from holdfast.rules.lifecycle import LEGAL_JOB_MOVES, LEGAL_MOVES, is_ahead
from holdfast.rules.outage import Watch, next_watch
from holdfast.rules.submitting.submission import terms_of

Judge = Callable[[LockedLease, TaskTerms], Judged]
PENDING, RUNNING, SUCCEEDED = TaskState.PENDING, TaskState.RUNNING, TaskState.SUCCEEDED
_COUNTED = [TaskState[name.upper()] for name in JobCounts._fields if name != "timed_out"]


def only(fence: Fence, judge: Callable[[LockedLease], Judged]) -> Judge:
    """Judge one attempt alone; the siblings of its gang follow by the rules."""
    return lambda lease, _: judge(lease) if lease.fence == fence else None


class IllegalMove(AssertionError):
    """A change that the table of legal moves does not have."""


class Lease:
    """The right of a worker to one attempt, given out now."""

    __slots__ = (
        "acknowledged", "attempt", "cancel_deadline_at", "cancelled", "ending", "expires_at",
        "leased_at", "run_deadline_at", "started_at", "task", "token", "worker_id",
    )  # fmt: skip

    def __init__(self, task: "Task", token: UUID, worker_id: str, *, now: datetime) -> None:
        terms = task.job.terms
        self.task = task
        self.attempt = task.attempt
        self.token = token
        self.worker_id = worker_id
        self.leased_at = now
        self.started_at: datetime | None = None
        self.expires_at = now + terms.lease_duration
        # A claim is an acknowledgement.
        self.acknowledged = not terms.placed
        self.ending = False
        self.cancelled = False
        self.cancel_deadline_at: datetime | None = None
        self.run_deadline_at: datetime | None = None

    @property
    def fence(self) -> Fence:
        """Give what its holder must present."""
        return Fence(self.task.id, self.attempt, self.token)


class Task:
    """One task, and its lease while it has one."""

    __slots__ = (
        "attempt", "avoid", "eligible_at", "failure_count", "free_loss_count", "id", "job", "lease",
        "preemption_count", "state",
    )  # fmt: skip

    def __init__(self, job: "Job", index: int, eligible_at: datetime) -> None:
        self.job = job
        self.id = TaskId(job.id, index)
        self.state = PENDING
        self.attempt = 0
        self.failure_count = self.preemption_count = self.free_loss_count = 0
        self.lease: Lease | None = None
        self.eligible_at = eligible_at
        # Where the attempt before was, if another worker would be better.
        self.avoid: str | None = None

    @property
    def is_live(self) -> bool:
        """Whether it has not finished."""
        return self.state in LIVE_STATES

    def locked(self) -> LockedTask:
        """Write it down as the rules read it."""
        counters = (self.failure_count, self.preemption_count, self.free_loss_count)
        return LockedTask(*self.id, self.state, self.attempt, *counters)


class Job:
    """One job, complete as it would be stored."""

    __slots__ = (
        "cancel_mode", "cancel_reason", "counts", "has_started", "id", "spec", "state",
        "submission", "submitted_at", "tasks", "terms", "timed_out",
    )  # fmt: skip

    def __init__(self, job_id: int, submission: Submission, now: datetime) -> None:
        self.id = job_id
        self.submission = submission
        self.spec: JobSpec = submission.spec
        self.terms = terms_of(self.spec)
        self.submitted_at = now
        eligible_at = now + timedelta(seconds=self.spec.start_delay or 0.0)
        self.tasks = [Task(self, index, eligible_at) for index in range(submission.num_tasks)]
        self.counts = dict.fromkeys(TaskState, 0) | {PENDING: len(self.tasks)}
        self.timed_out = 0
        self.has_started = False
        self.state = PENDING
        self.cancel_mode: CancelMode | None = None
        self.cancel_reason: str | None = None

    @property
    def is_live(self) -> bool:
        """Whether it has not ended and nobody has cancelled it."""
        return self.state in LIVE_STATES and self.cancel_mode is None

    def derive_state(self) -> TaskState:
        """Ask the rule for its state, by the counts of its tasks."""
        return job_state(
            JobCounts._make([*(self.counts[state] for state in _COUNTED), self.timed_out]),
            fan_out=self.spec.replicas is None,
            max_task_failures=self.spec.max_task_failures,
            cancel=self.cancel_mode,
            has_started=self.has_started,
        )


class Move(NamedTuple):
    """A task went from one state to another; `verdict` is what an end has led to."""

    task: Task
    start: TaskState
    to: TaskState
    at: datetime
    decided: DecidedEnd | None = None


class Listener(Protocol):
    """Hears what has changed: for who keeps lines, slots and counts."""

    def on_move(self, move: Move) -> None:
        """A task has moved."""

    def on_release(self, lease: Lease, now: datetime) -> None:
        """An attempt is gone, and what it held is free."""

    def on_job_end(self, job: Job, now: datetime) -> None:
        """A job has ended; some of its attempts may still be ending."""


class Ledger:
    """All jobs, and the leases of their open and ending attempts."""

    def __init__(self, seed: object, listener: Listener) -> None:
        self.jobs: dict[int, Job] = {}
        self.leases: dict[TaskId, Lease] = {}
        self.watch: Watch | None = None
        self._random = Random(f"ledger {seed}")
        self._listener = listener

    def submit(self, submission: Submission, now: datetime) -> Job:
        """Store a job; it is complete already."""
        job = Job(len(self.jobs) + 1, submission, now)
        self.jobs[job.id] = job
        return job

    def lease(self, task: Task, worker_id: str, now: datetime) -> Lease:
        """Give a waiting task to a worker."""
        assert task.lease is None, f"{task.id} has a lease that nobody has released"
        assert task.eligible_at <= now, f"{task.id} is not to start yet"
        token = UUID(int=self._random.getrandbits(128), version=4)
        lease = task.lease = self.leases[task.id] = Lease(task, token, worker_id, now=now)
        self._move(task, TaskState.ASSIGNED, now)
        self._settle(task.job, now)
        return lease

    def start(self, fence: Fence, state: TaskState, now: datetime) -> None:
        """Record how far an open attempt has come, unless that is known. Raises LeaseConflict."""
        lease = self.find(fence)
        task = lease.task
        if lease.ending or not is_ahead(state, task.state):
            return
        timeout = task.job.terms.run_timeout
        if lease.started_at is None:
            lease.started_at = now
            lease.run_deadline_at = None if timeout is None else now + timeout
        self._move(task, state, now)
        self._settle(task.job, now)

    def succeed(self, fence: Fence, now: datetime) -> None:
        """Record a success, or that an attempt that was ended before is gone."""
        lease = self.find(fence)
        task = lease.task
        if lease.ending:
            self._release(lease, now)
            return
        if task.state != RUNNING:
            self.start(fence, RUNNING, now)
        self._release(lease, now)
        self._move(task, SUCCEEDED, now)
        self._settle(task.job, now)

    def renew(self, fence: Fence, now: datetime) -> Lease:
        """Let a lease, ending or not, hold anew from now on. Raises LeaseConflict."""
        lease = self.find(fence)
        lease.expires_at = max(lease.expires_at, now + lease.task.job.terms.lease_duration)
        return lease

    def find(self, fence: Fence) -> Lease:
        """Find the lease that a fence speaks for. Raises LeaseConflict."""
        lease = self.leases.get(fence.task_id)
        if lease is None or lease.fence != fence:
            raise LeaseConflict(fence.task_id, f"attempt {fence.attempt} holds no lease")
        return lease

    def end(self, tasks: Iterable[Task], judge: Judge, now: datetime) -> list[DecidedEnd]:
        """End attempts as `holdfast.operations.ending.attempts` does: judge, decide, write."""
        chosen: dict[TaskId, Task] = {}
        for task in tasks:
            members = task.job.tasks if task.job.terms.is_gang else [task]
            chosen |= {each.id: each for each in members}
        asked = [chosen[task_id] for task_id in sorted(chosen)]
        leases = {task.id: self._lock(task.lease) for task in asked if task.lease is not None}
        terms = {task.job.id: task.job.terms for task in asked}
        ends: dict[TaskId, AttemptEnd] = {}
        for task_id, locked in leases.items():
            judged = judge(locked, terms[task_id.job_id])
            if judged == "gone":
                self._release(self.leases[task_id], now)
            elif judged is not None:
                ends[task_id] = judged
        decided = decide_ends(
            ends,
            {task.id: task.locked() for task in asked},
            leases,
            terms_by_job=terms,
            jitters={task_id: self._random.random() for task_id in ends},
        )
        for item in decided:
            self._write_end(chosen[item.task.id], item, now)
        for job in {item.task.job_id: chosen[item.task.id].job for item in decided}.values():
            self._settle(job, now)
        return decided

    def note_pass(self, now: datetime) -> Watch:
        """Note that the leases are looked at; an outage is a gap between two looks."""
        self.watch = next_watch(self.watch or Watch(now), now)
        return self.watch

    def cancel(self, job: Job, mode: CancelMode, now: datetime, *, reason: str) -> None:
        """Cancel a job, and all of its tasks with it."""
        if job.state not in LIVE_STATES or job.cancel_mode in ("hard", mode):
            return
        job.cancel_mode, job.cancel_reason = mode, reason
        self._stop_tasks(job, mode, now, reason=reason)
        self._settle(job, now)

    def _write_end(self, task: Task, item: DecidedEnd, now: datetime) -> None:
        lease, verdict, end = task.lease, item.verdict, item.end
        assert lease is not None, f"an attempt of {task.id} ended without a lease"
        task.failure_count, task.preemption_count = verdict.failure_count, verdict.preemption_count
        self._move(task, verdict.state, now, decided=item)
        lease.ending = True
        if isinstance(verdict, TaskRetried):
            task.free_loss_count = verdict.free_loss_count
            terms = task.job.terms
            # A placed retry keeps away from the worker of the attempt before, where it can.
            task.avoid = lease.worker_id if terms.placed and not terms.is_gang else None
            task.attempt += 1
            task.eligible_at = now + timedelta(seconds=verdict.delay)
            self._move(task, PENDING, now)
        elif isinstance(verdict, TaskDeadLettered):
            self._move(task, TaskState.DEAD_LETTERED, now, decided=item)
        elif isinstance(end.outcome, Killed) and end.outcome.timed_out:
            task.job.timed_out += 1
        if end.released:
            self._release(lease, now)

    def _release(self, lease: Lease, now: datetime) -> None:
        """Give up a lease: its process is gone, and so is its claim on what it held."""
        del self.leases[lease.task.id]
        lease.task.lease = None
        self._listener.on_release(lease, now)

    def _move(
        self, task: Task, to: TaskState, now: datetime, *, decided: DecidedEnd | None = None
    ) -> None:
        start = task.state
        if to not in LEGAL_MOVES[start]:
            raise IllegalMove(f"{task.id}: {start.name} to {to.name}")
        task.state = to
        task.job.counts[start] -= 1
        task.job.counts[to] += 1
        self._listener.on_move(Move(task, start, to, now, decided))

    def _settle(self, job: Job, now: datetime) -> None:
        """Let the job's state follow its tasks; what is left of one that has ended is stopped."""
        derived = job.derive_state()
        if job.state not in LIVE_STATES or derived == job.state:
            return
        if derived not in LEGAL_JOB_MOVES[job.state]:
            raise IllegalMove(f"job {job.id}: {job.state.name} to {derived.name}")
        job.state = derived
        job.has_started = job.has_started or derived == RUNNING
        if derived not in LIVE_STATES:
            self._stop_tasks(job, "hard", now, reason=f"its job is {derived.name}")
            self._listener.on_job_end(job, now)

    def _stop_tasks(self, job: Job, mode: CancelMode, now: datetime, *, reason: str) -> None:
        running = [task for task in job.tasks if task.state in OPEN_STATES]
        for task in job.tasks:
            if task.state == PENDING:
                self._move(task, TaskState.KILLED, now)
        if mode == "soft":
            for lease in filter(None, map(attrgetter("lease"), running)):
                lease.cancelled = True
                lease.cancel_deadline_at = now + timedelta(seconds=job.terms.grace)
        elif running:
            killed = AttemptEnd(Killed(reason), released=False)
            self.end(running, lambda lease, _: None if lease.ending else killed, now)

    def _lock(self, lease: Lease) -> LockedLease:
        job = lease.task.job
        return LockedLease(
            *lease.task.id,
            lease.attempt,
            lease.token,
            lease.worker_id,
            lease.ending,
            lease.cancelled,
            job.cancel_reason,
            lease.expires_at,
            lease.run_deadline_at,
            lease.cancel_deadline_at,
            job.cancel_mode,
            job.is_live,
            job.cancel_reason,
            lease.acknowledged,
        )
