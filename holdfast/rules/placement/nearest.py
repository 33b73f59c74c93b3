"""The workers that come nearest to what a demand needs, and what each of them lacks.

Nearest is who lacks the fewest things that no waiting brings (it takes no work, it fails a
constraint, it has too little even when idle), then the fewest that somebody else uses now, then
who falls short by the least. All workers are ranked by arrays; only a few are put in words.
"""

import numpy as np

from holdfast.model.workers.near_misses import Lack, NearMiss
from holdfast.rules.placement.reason import (
    RESOURCES,
    list_conditions,
    number_of,
    write_amount,
)
from holdfast.rules.placement.room import NOBODY, PORTS, SLOTS, Need, Room
from holdfast.rules.placement.snapshot import Shape

NEAREST_MAX = 5


def find_nearest(room: Room, shape: Shape, count_max: int = NEAREST_MAX) -> list[NearMiss]:
    """List the workers without room for one more task of a shape, the nearest first."""
    need, count = room.need(shape), len(room.workers)
    lasting = np.array([not each.accepts for each in room.workers], dtype=np.int64)
    for _, mask in list_conditions(room, shape):
        lasting += ~mask
    passing = (room.kept_for != NOBODY).astype(np.int64) + (room.free[SLOTS] < 1)
    short = np.zeros(count, dtype=np.float64)
    for row, amount in need.amounts:
        lasting += room.total[row] < amount
        passing += (room.free[row] < amount) & (room.total[row] >= amount)
        short += np.clip((amount - room.free[row]) / amount, 0.0, 1.0)
    ranked = np.lexsort((short, passing, lasting))
    missing = ranked[(lasting + passing)[ranked] > 0][:count_max]
    return [_describe(room, shape, need, column=column) for column in missing.tolist()]


def _describe(room: Room, shape: Shape, need: Need, *, column: int) -> NearMiss:
    """Put in words what one worker lacks, what no waiting brings first."""
    worker = room.workers[column]
    lacks = []
    if not worker.accepts:
        why_not = worker.why_not or "not accepting"
        lacks.append(Lack("not_accepting", f"takes no work ({why_not})"))
    for condition, mask in list_conditions(room, shape):
        if not mask[column]:
            lacks.append(Lack("fails_constraints", f"fails {condition}"))
    amounts = dict(need.amounts)
    for row, name in RESOURCES:
        if row in amounts and room.free[row, column] < amounts[row]:
            lacks.append(_describe_amount(room, column, row=row, name=name, amount=amounts[row]))
    if room.kept_for[column] != NOBODY:
        lacks.append(Lack("reserved", f"kept for job {room.kept_for[column]}"))
    if room.free[SLOTS, column] < 1:
        slots = int(room.total[SLOTS, column])
        lacks.append(Lack("build_slots", f"all {slots} build slots taken"))
    return NearMiss(worker.worker_id, worker.name, lacks)


def _describe_amount(room: Room, column: int, *, row: int, name: str, amount: int) -> Lack:
    total, free = int(room.total[row, column]), max(0, int(room.free[row, column]))
    needs = f"(needs {write_amount(name, amount, bare=True)})"
    numbers = {"need": number_of(row, amount), "free": number_of(row, free)}
    if row == PORTS:
        text = f"{free} ports free {needs}"
        return Lack("lacks_resources", text, name, **numbers)
    if total == 0:
        text = f"no {name} {needs}"
    else:
        text = f"{write_amount(name, free, bare=True)} of {write_amount(name, total)} free {needs}"
    return Lack("lacks_resources", text, name, **numbers, total=number_of(row, total))
