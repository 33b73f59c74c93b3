"""The state of a ledger in memory, as small as it can be, and the steps changes are made of.

Every decision is asked of `holdfast.rules`; this file only keeps what they are asked about, and the
time, which stands still between steps.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from holdfast.model.submitting.spec import TaskTerms
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import (
    CancelMode,
    Killed,
    Outcome,
    TaskDeadLettered,
    TaskRetried,
    TaskVerdict,
)
from holdfast.model.work.states import ENDED_STATES, OPEN_STATES, JobState, TaskState
from holdfast.model.workers.resources import Resources
from holdfast.rules.job_state import JobCounts, job_state
from holdfast.rules.lifecycle import EVENT_TYPES
from holdfast.rules.outage import Watch
from holdfast.rules.retry import Counters, after_attempt, as_recorded

PENDING, KILLED = TaskState.PENDING, TaskState.KILLED
NO_COUNTERS = Counters()


@dataclass
class ModelLease:
    """The open or ending attempt of a task."""

    attempt: int
    token: object
    worker: str
    expires_at: datetime
    ending: bool = False
    cancelled: bool = False
    cancel_deadline: datetime | None = None
    run_deadline: datetime | None = None
    devices: list[str] = field(default_factory=list)


@dataclass
class ModelTask:
    """One task, and everything that ever happened to it."""

    id: TaskId
    eligible_at: datetime
    state: TaskState = PENDING
    attempt: int = 0
    counters: Counters = NO_COUNTERS
    finished: bool = False
    lease: ModelLease | None = None
    ready: bool = False
    delay: float = 0.0
    unschedulable_at: datetime | None = None
    attempts: list[TaskState] = field(default_factory=list)
    told: dict[Fence, bool] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)
    notes: int = 0

    def move(self, state: TaskState) -> None:
        """Go on to a state, and tell it."""
        self.state = state
        self.story.append(EVENT_TYPES[state])


@dataclass
class ModelJob:
    """One job: its state follows from its tasks."""

    id: int
    terms: TaskTerms
    fan_out: bool
    tolerated: int | None
    tasks: list[ModelTask]
    parent: int | None = None
    resources: Resources | None = None
    state: JobState = PENDING
    started: bool = False
    cancel: CancelMode | None = None
    timed_out: int = 0
    moves: int = 0  # of its tasks, when its state was derived last
    story: list[str] = field(default_factory=lambda: ["submitted"])

    @property
    def is_live(self) -> bool:
        """Tell whether its tasks may be claimed and retried."""
        return self.cancel is None and self.state not in ENDED_STATES

    def counts(self) -> JobCounts:
        """Count the tasks by state."""
        states = [task.state for task in self.tasks]
        names = {state.name.lower(): states.count(state) for state in TaskState}
        return JobCounts(**names, timed_out=self.timed_out)


class ModelState:
    """All jobs, and the steps that every change is made of."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.jobs: dict[int, ModelJob] = {}
        self.watch = Watch(now)
        self.outbox: list[tuple[str, ModelJob]] = []
        self.lost: set[str] = set()
        self.paused: set[str] = set()
        self.went_stale = 0

    def tasks(self) -> Iterable[ModelTask]:
        """Go through all tasks, in the order of their ids."""
        return (task for job in self.jobs.values() for task in job.tasks)

    def job_of(self, task: ModelTask) -> ModelJob:
        """Find a task's job."""
        return self.jobs[task.id.job_id]

    def is_claimable(self, task: ModelTask) -> bool:
        """Tell whether a task could be handed out if its queue is not paused."""
        return task.ready and task.state == PENDING and self.job_of(task).is_live

    def find(self, task_id: TaskId) -> ModelTask | None:
        """Find a task, if there is one."""
        job = self.jobs.get(task_id.job_id)
        tasks = job.tasks if job is not None else []
        return tasks[task_id.task_index] if task_id.task_index < len(tasks) else None

    def held(self, fence: Fence) -> tuple[ModelTask | None, ModelLease | None]:
        """Find the task and, if the fence fits, its lease."""
        task = self.find(fence.task_id)
        if task is None or task.lease is None:
            return task, None
        lease = task.lease
        matches = (lease.attempt, lease.token) == (fence.attempt, fence.lease_token)
        return task, lease if matches else None

    def cancel_of(self, task: ModelTask) -> CancelMode | None:
        """Tell how the end of an open attempt was asked for."""
        assert task.lease is not None
        job = self.job_of(task)
        return "soft" if task.lease.cancelled or job.cancel == "soft" else job.cancel

    def stop(self, task: ModelTask, mode: CancelMode) -> bool:
        """Kill what has not begun; stop what runs. Tells whether that changed anything."""
        if task.state == PENDING:
            self.leave_line(task)
            task.move(KILLED)
            task.finished = True
            return True
        if task.state not in OPEN_STATES:
            return False
        assert task.lease is not None
        if mode == "hard":
            self.end(task, Killed("cancelled"), released=False)
            return True
        if task.lease.cancelled:
            return False
        task.lease.cancelled = True
        grace = timedelta(seconds=self.job_of(task).terms.grace)
        task.lease.cancel_deadline = self.now + grace
        return True

    def end_many(self, endings: list[tuple[ModelTask, Outcome, bool]]) -> None:
        """End attempts, or release those that have ended, as one transaction does."""
        for task, outcome, released in endings:
            if task.lease is not None and task.lease.ending:
                self.release(task)
            else:
                self.end(task, outcome, released=released)
        for job in {task.id.job_id: self.job_of(task) for task, _, _ in endings}.values():
            self.settle(job)

    def end(
        self,
        task: ModelTask,
        outcome: Outcome,
        *,
        released: bool,
        verdict: TaskVerdict | None = None,
    ) -> None:
        """End an open attempt, and let its task go where the rules say."""
        assert task.lease is not None
        job = self.job_of(task)
        outcome = as_recorded(outcome, self.cancel_of(task))
        verdict = verdict or after_attempt(
            task.counters, outcome, job.terms, job_is_live=job.is_live, jitter=0.5
        )
        job.timed_out += isinstance(outcome, Killed) and outcome.timed_out
        task.move(verdict.state)
        task.attempts.append(verdict.state)
        losses = verdict.free_loss_count if isinstance(verdict, TaskRetried) else None
        task.counters = Counters(
            verdict.failure_count,
            verdict.preemption_count,
            task.counters.free_loss_count if losses is None else losses,
        )
        if released:
            task.lease = None
        else:
            task.lease.ending = True
        if isinstance(verdict, TaskRetried):
            task.move(PENDING)
            task.attempt += 1
            task.delay = verdict.delay
            task.eligible_at = self.now + timedelta(seconds=verdict.delay)
            if released:
                self.promote(task)
            return
        if isinstance(verdict, TaskDeadLettered):
            task.move(TaskState.DEAD_LETTERED)
        task.finished = True

    def release(self, task: ModelTask) -> None:
        """Give up a lease whose attempt has ended."""
        task.lease = None
        self.promote(task)

    def promote(self, task: ModelTask) -> None:
        """Put a task in line if its time has come."""
        if task.state == PENDING and not task.ready and task.eligible_at <= self.now:
            task.ready = True
            timeout = self.job_of(task).terms.scheduling_timeout
            if timeout is not None:
                task.unschedulable_at = self.now + timedelta(seconds=timeout)

    def leave_line(self, task: ModelTask) -> None:
        """Take a task out of line; its row there is stale now."""
        self.went_stale += task.ready
        task.ready = False

    def settle(self, job: ModelJob) -> None:
        """Let a job's state follow from its tasks."""
        moves = sum(len(task.story) for task in job.tasks)
        # As the ledger looks when tasks have moved. A flag, a lease told or released are no moves.
        if job.state in ENDED_STATES or moves == job.moves:
            return
        job.moves = moves
        counts = job.counts()
        following = job_state(
            counts,
            fan_out=job.fan_out,
            max_task_failures=job.tolerated,
            cancel=job.cancel,
            has_started=job.started,
        )
        if following == job.state:
            return
        job.state = following
        job.story.append("started" if following == JobState.RUNNING else EVENT_TYPES[following])
        job.started |= following == JobState.RUNNING
        if following in ENDED_STATES:
            self.outbox += [("sweep", job)] if counts.live else []
            self.outbox += [("job_ended", job)] if following != JobState.SUCCEEDED else []
