"""Queue work that none of its queue's workers could run, were all of them idle."""

from collections.abc import Sequence

from holdfast.model.workers.resources import Capacity, Resources, fits, parse_size
from holdfast.rules.placement.reason import write_amount


def explain_too_large(need: Resources, capacities: Sequence[Capacity]) -> str | None:
    """Say what all workers lack for a task that names resources; None if one has room for it."""
    if any(fits(need, capacity) for capacity in capacities):
        return None
    amounts = _amounts(need)
    largest = [max(each) for each in zip(*map(_amounts_of, capacities), strict=True)]
    short = [
        write_amount(name, most)
        for (name, amount), most in zip(amounts.items(), largest, strict=True)
        if most < amount
    ]
    if not short:
        return f"none has {describe_need(need)} together"
    return f"the largest has {', '.join(short)}"


def describe_need(need: Resources) -> str:
    """Say what a task asks for: 1 cpu, 4GB memory."""
    return ", ".join(write_amount(*each) for each in _amounts(need).items() if each[1])


def _amounts(need: Resources) -> dict[str, int]:
    return {
        "cpu": round(need.cpu * 1000),
        "memory": parse_size(need.memory, "memory"),
        "disk": parse_size(need.disk, "disk"),
    }


def _amounts_of(capacity: Capacity) -> tuple[int, int, int]:
    return round(capacity.cpu * 1000), capacity.memory, capacity.disk
