"""A ledger in memory: what the rules say should be answered, and should be in the tables.

Answers are what an operation should answer; "conflict" stands for a refusal.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from holdfast.model.submitting.spec import JobSpec
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import (
    CancelMode,
    Failed,
    Killed,
    Outcome,
    Succeeded,
    WorkerFailed,
)
from holdfast.model.work.states import ENDED_STATES, OPEN_STATES, TaskState
from holdfast.model.workers.resources import Resources
from holdfast.operations.follow_up import SMALL_TASKS_MAX
from holdfast.rules.lifecycle import is_ahead
from holdfast.rules.outage import is_free, is_waiting, next_watch
from holdfast.rules.retry import dead_letter_by_operator
from holdfast.rules.submitting.submission import terms_of
from tests.operations.model_state import ModelJob, ModelLease, ModelState, ModelTask

CONFLICT = "conflict"
PENDING = TaskState.PENDING


class LedgerModel(ModelState):
    """What people and workers do, and what they should be answered."""

    def submit(
        self, job_id: int, spec: JobSpec, *, count: int, fan_out: bool, parent: int | None
    ) -> None:
        """Take in a job."""
        policy = terms_of(spec)
        start = datetime.fromtimestamp(spec.not_before or 0.0, UTC)
        tasks = [ModelTask(TaskId(job_id, index), max(self.now, start)) for index in range(count)]
        needs = spec.resources
        job = ModelJob(job_id, policy, fan_out, spec.max_task_failures, tasks, parent, needs)
        self.jobs[job_id] = job
        for task in tasks:
            self.promote(task)

    def count_stale(self) -> int:
        """Count the rows that nobody can claim and that may still stand in line."""
        left = sum(task.ready and not self.job_of(task).is_live for task in self.tasks())
        return self.went_stale + left

    def claimable(self, queues: Iterable[str]) -> list[ModelTask]:
        """List what may be claimed, in the order in which it is."""
        open_queues = set(queues) - self.paused
        found = [
            task
            for task in self.tasks()
            if self.is_claimable(task) and self.job_of(task).terms.queue in open_queues
        ]
        return sorted(found, key=self.turn)

    def turn(self, task: ModelTask) -> tuple[int, datetime]:
        """Tell a task's place in line."""
        return -self.job_of(task).terms.priority, task.eligible_at

    def claim(self, task: ModelTask, worker: str, token: object) -> None:
        """Lease a task."""
        task.ready = False
        task.move(TaskState.ASSIGNED)
        lease = timedelta(seconds=self.job_of(task).terms.lease)
        task.lease = ModelLease(task.attempt, token, worker, self.now + lease)
        self.settle(self.job_of(task))

    def cpu_of(self, worker: str) -> float:
        """Add up the cores that a worker's leases have booked."""
        held = [task for task in self.tasks() if task.lease and task.lease.worker == worker]
        return sum(need.cpu for task in held if (need := self.needs_of(task)))

    def needs_of(self, task: ModelTask) -> Resources | None:
        """Tell what a task needs of its worker, if it says so."""
        return self.job_of(task).resources

    def place(self, task: ModelTask, worker: str, token: object, devices: list[str]) -> None:
        """Lease a task with devices, as many as it wants, that no attempt has which may live."""
        used = {device for each in self.tasks() if each.lease for device in each.lease.devices}
        assert len(set(devices)) == len(devices) == getattr(self.needs_of(task), "gpu", 0)
        assert not used & set(devices), f"{devices} of {task.id} are in use"
        self.claim(task, worker, token)
        assert task.lease is not None
        task.lease.devices = devices
        task.story[-1] = "placed"

    def report(self, fence: Fence, state: TaskState) -> bool | str:
        """Record a start; answers whether it was news."""
        task, lease = self.held(fence)
        if task is None or lease is None:
            return CONFLICT
        if lease.ending or not is_ahead(state, task.state):
            return False
        timeout = self.job_of(task).terms.timeout
        if timeout is not None and lease.run_deadline is None:
            lease.run_deadline = self.now + timedelta(seconds=timeout)
        task.move(state)
        self.settle(self.job_of(task))
        return True

    def renew(self, fence: Fence) -> CancelMode | str | None:
        """Renew a lease; answers what is asked of its holder."""
        task, lease = self.held(fence)
        if task is None or lease is None:
            return CONFLICT
        duration = timedelta(seconds=self.job_of(task).terms.lease)
        lease.expires_at = max(lease.expires_at, self.now + duration)
        return "hard" if lease.ending else "soft" if lease.cancelled else None

    def note(self, fence: Fence) -> bool | str:
        """Keep an event of user code; answers whether its attempt may still say something."""
        task, lease = self.held(fence)
        if task is None or lease is None or lease.ending:
            return CONFLICT
        task.notes += 1
        return True

    def complete(self, fence: Fence, status: str, error_class: str, stage: str) -> bool | str:
        """End an attempt by its worker's word; answers whether that was accepted."""
        task, lease = self.held(fence)
        if task is None or lease is None:
            told = {} if task is None else task.told
            # A repeat is answered as the first time; another story than the first is not one.
            return True if told.get(fence) == (status == "succeeded") else CONFLICT
        if lease.ending:
            self.release(task)
            return False
        if has_run(status, stage) and is_ahead(TaskState.RUNNING, task.state):
            task.move(TaskState.RUNNING)
        task.told[fence] = status == "succeeded"
        outcome = outcome_of(status, error_class, stage, self.cancel_of(task))
        if status == "worker_failed":
            outcome = WorkerFailed(status, free=self.is_lost_to_an_outage(lease))
        self.end(task, outcome, released=True)
        self.settle(self.job_of(task))
        return True

    def cancel_task(self, task: ModelTask, mode: CancelMode) -> bool:
        """Cancel one task; answers whether that changed anything."""
        changed = self.stop(task, mode)
        self.settle(self.job_of(task))
        return changed

    def cancel_job(self, job: ModelJob, mode: CancelMode) -> bool:
        """Flag a job; answers whether that changed anything."""
        if job.state in ENDED_STATES or job.cancel in ("hard", mode):
            return False
        job.cancel = mode
        job.story.append("cancel_requested")
        self.outbox.append(("sweep", job))
        return True

    def dead_letter(self, task: ModelTask) -> bool:
        """Send a task to the dead letters; answers whether it could be."""
        verdict = dead_letter_by_operator(task.counters)
        if task.state in OPEN_STATES:
            self.end(task, Killed("an operator's call"), released=False, verdict=verdict)
        elif task.state == PENDING:
            self.leave_line(task)
            task.move(TaskState.DEAD_LETTERED)
            task.finished = True
        else:
            return False
        self.settle(self.job_of(task))
        return True

    def is_lost_to_an_outage(self, lease: ModelLease) -> bool:
        """Tell whether a lease ran out while nobody was there to renew it, reaper or not."""
        watch = next_watch(self.watch, self.now)
        return lease.expires_at <= self.now and is_free(watch, lease.expires_at)

    def replace(self, worker: str) -> None:
        """Take over from an incarnation that is gone."""
        self.lost.add(worker)
        self.end_many(
            [
                (task, WorkerFailed("replaced", free=self.is_lost_to_an_outage(task.lease)), True)
                for task in self.tasks()
                if task.lease is not None and task.lease.worker == worker
            ]
        )

    def lose(self, worker: str) -> None:
        """End what a dead incarnation had; its processes may live as long as their leases."""
        self.lost.add(worker)
        self.end_many(
            [
                (task, WorkerFailed("lost", free=self.is_lost_to_an_outage(task.lease)), False)
                for task in self.tasks()
                if task.lease is not None and task.lease.worker == worker and not task.lease.ending
            ]
        )


def reap(model: LedgerModel) -> None:
    """End what has run out of time."""
    model.watch = next_watch(model.watch, model.now)
    endings: list[tuple[ModelTask, Outcome, bool]] = []
    for task in model.tasks():
        lease = task.lease
        if lease is None:
            continue
        policy = model.job_of(task).terms
        if lease.expires_at <= model.now and not is_waiting(model.watch, model.now):
            free = is_free(model.watch, lease.expires_at)
            endings.append((task, WorkerFailed("lease expired", free=free), True))
        elif lease.ending:
            continue
        elif lease.cancel_deadline is not None and lease.cancel_deadline <= model.now:
            endings.append((task, Killed("cancelled"), False))
        elif lease.run_deadline is not None and lease.run_deadline <= model.now:
            late: Outcome = (
                Killed("timeout", timed_out=True)
                if policy.on_timeout == "kill"
                else Failed("too long", error_class="Timeout")
            )
            endings.append((task, late, False))
    model.end_many(endings)


def requeue(model: LedgerModel) -> None:
    """Make ready what is due."""
    for task in model.tasks():
        if task.lease is None:
            model.promote(task)


def give_up(model: LedgerModel) -> None:
    """End what nobody took in time."""
    late = [
        task
        for task in model.tasks()
        if task.ready and task.unschedulable_at is not None and task.unschedulable_at <= model.now
    ]
    for task in late:
        task.ready = False
        task.move(TaskState.UNSCHEDULABLE)
        task.finished = True
    for job in {task.id.job_id: model.job_of(task) for task in late}.values():
        model.settle(job)


def follow_up(model: LedgerModel) -> None:
    """Do what follows downward, until nothing is left to do."""
    while model.outbox:
        rows, model.outbox = model.outbox, []
        # Small jobs are swept together, before anything is done row by row.
        rows.sort(key=lambda row: row[0] != "sweep" or len(row[1].tasks) > SMALL_TASKS_MAX)
        for kind, job in rows:
            if kind == "sweep":
                soft = job.cancel == "soft" and job.state not in ENDED_STATES
                for task in job.tasks:
                    model.stop(task, "soft" if soft else "hard")
                model.settle(job)
            else:
                mode: CancelMode = "soft" if job.cancel == "soft" else "hard"
                for child in model.jobs.values():
                    if child.parent == job.id:
                        model.cancel_job(child, mode)


def outcome_of(status: str, error_class: str, stage: str, cancel: CancelMode | None) -> Outcome:
    """Say what a worker's report means, given how the end was asked for."""
    match status:
        case "succeeded":
            return Succeeded()
        case "failed":
            return Failed("boom", error_class, stage)  # type: ignore[arg-type]
        case "killed":
            return Killed("cancelled") if cancel else WorkerFailed("unasked")
        case _:
            return WorkerFailed(status, free=status == "handed_back")


def has_run(status: str, stage: str) -> bool:
    """Tell whether a report of the end says that user code had started."""
    return status == "succeeded" or (status == "failed" and stage not in ("fetch", "input"))
