"""A run of a plan: what comes when, and what the rules make of it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from random import Random

from holdfast.model.submitting.policies import TypePolicy
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.work.states import TaskState
from holdfast.rules.policies.check import check_policy, count_retries
from holdfast.rules.submitting.submission import complete_submission, parse_spec
from holdfast.simulation.agenda import Agenda, Entry
from holdfast.simulation.buckets import Buckets
from holdfast.simulation.fleet import Worker, make_fleet
from holdfast.simulation.giving import Giver
from holdfast.simulation.ledger import Job, Lease, Ledger, Move, Task
from holdfast.simulation.lines import Lines
from holdfast.simulation.plan import DAY, Arrivals, Plan, Work
from holdfast.simulation.processes import Processes
from holdfast.simulation.report import Report
from holdfast.simulation.shares import ShareBook
from holdfast.simulation.tally import Tally
from holdfast.simulation.timetable import Timetable

# How long what is new stands in line before a pass looks at it, with all that came meanwhile.
PASS_SECONDS = 0.1
LIMITS = Limits()


def run(plan: Plan, *, seed: int, days: float = 30.0) -> Report:
    """Play a plan out; the same plan and seed give the same report, byte for byte."""
    plan.check()
    return _Run(plan, seed).play(days * DAY)


class _Run:
    """One run. It hears of every change in its ledger, and keeps lines and slots by that."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self._plan = plan
        self._seed = seed
        self._agenda = Agenda()
        self._tally = Tally()
        self._ledger = Ledger(seed, self)
        self._workers = make_fleet(list(plan.fleet))
        self._buckets = Buckets(plan.limits)
        self._shares = {queue: ShareBook(queue, rule) for queue, rule in plan.shares.items()}
        share_by = {queue: str(rule.share_by) for queue, rule in plan.shares.items()}
        self._lines = Lines(self._buckets, share_by)
        workers = list(self._workers.values())
        self._giver = Giver(
            workers, self._lines, self._buckets, shares=self._shares, give=self._give
        )
        self._policies = _complete(plan.policies)
        self._work: dict[int, Work] = {}
        self._submissions: dict[tuple[str, str, str], Submission] = {}
        self._processes = Processes(
            self._agenda,
            self._ledger,
            work_of=lambda task: self._work[task.id.job_id],
            date=self._date,
            seed=seed,
        )
        self._timetable = Timetable(
            plan,
            self._agenda,
            self._ledger,
            tally=self._tally,
            submit=self._submit,
            ask_to_stop=self._ask_to_stop,
        )
        self._is_served = True
        self._pass: Entry | None = None

    def play(self, seconds: float) -> Report:
        """Let so much time pass."""
        for arrivals in self._plan.arrivals:
            self._expect(arrivals, Random(f"{arrivals.name} {self._seed}"), arrivals.since)
        for worker in self._workers.values():
            random = Random(f"{worker.id} {self._seed}")
            self._expect_breakdown(worker, random)
            for outage in worker.kind.outages:
                self._agenda.note(outage.at, partial(self._leave, worker))
                self._agenda.note(outage.at + outage.seconds, partial(self._come_back, worker))
        for outage in self._plan.outages:
            self._agenda.note(outage.at, self._begin_outage)
            self._agenda.note(outage.at + outage.seconds, self._end_outage)
        self._agenda.run(seconds)
        return self._report(seconds)

    def on_move(self, move: Move) -> None:
        """A task has moved."""
        self._tally.note_move(move)
        if move.decided is not None and not move.decided.end.released:
            lease = move.task.lease
            assert lease is not None, "what is not released has its lease"
            self._processes.stop(lease)

    def on_release(self, lease: Lease, now: datetime) -> None:
        """An attempt is gone: what it held is free, and its task may be next."""
        worker = self._workers[lease.worker_id]
        shape = worker.release(lease)
        self._tally.note_release(worker, shape, (now - lease.leased_at).total_seconds())
        key = self._lines.key_of(lease.task.job)
        self._buckets.give_back(key.limits, key.slots)
        if lease.task.state == TaskState.PENDING:
            self._line_up(lease.task)
        self._wake()

    def on_job_end(self, job: Job, now: datetime) -> None:
        """A job has ended."""
        self._timetable.note_end(job)

    def _date(self, seconds: float) -> datetime:
        return self._plan.start + timedelta(seconds=seconds)

    def _give(self, task: Task, worker: Worker) -> Lease:
        lease = self._ledger.lease(task, worker.id, self._date(self._agenda.now))
        self._tally.note_lease(lease)
        self._processes.begin(lease, worker)
        return lease

    def _submit(self, name: str, work: Work, random: Random | None = None) -> Job:
        chance = random or Random(f"{name} {len(self._ledger.jobs)} {self._seed}")
        owner, key = _draw(work.owners, chance), _draw(work.keys, chance)
        submission = self._submissions.get((name, owner, key))
        if submission is None:
            fields = dict(work.spec) | ({"owner": owner} if owner else {})
            fields |= {"concurrency_key": key} if key else {}
            inputs = None if work.tasks is None else ("null",) * work.tasks
            submission = complete_submission(
                Submission(parse_spec(fields), inputs), LIMITS, self._policies
            )
            self._submissions[name, owner, key] = submission
        job = self._ledger.submit(submission, self._date(self._agenda.now))
        self._work[job.id] = work
        for task in job.tasks:
            self._line_up(task)
        return job

    def _line_up(self, task: Task) -> None:
        at = (task.eligible_at - self._plan.start).total_seconds()
        if at <= self._agenda.now:
            self._stand_in_line(task)
        else:
            self._agenda.note(at, partial(self._stand_in_line, task))

    def _stand_in_line(self, task: Task) -> None:
        if task.state == TaskState.PENDING:
            self._lines.add(task)
            self._wake()

    def _wake(self, seconds: float = PASS_SECONDS) -> None:
        at = self._agenda.now + seconds
        if self._is_served and (self._pass is None or self._pass.at > at):
            if self._pass is not None:
                self._pass.call_off()
            self._pass = self._agenda.note(at, self._make_pass)

    def _make_pass(self) -> None:
        self._pass = None
        if not self._is_served:
            return
        now = self._date(self._agenda.now)
        self._giver.run(now)
        self._tally.note_held(self._giver.held_by, self._agenda.now)
        # A rate lets more start as time goes by.
        opens = (self._buckets.when_open(key, now) for key in self._giver.held_by)
        if soon := min((at for at in opens if at is not None), default=None):
            self._wake(max((soon - now).total_seconds(), PASS_SECONDS))

    def _expect(self, arrivals: Arrivals, random: Random, after: float) -> None:
        at = after + random.expovariate(1.0 / arrivals.every)
        if at < arrivals.until:
            self._agenda.note(at, partial(self._arrive, arrivals, random))

    def _arrive(self, arrivals: Arrivals, random: Random) -> None:
        self._submit(arrivals.name, arrivals.work, random)
        self._expect(arrivals, random, self._agenda.now)

    def _expect_breakdown(self, worker: Worker, random: Random) -> None:
        if worker.kind.mtbf is not None:
            at = self._agenda.now + random.expovariate(1.0 / worker.kind.mtbf)
            self._agenda.note(at, partial(self._break, worker, random))

    def _break(self, worker: Worker, random: Random) -> None:
        self._tally.breakdowns[worker.kind.name] += 1
        self._leave(worker)
        at = self._agenda.now + worker.kind.repair.draw(random)
        self._agenda.note(at, partial(self._mend, worker, random))

    def _mend(self, worker: Worker, random: Random) -> None:
        self._come_back(worker)
        self._expect_breakdown(worker, random)

    def _leave(self, worker: Worker) -> None:
        if worker.leave(self._agenda.now):
            self._processes.break_worker(worker)

    def _come_back(self, worker: Worker) -> None:
        if worker.come_back(self._agenda.now):
            self._processes.bring_back(worker)
            self._wake()

    def _begin_outage(self) -> None:
        self._is_served = self._timetable.is_served = False
        self._processes.begin_outage()

    def _end_outage(self) -> None:
        self._is_served = self._timetable.is_served = True
        self._processes.end_outage(self._workers.values())
        self._timetable.look()
        self._wake()

    def _ask_to_stop(self, job: Job) -> None:
        leases = (task.lease for task in job.tasks)
        self._processes.ask_to_stop(lease for lease in leases if lease is not None)

    def _report(self, seconds: float) -> Report:
        now = self._date(seconds)
        waiting = [
            (now - eligible_at).total_seconds()
            for group in self._lines
            for eligible_at, _, task in group.tasks
            if task.state == TaskState.PENDING
        ]
        jobs, workers = self._ledger.jobs.values(), self._workers.values()
        return self._tally.report(self._seed, seconds, jobs, workers=workers, in_line=waiting)


def _complete(policies: Mapping[str, TypePolicy]) -> dict[str, TypePolicy]:
    """Check policies as a server does before it stores them."""
    complete = {}
    for name, policy in policies.items():
        complete[name] = count_retries(policy)
        check_policy(name, complete[name], LIMITS)
    return complete


def _draw(weights: Mapping[str, float], random: Random) -> str:
    if not weights:
        return ""
    return random.choices(list(weights), list(weights.values()))[0]
