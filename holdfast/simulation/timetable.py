"""The schedules of a run: what fires, what is missed, and what waits for firings before it."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.rules.schedules.checks import complete_terms
from holdfast.rules.schedules.instants import due_at, next_instant
from holdfast.rules.schedules.overlap import decide_overlap
from holdfast.rules.schedules.turn import decide_turn
from holdfast.simulation.agenda import Agenda
from holdfast.simulation.ledger import Job, Ledger
from holdfast.simulation.plan import Plan, Schedule, Work
from holdfast.simulation.tally import Tally

Submit = Callable[[str, Work], Job]


class Timetable:
    """Fires schedules when it is their time."""

    def __init__(
        self,
        plan: Plan,
        agenda: Agenda,
        ledger: Ledger,
        *,
        tally: Tally,
        submit: Submit,
        ask_to_stop: Callable[[Job], None],
    ) -> None:
        self._start = plan.start
        self._agenda = agenda
        self._ledger = ledger
        self._tally = tally
        self._submit = submit
        self._ask_to_stop = ask_to_stop
        self._schedules = list(plan.schedules)
        self._terms = {each.name: complete_terms(each.terms, plan.start) for each in plan.schedules}
        self._next_at = {
            name: next_instant(terms, plan.start) for name, terms in self._terms.items()
        }
        self._open: dict[str, list[Job]] = {each.name: [] for each in plan.schedules}
        # Firings that wait for the end of those before them, the first first.
        self._queued: dict[str, int] = dict.fromkeys(self._terms, 0)
        self.is_served = True
        for schedule in plan.schedules:
            tally.fired[schedule.name] = Counter()
            self._note_next(schedule)

    def look(self) -> None:
        """Look at all schedules: a server is there again."""
        for schedule in self._schedules:
            self._turn(schedule)

    def note_end(self, job: Job) -> None:
        """Take note that a job has ended, for which others may have waited."""
        for schedule in self._schedules:
            jobs = self._open[schedule.name]
            if job in jobs:
                jobs.remove(job)
                if self._queued[schedule.name] and not jobs:
                    self._queued[schedule.name] -= 1
                    self._submit_firing(schedule)

    def _note_next(self, schedule: Schedule) -> None:
        instant = self._next_at[schedule.name]
        if instant is not None:
            due = due_at(schedule.name, self._terms[schedule.name], instant)
            at = (due - self._start).total_seconds()
            self._agenda.note(at, partial(self._turn_at, schedule, instant))

    def _turn_at(self, schedule: Schedule, instant: datetime) -> None:
        if self.is_served and self._next_at[schedule.name] == instant:
            self._turn(schedule)

    def _turn(self, schedule: Schedule) -> None:
        name, next_at = schedule.name, self._next_at[schedule.name]
        now = self._start + timedelta(seconds=self._agenda.now)
        if next_at is None or due_at(name, self._terms[name], next_at) > now:
            return
        turn = decide_turn(name, self._terms[name], next_at, now=now)
        counts = self._tally.fired[name]
        counts["missed"] += turn.missed.instants if turn.missed else 0
        for firing in turn.firings:
            self._fire(schedule, self._terms[name], firing.kind == "caught_up")
        self._next_at[name] = turn.next_at
        self._note_next(schedule)

    def _fire(self, schedule: Schedule, terms: ScheduleTerms, is_late: bool) -> None:
        counts, jobs = self._tally.fired[schedule.name], self._open[schedule.name]
        waiting: Sequence[int] = [0] * self._queued[schedule.name]
        decided = decide_overlap(terms.overlap, [*(job.id for job in jobs), *waiting])
        if isinstance(decided, str):
            counts["skipped"] += 1
            return
        counts["caught_up" if is_late else "fired"] += 1
        if not decided.job_ids:
            self._submit_firing(schedule)
            return
        self._queued[schedule.name] += 1
        if decided.cancels:
            now = self._start + timedelta(seconds=self._agenda.now)
            for job in list(jobs):
                self._ledger.cancel(job, "soft", now, reason=f"schedule {schedule.name} fires")
                self._ask_to_stop(job)

    def _submit_firing(self, schedule: Schedule) -> None:
        self._open[schedule.name].append(self._submit(schedule.name, schedule.work))
