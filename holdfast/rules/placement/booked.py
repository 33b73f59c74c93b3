"""What leases take of the workers that hold them, added up, and what is left."""

from collections import defaultdict
from collections.abc import Iterable

from holdfast.model.workers.resources import Capacity, Resources, fits, subtract
from holdfast.rules.placement.snapshot import Shape


def add_up(booked: Iterable[tuple[str, Shape, int]]) -> defaultdict[str, Capacity]:
    """Add up what leases take: of whom, of which shape, and how many of that shape."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0, 0, 0])
    for owner, shape, leases in booked:
        amounts = sums[owner]
        for index, amount in enumerate((shape.cpu, shape.memory, shape.disk, shape.gpu)):
            amounts[index] += amount * leases
    found = {
        owner: Capacity(cpu, int(memory), int(disk), int(gpu))
        for owner, (cpu, memory, disk, gpu) in sums.items()
    }
    return defaultdict(Capacity, found)


def take_most(shape: Shape, free: Capacity, count: int) -> tuple[int, Capacity]:
    """Take cores, memory and disk for as many tasks as fit, `count` at most.

    Returns how many did, and what is left.
    """
    need = Resources(cpu=shape.cpu, memory=shape.memory, disk=shape.disk)
    taken = 0
    while taken < count and fits(need, free):
        free = subtract(free, need)
        taken += 1
    return taken, free
