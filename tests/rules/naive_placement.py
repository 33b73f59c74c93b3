"""The scheduler as plainly as can be: task by task, worker by worker, to compare the real one with.

Slow on purpose, and without any idea from the real one but the rules themselves.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from holdfast.model.workers.resources import Constraint
from holdfast.rules.placement.constraints import matches
from holdfast.rules.placement.scheduler import (
    RESERVATIONS_MAX,
    RESERVE_AFTER_SECONDS,
    Demand,
    Placement,
    Plan,
    Shape,
    WorkerView,
)

Amounts = dict[str, float]


@dataclass(eq=False)
class Place:
    """One worker and what is left of it; ports belong to its host."""

    view: WorkerView
    free: Amounts
    host_ports: dict[str, int]
    kept_for: int | None = None

    def meets(self, shape: Shape) -> bool:
        """Tell whether the worker is of the right kind."""
        attributes = self.view.attributes
        return (
            shape.gpu_model in (None, self.view.capacity.gpu_model)
            and all(matches(read(text), attributes) for text in shape.constraints)
            and (shape.group_by is None or shape.group_by in attributes)
        )

    def has_room(self, shape: Shape) -> bool:
        """Tell whether one more task fits."""
        enough = all(self.free[name] >= amount for name, amount in needs(shape).items() if amount)
        return enough and self.host_ports[self.view.host] >= shape.ports

    def fits(self, shape: Shape) -> bool:
        """Tell whether one more task may come here."""
        open_here = self.view.accepts and self.kept_for is None
        return open_here and self.meets(shape) and self.has_room(shape)

    def book(self, shape: Shape, tasks: int = 1) -> None:
        """Take the room of tasks, or give it back with a negative number."""
        for name, amount in needs(shape).items():
            self.free[name] -= amount * tasks
        self.host_ports[self.view.host] -= shape.ports * tasks

    def fits_idle(self, shape: Shape, unstarted_max: int) -> int:
        """Count the tasks that would fit if nothing ran here, and ports were no matter."""
        has = self.view.capacity
        idle = {"cpu": round(has.cpu * 1000), "memory": has.memory, "disk": has.disk}
        idle |= {"gpu": has.gpu, "slots": unstarted_max}
        counts = [idle[name] // amount for name, amount in needs(shape).items() if amount]
        return int(max(0, min(counts)))

    def nearness(self, shape: Shape) -> float:
        """Measure how much of one task there is room for."""
        shares = [
            min(1.0, max(0.0, self.free[name] / amount))
            for name, amount in needs(shape).items()
            if amount
        ]
        ports = self.host_ports[self.view.host]
        return min(*shares, ports / shape.ports if shape.ports else 1.0)


def read(text: str) -> Constraint:
    """Read a constraint of a shape."""
    return msgspec.json.decode(text, type=Constraint)


def needs(shape: Shape) -> Amounts:
    """List what one task takes of a worker itself."""
    return {
        "cpu": round(shape.cpu * 1000),
        "memory": shape.memory,
        "disk": shape.disk,
        "gpu": shape.gpu,
        "slots": 1,
    }


def order(demands: Iterable[Demand]) -> list[Demand]:
    """Sort demands as they are served."""
    return sorted(
        demands,
        key=lambda demand: (
            -demand.priority, demand.since, demand.job_id, demand.avoid is None, demand.avoid or "",
        ),
    )  # fmt: skip


def places_of(workers: Iterable[WorkerView], unstarted_max: int) -> list[Place]:
    """Make the places, in the order in which they are filled."""
    ports: dict[str, int] = {}
    for view in workers:
        ports[view.host] = min(ports.get(view.host, view.ports_free), view.ports_free)
    places = []
    for view in sorted(workers, key=lambda each: (each.capacity.gpu, each.name, each.worker_id)):
        has, used = view.capacity, view.used
        free: Amounts = {
            "cpu": round(has.cpu * 1000) - round(used.cpu * 1000),
            "memory": has.memory - used.memory,
            "disk": has.disk - used.disk,
            "gpu": has.gpu - used.gpu,
            "slots": unstarted_max - view.unstarted,
        }
        places.append(Place(view, free, ports))
    return places


def naive_plan(
    workers: Sequence[WorkerView], demands: Sequence[Demand], now: float, *, unstarted_max: int = 8
) -> tuple[Plan, list[Place]]:
    """Plan by trying every worker for every task; returns also what is left of the workers."""
    places = places_of(workers, unstarted_max)
    placements: list[Placement] = []
    waiting: dict[tuple[int, str | None], int] = {}
    reservations = 0
    for demand in order(demands):
        placed = serve(places, demand)
        for place in places:
            if count := placed[id(place)]:
                job_id, worker_id = demand.job_id, place.view.worker_id
                placements.append(Placement(job_id, worker_id, count, demand.avoid))
        if placed.total() < demand.count:
            waiting[demand.job_id, demand.avoid] = demand.count - placed.total()
        old = now - demand.since > RESERVE_AFTER_SECONDS
        barred = demand.gang is not None and (demand.gang_missing > 0 or demand.count < demand.gang)
        if demand.count and not placed and old and not barred and reservations < RESERVATIONS_MAX:
            kept = choose(places, demand, unstarted_max)
            reservations += bool(kept)
            for place in kept:
                place.kept_for = demand.job_id
    return Plan(placements, waiting), places


def serve(places: list[Place], demand: Demand) -> Counter[int]:
    """Place what can be placed of a demand; counts tasks by the identity of the place."""
    if demand.gang is None:
        return serve_each(places, demand, demand.count)
    if demand.gang_missing > 0 or demand.count < demand.gang:
        return Counter()
    others = [place for place in places if place.view.name != demand.avoid]
    for allowed in (others, places):
        fitting = []
        for group in groups_of(allowed, demand.shape):
            most = serve_each(group, demand, 10**6)
            give_back(group, demand.shape, most)
            if most.total() >= demand.count:
                fitting.append((most.total(), group))
        if fitting:
            least = min(total for total, _ in fitting)
            group = next(group for total, group in fitting if total == least)
            return serve_each(group, demand, demand.count)
    return Counter()


def serve_each(places: list[Place], demand: Demand, count: int) -> Counter[int]:
    """Place task by task on the first worker that fits, the avoided one last."""
    placed: Counter[int] = Counter()
    preferred = sorted(places, key=lambda place: place.view.name == demand.avoid)
    used: set[str] = set()
    for _ in range(count):
        found = next(
            (p for p in preferred if p.view.host not in used and p.fits(demand.shape)), None
        )
        if found is None:
            break
        found.book(demand.shape)
        placed[id(found)] += 1
        if demand.shape.hosts == "spread":
            used.add(found.view.host)
    return placed


def give_back(places: list[Place], shape: Shape, placed: Counter[int]) -> None:
    """Undo a trial."""
    for place in places:
        place.book(shape, -placed[id(place)])


def groups_of(places: list[Place], shape: Shape) -> list[list[Place]]:
    """Split workers by the value of an attribute, and by host, in order of first appearance."""
    groups: dict[object, list[Place]] = {}
    for place in places:
        host = place.view.host if shape.hosts == "pack" else None
        if shape.group_by is None:
            groups.setdefault(host, []).append(place)
        elif shape.group_by in place.view.attributes:
            value = place.view.attributes[shape.group_by]
            groups.setdefault((isinstance(value, bool), value, host), []).append(place)
    return list(groups.values())


def one_per_host(places: list[Place]) -> Counter[int]:
    """Count one task for the first worker of each host."""
    firsts = {place.view.host: place for place in reversed(places)}
    return Counter(id(place) for place in firsts.values())


def choose(places: list[Place], demand: Demand, unstarted_max: int) -> list[Place]:
    """Choose the workers to keep for a demand that does not fit."""
    shape, members = demand.shape, 1 if demand.gang is None else demand.count
    idle = {id(place): place.fits_idle(shape, unstarted_max) for place in places}
    able = [p for p in places if p.view.accepts and p.kept_for is None and p.meets(shape)]
    best: tuple[int, list[Place]] | None = None
    for group in groups_of([place for place in able if idle[id(place)]], shape):
        group_idle = idle if shape.hosts != "spread" else one_per_host(group)
        if sum(group_idle[id(place)] for place in group) < members:
            continue
        now = serve_each(group, demand._replace(avoid=None), 10**6)
        give_back(group, shape, now)
        if best is None or now.total() > best[0]:
            nearest = sorted(group, key=lambda p: (not now[id(p)], -p.nearness(shape)))
            kept: list[Place] = []
            for place in nearest:
                if now[id(place)] or sum(group_idle[id(p)] for p in kept) < members:
                    kept.append(place)
            best = now.total(), kept
    return best[1] if best else []
