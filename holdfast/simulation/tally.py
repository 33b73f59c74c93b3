"""What is counted while a run goes on, and the report that it makes in the end."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.model.work.outcomes import TaskDeadLettered, TaskRetried, WorkerFailed
from holdfast.model.work.states import TaskState
from holdfast.rules.placement.snapshot import Shape
from holdfast.simulation.buckets import BucketKey
from holdfast.simulation.fleet import Worker
from holdfast.simulation.ledger import Job, Lease, Move
from holdfast.simulation.plan import DAY, HOUR
from holdfast.simulation.report import Fates, Fired, Held, Report, Usage, Waits, summarize


class Used(NamedTuple):
    """What attempts have taken of workers, in seconds of one core, one GPU, one slot."""

    cpu: float = 0.0
    gpu: float = 0.0
    slots: float = 0.0


class Tally:
    """The counts of one run."""

    def __init__(self) -> None:
        self._waits_by_type: dict[str, list[float]] = defaultdict(list)
        self._waits_by_owner: dict[str, list[float]] = defaultdict(list)
        self._retries: Counter[str] = Counter()
        self._charged: Counter[str] = Counter()
        self._free: Counter[str] = Counter()
        self._letters: Counter[str] = Counter()
        self._used: dict[str, Used] = defaultdict(Used)
        self._held_seconds: dict[str, float] = defaultdict(float)
        self._held_most: Counter[str] = Counter()
        self._held_by: Counter[str] = Counter()
        self._held_since = 0.0
        self.fired: dict[str, Counter[str]] = defaultdict(Counter)
        self.breakdowns: Counter[str] = Counter()

    def note_lease(self, lease: Lease) -> None:
        """Note for how long a task stood in line."""
        waited = (lease.leased_at - lease.task.eligible_at).total_seconds()
        spec = lease.task.job.spec
        self._waits_by_type[spec.type or ""].append(waited)
        self._waits_by_owner[spec.owner or ""].append(waited)

    def note_move(self, move: Move) -> None:
        """Note how an attempt has ended, and what has followed."""
        if move.decided is None:
            return
        outcome, verdict = move.decided.end.outcome, move.decided.verdict
        kind = move.task.job.terms.type
        if move.to == TaskState.DEAD_LETTERED:
            assert isinstance(verdict, TaskDeadLettered), "what else leads there"
            self._letters[str(verdict.reason_code)] += 1
            return
        self._retries[kind] += isinstance(verdict, TaskRetried)
        if isinstance(outcome, WorkerFailed):
            before = move.decided.task.preemption_count
            counts = self._charged if verdict.preemption_count > before else self._free
            counts[kind] += 1

    def note_release(self, worker: Worker, shape: Shape | None, seconds: float) -> None:
        """Note what an attempt has taken of its worker, and for how long."""
        used = self._used[worker.kind.name]
        cpu = 0.0 if shape is None else shape.cpu
        gpu = 0 if shape is None else shape.gpu
        taken = (used.cpu + cpu * seconds, used.gpu + gpu * seconds, used.slots + seconds)
        self._used[worker.kind.name] = Used(*taken)

    def note_held(self, held_by: Counter[BucketKey], now: float) -> None:
        """Note how many tasks wait for which limit from now on."""
        for name, count in self._held_by.items():
            self._held_seconds[name] += count * (now - self._held_since)
        self._held_by = Counter()
        for key, count in held_by.items():
            self._held_by[key.limit] += count
        self._held_most |= self._held_by
        self._held_since = now

    def report(
        self,
        seed: int,
        now: float,
        jobs: Iterable[Job],
        *,
        workers: Iterable[Worker],
        in_line: list[float],
    ) -> Report:
        """Sum everything up."""
        self.note_held(Counter(), now)
        known = list(jobs)
        ends = Counter(job.state.name for job in known)
        return Report(
            seed,
            round(now / DAY, 6),
            {state.name: ends[state.name] for state in TaskState},
            self._fates(known),
            _summarize_all(self._waits_by_type),
            _summarize_all(self._waits_by_owner),
            dict(sorted(self._letters.items())),
            {
                name: Held(round(seconds / HOUR, 3), self._held_most[name])
                for name, seconds in sorted(self._held_seconds.items())
            },
            {name: _fired(counts) for name, counts in sorted(self.fired.items())},
            self._usage(list(workers), now),
            len(in_line),
            round(max(in_line, default=0.0), 3),
        )

    def _fates(self, jobs: list[Job]) -> dict[str, Fates]:
        counts: dict[str, Counter[TaskState]] = defaultdict(Counter)
        for job in jobs:
            counts[job.terms.type].update(job.counts)
        fates = {}
        for kind, count in sorted(counts.items()):
            live = (TaskState.PENDING, TaskState.ASSIGNED, TaskState.BUILDING, TaskState.RUNNING)
            fates[kind] = Fates(
                tasks=count.total(),
                succeeded=count[TaskState.SUCCEEDED],
                failed=count[TaskState.FAILED] + count[TaskState.WORKER_FAILED],
                killed=count[TaskState.KILLED],
                dead_lettered=count[TaskState.DEAD_LETTERED],
                unfinished=sum(count[state] for state in live),
                retries=self._retries[kind],
                losses_charged=self._charged[kind],
                losses_free=self._free[kind],
            )
        return fates

    def _usage(self, workers: list[Worker], now: float) -> dict[str, Usage]:
        usage = {}
        for kind in {worker.kind.name: worker.kind for worker in workers}.values():
            used = self._used[kind.name]
            up = sum(w.count_up_seconds(now) for w in workers if w.kind.name == kind.name)
            usage[kind.name] = Usage(
                cpu=_share(used.cpu, up * kind.capacity.cpu),
                gpu=_share(used.gpu, up * kind.capacity.gpu),
                slots=_share(used.slots, up * kind.slots) if kind.queues else 0.0,
                breakdowns=self.breakdowns[kind.name],
                available=_share(up, now * kind.count),
            )
        return usage


def _share(part: float, whole: float) -> float:
    return round(part / whole, 6) if whole else 0.0


def _summarize_all(waits: dict[str, list[float]]) -> dict[str, Waits]:
    return {name: summarize(found) for name, found in sorted(waits.items())}


def _fired(counts: Counter[str]) -> Fired:
    return Fired(counts["fired"], counts["caught_up"], counts["skipped"], counts["missed"])
