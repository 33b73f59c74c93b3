"""Work that no worker could run, were all of them idle: what it asks for, and what there is."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.model.workers.resources import Constraint
from holdfast.rules.placement.reason import explain_impossible, write_amount
from holdfast.rules.placement.room import Room
from holdfast.rules.placement.snapshot import Demand, Shape, WorkerView


class Impossible(NamedTuple):
    """Jobs that ask for the same and cannot have it; the one that has waited longest is first."""

    asks_for: str
    why: str
    since: float
    job_ids: tuple[int, ...]


def list_impossible(
    workers: Sequence[WorkerView], demands: Sequence[Demand], *, unstarted_max: int = 1
) -> list[Impossible]:
    """List what could not be placed even on idle workers, the longest wait first."""
    room = Room(workers, (demand.shape for demand in demands), unstarted_max)
    whys: dict[tuple[Shape, int | None], str | None] = {}
    found: dict[tuple[str, str], dict[int, float]] = {}
    for demand in sorted(demands, key=lambda demand: demand.since):
        key = (demand.shape, demand.gang)
        if key not in whys:
            whys[key] = explain_impossible(room, demand)
        why = whys[key]
        if why is not None:
            jobs = found.setdefault((_describe(demand), why), {})
            jobs.setdefault(demand.job_id, demand.since)
    return [
        Impossible(asks_for, why, min(jobs.values()), tuple(jobs))
        for (asks_for, why), jobs in found.items()
    ]


def _describe(demand: Demand) -> str:
    """Say what each task asks for: 1 cpu, 4GB memory, region=eu."""
    shape = demand.shape
    amounts = {"cpu": round(shape.cpu * 1000), "memory": shape.memory, "disk": shape.disk}
    amounts |= {"gpu": shape.gpu, "ports": shape.ports}
    parts = [write_amount(name, amount) for name, amount in amounts.items() if amount]
    if shape.gpu_model is not None:
        parts.append(f"gpu_model={shape.gpu_model}")
    parts += [str(msgspec.json.decode(text, type=Constraint)) for text in shape.constraints]
    text = ", ".join(parts)
    if demand.gang is None:
        return text
    within = "" if shape.group_by is None else f" within one {shape.group_by}"
    hosts = {None: "", "pack": " on one host", "spread": " on hosts of their own"}[shape.hosts]
    return f"{demand.gang} tasks together{hosts}{within}, each {text}"
