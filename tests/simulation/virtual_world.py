"""A virtual world: a ledger and its leader, hosts, a network between them, and what must hold."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.work.ids import TaskId, parse_task_id
from holdfast.model.work.outcomes import Failed, WorkerFailed
from holdfast.model.work.states import LIVE_STATES, OPEN_STATES, TaskState
from holdfast.rules.retry import FREE_LOSSES_MAX
from holdfast.rules.submitting.submission import complete_submission, parse_spec
from holdfast.simulation.agenda import Agenda
from holdfast.simulation.buckets import Buckets
from holdfast.simulation.fleet import Worker
from holdfast.simulation.giving import Giver
from holdfast.simulation.ledger import Job, Lease, Ledger, Move, Task
from holdfast.simulation.lines import Lines
from holdfast.store.specs import StoredSpec
from holdfast.worker.placed.attempt import TakeoverRecord
from tests.simulation.scenario import ENDED_BY, Fault, JobPlan, Scenario
from tests.simulation.virtual_host import VirtualHost
from tests.simulation.virtual_leader import Leader
from tests.simulation.virtual_network import Network

START = datetime(2030, 1, 1, tzinfo=UTC)
PASS_SECONDS = 0.1
LOSSES_MAX = 3


class Broken(AssertionError):
    """Something must never be, and was."""


class Running(NamedTuple):
    """A process of user code."""

    host: VirtualHost
    attempt: int
    cpu: int
    began_at: float


class World:
    """One run of a scenario. It hears of every change in its ledger."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.agenda = Agenda()
        self.network = Network(self.agenda)
        self.ledger = Ledger(0, self)
        self.fleet: list[Worker] = []
        limit = scenario.limit
        limits = {"most": UsageLimit(scope="owner", kind="concurrency", most=limit or 1)}
        self._buckets = Buckets(limits if limit is not None else {})
        self._lines = Lines(self._buckets, {})
        self._giver = Giver(self.fleet, self._lines, self._buckets, shares={}, give=self._give)
        self.leader = Leader(self)
        self.hosts = [VirtualHost(self, index) for index in range(scenario.hosts)]
        self.story: list[str] = []
        self._plans: dict[int, JobPlan] = {}
        self._stored: dict[int, StoredSpec] = {}
        self._running: dict[TaskId, Running] = {}
        self._last_begun: dict[TaskId, int] = {}
        self._ends: dict[TaskId, Counter[str]] = {}
        self._has_pass = False

    @property
    def now(self) -> float:
        """The time, in seconds since the world began."""
        return self.agenda.now

    @property
    def date(self) -> datetime:
        """The time by the clock of the ledger."""
        return START + timedelta(seconds=self.agenda.now)

    def play(self) -> None:
        """Let everything happen. Raises Broken."""
        for plan in self.scenario.jobs:
            self.agenda.note(plan.at, partial(self._submit, plan))
        for fault in self.scenario.faults:
            self.agenda.note(fault.at, partial(self._begin, fault))
        for host in self.hosts:
            host.boot()
        self.leader.reap()
        last = max([each.at + each.seconds for each in self.scenario.faults], default=0.0)
        last = max([last, *(plan.at for plan in self.scenario.jobs)])
        until = 0.0
        while until < last or not self.is_over():
            if until > last + ENDED_BY:
                raise Broken(f"not all has ended: {self._describe_left()}")
            until += 5.0
            self.agenda.run(until)

    def is_over(self) -> bool:
        """Tell whether all jobs have ended, and nothing is left of them."""
        jobs = self.ledger.jobs.values()
        return (
            all(job.state not in LIVE_STATES for job in jobs)
            and not self.ledger.leases
            and not self._running
        )

    def tell(self, text: str) -> None:
        """Go on with the story."""
        self.story.append(f"{self.now:7.2f}  {text}")

    def plan_of(self, task_id: str) -> JobPlan:
        """Say what a task does."""
        return self._plans[parse_task_id(task_id).job_id]

    def stored(self, job: Job) -> StoredSpec:
        """Give a job as the leader has it at hand."""
        return self._stored[job.id]

    def wake(self) -> None:
        """Have the scheduler look soon."""
        if not self._has_pass:
            self._has_pass = True
            self.agenda.note(self.now + PASS_SECONDS, self._make_pass)

    def on_move(self, move: Move) -> None:
        """A task has moved."""
        task = move.task
        self.tell(f"{task.id} attempt {task.attempt}: {move.start.name} to {move.to.name}")
        if move.decided is not None and move.to in (TaskState.FAILED, TaskState.WORKER_FAILED):
            self._count_end(move)

    def on_release(self, lease: Lease, now: datetime) -> None:
        """An attempt is gone, says the ledger: then it must be."""
        running = self._running.get(lease.task.id)
        if running is not None and running.attempt == lease.attempt:
            raise Broken(
                f"the lease of {lease.task.id} attempt {lease.attempt} was given up, "
                f"and its code still runs on {running.host.name}"
            )
        for worker in self.fleet:
            if lease in worker.leases:
                worker.release(lease)
        key = self._lines.key_of(lease.task.job)
        self._buckets.give_back(key.limits, key.slots)
        if lease.task.state == TaskState.PENDING:
            self._line_up(lease.task)
        self.wake()

    def on_job_end(self, job: Job, now: datetime) -> None:
        """A job has ended."""
        self.tell(f"job {job.id} is {job.state.name}")

    def start_process(self, record: TakeoverRecord, host: VirtualHost) -> None:
        """User code begins. Raises Broken where it must not."""
        task_id, number = parse_task_id(record.task_id), record.attempt
        self.tell(f"{task_id} attempt {number}: its code begins on {host.name}")
        other = self._running.get(task_id)
        if other is not None:
            raise Broken(f"{task_id}: attempt {number} begins beside attempt {other.attempt}")
        if number <= self._last_begun.get(task_id, -1):
            raise Broken(f"{task_id}: attempt {number} begins a second time, or after a later one")
        plan = self._plans[task_id.job_id]
        self._last_begun[task_id] = number
        self._running[task_id] = Running(host, number, plan.cpu, self.now)
        used = sum(each.cpu for each in self._running.values() if each.host is host)
        if used > self.scenario.cpu:
            raise Broken(f"{host.name} runs {used} cores' worth on {self.scenario.cpu}")
        limit = self.scenario.limit
        if limit is not None and len(self._running) > limit:
            raise Broken(f"{len(self._running)} tasks run under a limit of {limit}")
        mates = {
            each.attempt
            for other_id, each in self._running.items()
            if plan.is_gang and other_id.job_id == task_id.job_id
        }
        if len(mates) > 1:
            raise Broken(f"the gang {task_id.job_id} runs attempts {sorted(mates)} at once")

    def end_process(self, record: TakeoverRecord, why: str) -> None:
        """User code is gone."""
        task_id = parse_task_id(record.task_id)
        self.tell(f"{task_id} attempt {record.attempt}: its code has ended, {why}")
        del self._running[task_id]

    def _count_end(self, move: Move) -> None:
        """Hold the ends of a task's attempts against its budgets."""
        assert move.decided is not None, "it is counted by how it ended"
        job, outcome = move.task.job, move.decided.end.outcome
        ends = self._ends.setdefault(move.task.id, Counter())
        if isinstance(outcome, Failed):
            ends["failed"] += 1
        elif isinstance(outcome, WorkerFailed) and not outcome.free:
            ends["lost unseen" if outcome.excused else "lost"] += 1
        total = Counter[str]()
        for task in job.tasks if job.terms.is_gang else [move.task]:
            total.update(self._ends.get(task.id, Counter()))
        if not job.terms.is_gang and total["failed"] > job.terms.max_retries_failure + 1:
            raise Broken(f"{move.task.id} has failed {total['failed']} times")
        most = job.terms.max_retries_preemption + 1 + FREE_LOSSES_MAX * (total["failed"] + 1)
        if total["lost"] + total["lost unseen"] > most * len(job.tasks):
            raise Broken(f"{move.task.id} was lost {total['lost']} times, and begins again")

    def _submit(self, plan: JobPlan) -> None:
        fields: dict[str, object] = {
            "entrypoint": {"command": ["work"]},
            "resources": {"cpu": plan.cpu},
            "lease": plan.lease,
            "grace": 3.0,
            "max_retries_failure": plan.retries,
            "max_retries_preemption": LOSSES_MAX,
            "backoff": {"base": 0.5, "ceiling": 2.0},
            "timeout": plan.timeout,
        }
        fields |= {"replicas": plan.tasks, "coscheduling": {}} if plan.is_gang else {}
        inputs = None if plan.is_gang else ("null",) * plan.tasks
        limits = Limits(lease_seconds_min=1.0)
        submission = complete_submission(Submission(parse_spec(fields), inputs), limits)
        job = self.ledger.submit(submission, self.date)
        self.tell(f"job {job.id} is submitted: {plan}")
        self._plans[job.id] = plan
        spec, terms = job.spec, job.terms
        self._stored[job.id] = StoredSpec(spec, terms, "work", plan.tasks, str(job.id), None, {})
        for task in job.tasks:
            self._line_up(task)
        if plan.cancel is not None:
            mode, at = plan.cancel
            self.agenda.note(at, lambda: self._cancel(job, mode))

    def _cancel(self, job: Job, mode: "str") -> None:
        self.tell(f"job {job.id} is cancelled, {mode}")
        self.ledger.cancel(job, "soft" if mode == "soft" else "hard", self.date, reason="asked to")

    def _line_up(self, task: Task) -> None:
        seconds = (task.eligible_at - START).total_seconds()
        self.agenda.note(seconds, partial(self._stand_in_line, task, task.attempt))

    def _stand_in_line(self, task: Task, attempt: int) -> None:
        if task.state == TaskState.PENDING and task.attempt == attempt:
            self._lines.add(task)
            self.wake()

    def _make_pass(self) -> None:
        self._has_pass = False
        if self.leader.is_there:
            self._giver.run(self.date)
            self._check_gangs()

    def _give(self, task: Task, worker: Worker) -> Lease:
        lease = self.ledger.lease(task, worker.id, self.date)
        self.leader.call_about(lease)
        used = worker.count_used().cpu + self._plans[task.id.job_id].cpu
        if used > self.scenario.cpu:
            raise Broken(f"{worker.id} was given {used} cores' worth of {self.scenario.cpu}")
        return lease

    def _check_gangs(self) -> None:
        for job in self.ledger.jobs.values():
            if job.terms.is_gang and job.is_live:
                live = [task for task in job.tasks if task.is_live]
                attempts = {task.attempt for task in live}
                if len(attempts) > 1:
                    raise Broken(f"members of gang {job.id} are at attempts {sorted(attempts)}")
                placed = sum(task.state in OPEN_STATES for task in live)
                if placed not in (0, len(live)):
                    raise Broken(f"of gang {job.id}, {placed} of {len(live)} are placed")

    def _begin(self, fault: Fault) -> None:
        self.tell(str(fault))
        host = self.hosts[fault.host]
        worker = host.worker
        end = lambda: None  # noqa: E731
        match fault.kind:
            case "worker dies":
                host.kill_worker()
                end = host.boot
            case "worker freezes" if worker is not None:
                worker.is_frozen = True
                end = worker.thaw
            case "host dies":
                host.die()
                end = host.boot
            case "leader changes":
                self.leader.succeed()
            case "server away":
                self.leader.leave()
                end = self.leader.come_back
            case "cut" | "requests lost" | "answers lost" | "slow" | "said twice":
                self.network.begin(fault)
                end = partial(self.network.end, fault)
        self.agenda.note(fault.at + fault.seconds, end)

    def _describe_left(self) -> str:
        jobs = [f"job {job.id} is {job.state.name}" for job in self.ledger.jobs.values()]
        leases = [f"{task_id} has a lease" for task_id in self.ledger.leases]
        return ", ".join([*jobs, *leases, *(f"{task_id} runs" for task_id in self._running)])
