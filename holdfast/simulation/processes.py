"""What attempts do on their workers: start, run, fail, break with them, and report it.

A process is here as long as it runs. That workers are called and renew leases is not played out, a
call after the other: a lease counts as renewed until its worker or the server is away, and from
then on runs out as the rules say. `tests/simulation` plays the calls out, in worlds of minutes.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from random import Random

from holdfast.model.work.outcomes import Status
from holdfast.model.work.states import TaskState
from holdfast.rules.ending import end_lost, end_overdue, end_reported
from holdfast.rules.health import DEAD_AFTER_FAILURES
from holdfast.rules.outage import WAIT, Watch
from holdfast.simulation.agenda import Agenda, Entry
from holdfast.simulation.fleet import Worker
from holdfast.simulation.ledger import Lease, Ledger, Task, only
from holdfast.simulation.plan import Work

# As the leader and the workers have it; they are programs, and no rules.
TICK_SECONDS = 5.0
RENEWAL_SECONDS_MAX = 30.0
MARGIN_SECONDS_MAX = 5.0
# How long after its end in the ledger a process that was told to go is gone.
STOP_SECONDS = 1.0
Run = tuple[Entry, Worker]


class Processes:
    """The processes of all attempts, and what the ledger hears of them."""

    def __init__(
        self,
        agenda: Agenda,
        ledger: Ledger,
        *,
        work_of: Callable[[Task], Work],
        date: Callable[[float], datetime],
        seed: object,
    ) -> None:
        self._agenda = agenda
        self._ledger = ledger
        self._work_of = work_of
        self._date = date
        self._random = Random(f"processes {seed}")
        self._running: dict[Lease, Run] = {}
        self._untold: list[tuple[Lease, Status]] = []
        self.is_served = True

    @property
    def _now(self) -> datetime:
        return self._date(self._agenda.now)

    def begin(self, lease: Lease, worker: Worker) -> None:
        """Bring an attempt to its worker."""
        delay = self._work_of(lease.task).start.draw(self._random)
        entry = self._agenda.note(self._agenda.now + delay, partial(self._start, lease))
        self._running[lease] = entry, worker

    def stop(self, lease: Lease) -> None:
        """Have a process go that has ended in the ledger; its lease lives on until it is gone."""
        if lease in self._running:
            self._running.pop(lease)[0].call_off()
            self._agenda.note(self._agenda.now + STOP_SECONDS, partial(self._be_gone, lease))

    def ask_to_stop(self, leases: Iterable[Lease]) -> None:
        """Have processes end that were asked to, by a soft cancel."""
        for lease in leases:
            if lease in self._running:
                self._end_at(lease, self._agenda.now + STOP_SECONDS, "killed")

    def break_worker(self, worker: Worker) -> None:
        """Have all end that run on a worker; nobody is told."""
        for lease in list(worker.leases):
            if lease in self._running:
                self._running.pop(lease)[0].call_off()
                self._stop_renewing(lease)
                self._look_when_due(lease)
        lost = partial(self._lose, worker, self._agenda.now)
        ticks = DEAD_AFTER_FAILURES - self._random.random()
        self._agenda.note(self._agenda.now + ticks * TICK_SECONDS, lost)

    def bring_back(self, worker: Worker) -> None:
        """Have a worker register anew: what it had is gone for certain."""
        if self.is_served:
            self._end_lost(worker, "worker replaced after it was gone", is_gone=True)

    def begin_outage(self) -> None:
        """Have nobody there who renews leases."""
        self.is_served = False
        self._ledger.watch = Watch(self._now)
        for lease in self._running:
            self._stop_renewing(lease)
            margin = min(MARGIN_SECONDS_MAX, lease.task.job.terms.lease / 6)
            kill_at = lease.expires_at - timedelta(seconds=margin)
            seconds = (kill_at - self._now).total_seconds()
            self._agenda.note(self._agenda.now + seconds, partial(self._run_out, lease, kill_at))

    def end_outage(self, workers: Iterable[Worker]) -> None:
        """Have a server there again: workers renew, report what has ended, and register."""
        self.is_served = True
        self._ledger.note_pass(self._now)
        untold, self._untold = self._untold, []
        for lease, status in untold:
            self._report(lease, status)
        for worker in workers:
            if worker.is_up:
                leases = [lease for lease in worker.leases if lease not in self._running]
                self._end_lost(worker, "worker replaced after it was gone", True, leases=leases)
        for lease in self._ledger.leases.values():
            if lease in self._running:
                self._ledger.renew(lease.fence, self._now)
            else:
                self._look_when_due(lease, WAIT.total_seconds())

    def _start(self, lease: Lease) -> None:
        work = self._work_of(lease.task)
        seconds, fails = work.runs.draw(self._random), self._random.random() < work.fails
        if fails:
            seconds *= self._random.random()
        if self.is_served:  # else it is recorded with its end
            lease.acknowledged = True
            self._ledger.start(lease.fence, TaskState.RUNNING, self._now)
            self._running[lease][1].note_change()
            timeout = lease.task.job.terms.timeout
            if timeout is not None and timeout < seconds:
                self._agenda.note(self._agenda.now + timeout, partial(self._look, lease))
        self._end_at(lease, self._agenda.now + seconds, "failed" if fails else "succeeded")

    def _end_at(self, lease: Lease, at: float, status: Status) -> None:
        entry, worker = self._running[lease]
        entry.call_off()
        self._running[lease] = self._agenda.note(at, partial(self._end, lease, status)), worker

    def _end(self, lease: Lease, status: Status) -> None:
        del self._running[lease]
        if self.is_served:
            self._report(lease, status)
        else:
            self._untold.append((lease, status))

    def _report(self, lease: Lease, status: Status) -> None:
        if self._ledger.leases.get(lease.task.id) is not lease:
            return
        if status == "succeeded":
            self._ledger.succeed(lease.fence, self._now)
            return
        judge = partial(
            end_reported,
            status=status,
            exit_code=1,
            error=None,
            error_class=None,
            stage=None,
            outage=self._outage(),
        )
        self._ledger.end([lease.task], only(lease.fence, judge), self._now)

    def _run_out(self, lease: Lease, kill_at: datetime) -> None:
        """Have a worker stop code whose lease is about to run out, since nobody renews it."""
        is_over = self.is_served or lease not in self._running
        margin = min(MARGIN_SECONDS_MAX, lease.task.job.terms.lease / 6)
        if not is_over and lease.expires_at - timedelta(seconds=margin) == kill_at:
            self._end_at(lease, self._agenda.now, "worker_failed")

    def _be_gone(self, lease: Lease) -> None:
        if self._ledger.leases.get(lease.task.id) is not lease:
            return
        if self.is_served:
            judge = partial(
                end_lost, cause="", is_gone=True, has_crashed=False, outage=self._outage()
            )
            self._ledger.end([lease.task], only(lease.fence, judge), self._now)
        else:
            self._untold.append((lease, "killed"))

    def _lose(self, worker: Worker, since: float) -> None:
        if self.is_served and worker.away_since == since:
            self._end_lost(worker, "worker lost: 3 heartbeats in a row failed", is_gone=False)

    def _end_lost(
        self, worker: Worker, cause: str, is_gone: bool, *, leases: list[Lease] | None = None
    ) -> None:
        lost = {lease.fence for lease in (worker.leases if leases is None else leases)}
        judge = partial(
            end_lost, cause=cause, is_gone=is_gone, has_crashed=False, outage=self._outage()
        )
        # One at a time: a sibling's end may have ended it, or the whole gang.
        for fence in sorted(lost):
            task = self._ledger.jobs[fence.task_id.job_id].tasks[fence.task_id.task_index]
            self._ledger.end([task], only(fence, judge), self._now)

    def _look_when_due(self, lease: Lease, least: float = 0.0) -> None:
        seconds = max((lease.expires_at - self._now).total_seconds(), least)
        self._agenda.note(self._agenda.now + seconds, partial(self._look, lease))

    def _look(self, lease: Lease) -> None:
        """Look at a lease as the reaper does, at its deadline."""
        if not self.is_served or self._ledger.leases.get(lease.task.id) is not lease:
            return
        if lease in self._running:
            self._ledger.renew(lease.fence, self._now)
        watch, now = self._outage()
        judge = partial(end_overdue, terms=lease.task.job.terms, watch=watch, now=now)
        self._ledger.end([lease.task], only(lease.fence, judge), now)

    def _stop_renewing(self, lease: Lease) -> None:
        """Have a lease run out: it was renewed last some time ago."""
        terms = lease.task.job.terms
        every = TICK_SECONDS if terms.placed else min(terms.lease / 2, RENEWAL_SECONDS_MAX)
        ago = timedelta(seconds=self._random.random() * every)
        lease.expires_at = max(self._now - ago, lease.leased_at) + terms.lease_duration

    def _outage(self) -> tuple[Watch, datetime]:
        """Say what is known of an outage; leases are looked at all the time while it is none."""
        now, watch = self._now, self._ledger.watch
        if watch is None:
            return Watch(now), now
        return Watch(now, watch.outage_from, watch.outage_until), now
