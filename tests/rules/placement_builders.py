"""Workers and demands for tests of the scheduler: builders that name only what matters."""

from typing import Any

import msgspec
from hypothesis import strategies as some

from holdfast.model.workers.resources import AttributeValue, Capacity, Constraint
from holdfast.rules.placement.scheduler import Demand, Shape, WorkerView

NOW = 1_000_000.0
GB = 10**9


def a_worker(name: str = "w1", **changes: Any) -> WorkerView:
    """Make a worker: 8 cpu, 32 GB, idle; amounts may be given by their names."""
    has = {"cpu": 8.0, "memory": 32 * GB, "disk": 100 * GB, "gpu": 0, "gpu_model": None}
    has |= {key: changes.pop(key) for key in list(changes) if key in has}
    fields: dict[str, Any] = {
        "worker_id": f"id-{name}",
        "name": name,
        "host": f"host-{name}",
        "capacity": msgspec.convert(has, Capacity),
        "attributes": {},
        "used": Capacity(),
        "ports_free": 100,
        "unstarted": 0,
        "accepts": True,
        "why_not": None,
    }
    return WorkerView(**fields | changes)


def a_shape(*constraints: Constraint, **changes: Any) -> Shape:
    """Make a shape: one cpu and nothing else."""
    fields: dict[str, Any] = {
        "cpu": 1.0,
        "memory": 0,
        "disk": 0,
        "gpu": 0,
        "gpu_model": None,
        "ports": 0,
        "constraints": tuple(msgspec.json.encode(each).decode() for each in constraints),
        "group_by": None,
    }
    return Shape(**fields | changes)


def a_demand(job_id: int = 1, shape: Shape | None = None, **changes: Any) -> Demand:
    """Make a demand: one task that has just become ready."""
    fields: dict[str, Any] = {
        "job_id": job_id,
        "priority": 0,
        "since": NOW,
        "count": 1,
        "shape": shape or a_shape(),
        "gang": None,
        "gang_missing": 0,
        "avoid": None,
    }
    return Demand(**fields | changes)


def a_gang(job_id: int = 1, members: int = 4, **changes: Any) -> Demand:
    """Make a gang of which all members are ready."""
    return a_demand(job_id, **{"count": members, "gang": members} | changes)


ATTRIBUTES: dict[str, some.SearchStrategy[AttributeValue]] = {
    "region": some.sampled_from(["eu", "us"]),
    "rack": some.sampled_from([1, 1.0, 2, "2", True]),
}
CONSTRAINTS = [
    Constraint("region", "=", "eu"),
    Constraint("region", "!=", "eu"),
    Constraint("rack", "in", [1, "2"]),
    Constraint("rack", "exists"),
    Constraint("rack", ">", 1),
]


@some.composite
def workers(draw: some.DrawFn, most: int = 6) -> list[WorkerView]:
    """Draw a few workers, partly used, some of them on one host or of one name."""
    found = []
    for number in range(draw(some.integers(0, most))):
        attributes: dict[str, AttributeValue] = draw(
            some.fixed_dictionaries({}, optional=ATTRIBUTES)
        )
        gpu = draw(some.sampled_from([0, 0, 2, 4]))
        capacity = Capacity(
            cpu=draw(some.sampled_from([0.5, 2.0, 4.0, 8.0])),
            memory=draw(some.integers(0, 8)),
            disk=draw(some.integers(0, 4)),
            gpu=gpu,
            gpu_model=draw(some.sampled_from(["A", "B"])) if gpu else None,
        )
        accepts = draw(some.sampled_from([True, True, True, False]))
        found.append(
            WorkerView(
                worker_id=f"id{number}",
                name=draw(some.sampled_from(["n1", "n2", f"n{number}", f"n{number}"])),
                host=draw(some.sampled_from(["h1", f"h{number}"])),
                capacity=capacity,
                attributes=attributes,
                used=Capacity(
                    cpu=draw(some.sampled_from([0.0, 0.1 + 0.2, 1.5, 3.0])),
                    memory=draw(some.integers(0, 4)),
                    gpu=draw(some.integers(0, gpu)),
                ),
                ports_free=draw(some.integers(0, 4)),
                unstarted=draw(some.sampled_from([0, 0, 1, 3])),
                accepts=accepts,
                why_not=None if accepts else draw(some.sampled_from(["draining", None])),
            )
        )
    return found


SHAPES = some.builds(
    Shape,
    cpu=some.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0, 4.0]),
    memory=some.sampled_from([0, 0, 1, 3]),
    disk=some.sampled_from([0, 0, 1]),
    gpu=some.sampled_from([0, 0, 1, 2]),
    gpu_model=some.sampled_from([None, None, None, "A"]),
    ports=some.sampled_from([0, 0, 1, 2]),
    constraints=some.lists(some.sampled_from(CONSTRAINTS), max_size=2, unique_by=str).map(
        lambda found: tuple(sorted(msgspec.json.encode(each).decode() for each in found))
    ),
    group_by=some.none(),
    hosts=some.none(),
)


@some.composite
def demands(draw: some.DrawFn, most: int = 6, waits: bool = True) -> list[Demand]:
    """Draw the demands of a few jobs, some of them gangs, some with a worker to avoid."""
    found = []
    for job_id in range(1, draw(some.integers(0, most)) + 1):
        shape = draw(SHAPES)
        priority = draw(some.sampled_from([0, 0, 1]))
        since = NOW - draw(some.sampled_from([0.0, 5.0, 20.0, 30.0] if waits else [0.0, 5.0]))
        if draw(some.booleans()):
            for avoid in draw(some.sets(some.sampled_from([None, "n1", "n3"]), min_size=1)):
                count = draw(some.sampled_from([0, 1, 2, 5, 20]))
                found.append(Demand(job_id, priority, since, count, shape, None, 0, avoid))
        else:
            members = draw(some.integers(1, 8))
            missing = draw(some.sampled_from([0, 0, 0, 2]))
            shape = shape._replace(
                group_by=draw(some.sampled_from([None, "rack"])),
                hosts=draw(some.sampled_from([None, None, "spread", "pack"])),
            )
            avoid = draw(some.sampled_from([None, None, "n1"]))
            count = max(0, members - missing)
            found.append(Demand(job_id, priority, since, count, shape, members, missing, avoid))
    return found
