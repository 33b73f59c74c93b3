"""Which workers are kept for a demand that has waited long and does not fit.

The choice carries no memory from pass to pass, yet it is sticky: all workers with room for a member
of the gang are kept, and then those that are nearest to it. Nobody lower in order takes from them,
so what is free there only grows; another worker is chosen only if it has come nearer still.
"""

import numpy as np
from numpy.typing import NDArray

from holdfast.rules.placement.room import (
    SLOTS,
    Integers,
    Need,
    Room,
    sum_by_group,
)


def choose_workers(room: Room, need: Need, members: int) -> Integers:
    """Choose workers that together could take all members once they are idle; none if none can."""
    nobody = np.empty(0, dtype=np.int64)
    if any(room.total[row].max(initial=0) < amount for row, amount in need.amounts):
        return nobody
    columns = np.flatnonzero(room.open & need.mask)
    capacity = room.fits_idle(need, columns)
    columns, capacity = columns[capacity > 0], capacity[capacity > 0]
    groups = need.groups[columns]
    able = sum_by_group(capacity, groups) >= members
    if not able.any():
        return nobody
    fits = room.fits(need, columns, groups)
    chosen = int(np.where(able, sum_by_group(fits, groups), -1).argmax())
    ours = groups == chosen
    columns, capacity, fits = columns[ours], capacity[ours], fits[ours]
    nearest = np.lexsort((columns, -_nearness(room, need, columns), fits == 0))
    enough = int(np.searchsorted(np.cumsum(capacity[nearest]), members)) + 1
    kept: Integers = columns[nearest[: max(enough, int((fits > 0).sum()))]]
    return kept


def _nearness(room: Room, need: Need, columns: Integers) -> NDArray[np.float64]:
    """Measure how much of one task a worker has room for: the scarcest of its needs, 0 to 1."""
    near: NDArray[np.float64] = np.clip(room.free[SLOTS, columns], 0.0, 1.0)
    for row, amount in need.amounts:
        np.minimum(near, room.free[row, columns] / amount, out=near)
    np.maximum(near, 0.0, out=near)
    return near
