"""What the scheduler reads: workers with what they have left, and demands of tasks that wait."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from holdfast.model.submitting.spec import JobSpec
from holdfast.model.workers.resources import (
    AttributeValue,
    Capacity,
    HostLayout,
    Resources,
    parse_size,
)


class Shape(NamedTuple):
    """What a task asks for; tasks of equal shape are interchangeable."""

    cpu: float
    memory: int
    disk: int
    gpu: int
    gpu_model: str | None
    ports: int
    constraints: tuple[str, ...]
    group_by: str | None
    hosts: HostLayout | None = None


class WorkerView(NamedTuple):
    """One worker: all it has, what unreleased leases have booked, and whether it takes work.

    One with a `book` shares it with claims from queues.
    """

    worker_id: str
    name: str
    host: str
    capacity: Capacity
    attributes: Mapping[str, AttributeValue]
    used: Capacity
    ports_free: int
    unstarted: int
    accepts: bool
    why_not: str | None
    book: str | None = None


class Demand(NamedTuple):
    """The ready tasks of one job, or those of them that are to be kept off one worker.

    `avoid` is that worker's name: it is used only where nothing else fits. A gang is placed when
    `count` has reached `gang` and none of its members is missing. Where placed work is shared,
    `share` says whose it is, and `slots` how much of it a task takes.
    """

    job_id: int
    priority: int
    since: float
    count: int  # type: ignore[assignment]  # hides a method of tuples that nobody needs here
    shape: Shape
    gang: int | None
    gang_missing: int
    avoid: str | None
    share: str = ""
    slots: int = 1


def shape_of(spec: JobSpec) -> Shape:
    """Take from a spec what matters for placing its tasks; constraints become JSON texts."""
    resources = spec.resources or Resources()
    texts = {msgspec.json.encode(constraint).decode() for constraint in spec.constraints}
    return Shape(
        cpu=resources.cpu,
        memory=parse_size(resources.memory, "resources.memory"),
        disk=parse_size(resources.disk, "resources.disk"),
        gpu=resources.gpu,
        gpu_model=resources.gpu_model,
        ports=len(resources.ports),
        constraints=tuple(sorted(texts)),
        group_by=spec.coscheduling.group_by if spec.coscheduling else None,
        hosts=spec.coscheduling.hosts if spec.coscheduling else None,
    )


def shape_of_need(need: Resources) -> Shape:
    """Take what claimed tasks may name: cores, memory, disk; of placed ones also the GPUs."""
    memory, disk = parse_size(need.memory, "memory"), parse_size(need.disk, "disk")
    return Shape(need.cpu, memory, disk, need.gpu, None, 0, (), None)


def rank(demand: Demand) -> tuple[int, float, int, bool, str]:
    """Rank a demand: by priority, then age, then job; those with a worker to avoid choose first."""
    return (-demand.priority, demand.since, demand.job_id, demand.avoid is None, demand.avoid or "")


def missing_members(demand: Demand) -> int:
    """Count the members that a gang still waits for."""
    if demand.gang is None:
        return 0
    return max(demand.gang_missing, demand.gang - demand.count, 0)
