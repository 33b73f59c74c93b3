"""One pass over what waits: claims take from their queues, the scheduler places the rest."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.model.limits.shares import PLACED
from holdfast.model.workers.resources import Resources, subtract
from holdfast.rules.placement.claim_shares import Asked, share_line
from holdfast.rules.placement.scheduler import Demand, Shape, plan
from holdfast.simulation.buckets import BucketKey, Buckets
from holdfast.simulation.fleet import Worker
from holdfast.simulation.ledger import Lease, Task
from holdfast.simulation.lines import Group, Lines
from holdfast.simulation.shares import ShareBook

# Of a group, so many are looked at in one look; if all of them start, there is another.
LOOKED_AT_MAX = 200
LOOKS_MAX = 10
Give = Callable[[Task, Worker], Lease]


class Offer(NamedTuple):
    """Tasks that want to be placed, and how the scheduler reads them."""

    demand: Demand
    tasks: list[Task]
    group: Group


class Giver:
    """Gives tasks to workers, as far as limits, shares and room allow."""

    def __init__(
        self,
        workers: Sequence[Worker],
        lines: Lines,
        buckets: Buckets,
        *,
        shares: dict[str, ShareBook],
        give: Give,
    ) -> None:
        self._lines = lines
        self._buckets = buckets
        self._shares = shares
        self._give = give
        self._workers = workers
        # How many tasks wait for which limit since this pass.
        self.held_by: Counter[BucketKey] = Counter()

    def run(self, now: datetime) -> None:
        """Make a pass."""
        self.held_by = Counter()
        if not any(True for _ in self._lines):
            return
        claiming: dict[tuple[str, ...], list[Worker]] = defaultdict(list)
        for worker in self._workers:
            claiming[tuple(sorted(worker.kind.queues))].append(worker)
        placed = claiming.pop((), [])
        for queues, workers in claiming.items():
            self._claim(queues, workers, now)
        for _ in range(LOOKS_MAX):
            if not self._place(placed, now):
                break
        for group in self._lines:
            if (key := self._find_full(group, now)) is not None:
                self.held_by[key] += len(group.tasks)

    def _find_full(
        self, group: Group, now: datetime, taken: Counter[BucketKey] | None = None
    ) -> BucketKey | None:
        """Find the limit that holds a group back, if one does."""
        for key in group.key.limits:
            slots = group.key.slots + (taken[key] if taken else 0)
            if self._buckets.find_full([key], slots, now) is not None:
                return key
        return None

    def _claim(self, queues: tuple[str, ...], workers: list[Worker], now: datetime) -> None:
        """Let the workers of some queues claim what stands in line there."""
        # Whoever has least to do claims first.
        free = [worker for worker in workers if worker.free_slots]
        free.sort(key=lambda worker: (len(worker.leases) / worker.kind.slots, worker.id))
        tasks_max = sum(worker.free_slots for worker in free)
        groups = [group for group in self._lines if group.key.queue in queues]
        if not free or not groups:
            return
        for queue in queues:
            if (book := self._shares.get(queue)) is not None:
                book.begin([group for group in groups if group.key.queue == queue], now)
        line = self._line_up(groups, tasks_max, now)
        asked = [_ask(worker) for worker in free]
        owners = share_line([task.job.spec.resources for task, _ in line], asked)
        for (task, group), owner in zip(line, owners, strict=True):
            if owner is not None:
                self._give_of_group(task, group, free[owner], now=now)

    def _line_up(
        self, groups: list[Group], tasks_max: int, now: datetime
    ) -> list[tuple[Task, Group]]:
        """Merge groups into one line: by priority, then share, then age, as limits allow."""
        waiting = {group: iter(group.look(tasks_max)) for group in groups}
        first = {group: next(tasks) for group, tasks in waiting.items()}
        moved: Counter[Group] = Counter()
        taken: Counter[BucketKey] = Counter()
        line: list[tuple[Task, Group]] = []
        while first and len(line) < tasks_max:
            group = min(first, key=lambda each: self._order(each, first[each], moved, now=now))
            if self._find_full(group, now, taken) is not None:
                del first[group]
                continue
            line.append((first[group], group))
            moved[group] += 1
            taken.update(dict.fromkeys(group.key.limits, group.key.slots))
            if (task := next(waiting[group], None)) is None:
                del first[group]
            else:
                first[group] = task
        return line

    def _order(
        self, group: Group, task: Task, moved: Counter[Group], *, now: datetime
    ) -> tuple[int, float, datetime, int]:
        book = self._shares.get(group.key.queue)
        if book is None:
            return (-group.key.priority, 0.0, task.eligible_at, task.id.job_id)
        turn = (book.priority_of(group, now), group.key.share)
        ahead = sum(
            count * each.key.slots
            for each, count in moved.items()
            if each.key.share == group.key.share and each.key.queue == group.key.queue
        )
        at = book.pass_of(turn) + ahead / book.rule.weights.get(turn[1], 1.0)
        return (-turn[0], at, task.eligible_at, task.id.job_id)

    def _give_of_group(self, task: Task, group: Group, worker: Worker, *, now: datetime) -> None:
        if (book := self._shares.get(group.key.queue)) is not None and group.tasks:
            book.advance((book.priority_of(group, now), group.key.share), group.key.slots)
        self._lines.remove([task])
        self._buckets.take(group.key.limits, group.key.slots, now)
        worker.take(self._give(task, worker), _shape_in_book(group, task))

    def _place(self, fleet: list[Worker], now: datetime) -> bool:
        """Look at placed work once; true if another look may find more."""
        groups = [group for group in self._lines if group.key.queue == PLACED]
        open_groups = [group for group in groups if self._find_full(group, now) is None]
        offers = {
            (offer.demand.job_id, offer.demand.avoid): offer
            for group in open_groups
            for offer in self._offer(group, now)
        }
        if not offers or not fleet:
            return False
        book = self._shares.get(PLACED)
        workers = {worker.id: worker for worker in fleet}
        views = [worker.view() for worker in fleet]
        demands = [offer.demand for offer in offers.values()]
        turns = None if book is None else book.begin(open_groups, now)
        planned = plan(views, demands, now.timestamp(), turns=turns)
        given: Counter[Group] = Counter()
        is_cut = False
        for job_id, worker_id, count, avoid in planned.placements:
            offer = offers[job_id, avoid]
            # Of a gang, all that is left of it: the whole, when its first members are given.
            together = len(offer.tasks) if offer.demand.gang is not None else 1
            for task in offer.tasks[:count]:
                slots = together * offer.group.key.slots
                if self._buckets.find_full(offer.group.key.limits, slots, now) is not None:
                    is_cut = True  # what it would have had may be somebody else's
                    break
                self._give_of_group(task, offer.group, workers[worker_id], now=now)
                given[offer.group] += 1
                offer.tasks.remove(task)
                together = max(together - 1, 1)
        return bool(given) and (is_cut or max(given.values()) >= LOOKED_AT_MAX)

    def _offer(self, group: Group, now: datetime) -> Iterable[Offer]:
        """Write a group down as demands: of each job, those that avoid the same worker together."""
        by_demand: dict[tuple[int, str | None], list[Task]] = defaultdict(list)
        for task in group.look(10**6 if group.key.gang is not None else LOOKED_AT_MAX):
            by_demand[task.job.id, task.avoid].append(task)
        for (job_id, avoid), tasks in by_demand.items():
            job, gang = tasks[0].job, None
            if group.key.gang is not None:
                gang = sum(task.is_live for task in job.tasks)
            since = min(task.eligible_at for task in tasks)
            book = self._shares.get(PLACED)
            demand = Demand(
                job_id,
                group.key.priority + (0 if book is None else book.gained(since, now)),
                since.timestamp(),
                len(tasks),
                group.key.shape,
                gang,
                0 if gang is None else gang - len(tasks),
                avoid,
                share=group.key.share,
                slots=group.key.slots,
            )
            yield Offer(demand, tasks, group)


def _ask(worker: Worker) -> Asked:
    """Write down what a worker asks for, and what it has for tasks that name resources."""
    capacity = worker.kind.capacity
    return Asked(worker.free_slots, subtract(capacity, worker.count_used()), capacity)


def _shape_in_book(group: Group, task: Task) -> Shape | None:
    needs: Resources | None = task.job.spec.resources
    return None if group.key.queue and needs is None else group.key.shape
