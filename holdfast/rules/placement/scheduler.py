"""The scheduler: from a snapshot of workers and waiting tasks to a plan, and why tasks wait.

Demands are served by priority, then age. Each task goes to the first worker where it fits, gangs
whole or not at all. What does not fit lets smaller tasks behind it pass, but not for ever: workers
are kept for what has waited long, until they have drained enough.
Pure: the commit re-checks the plan, and drops what no longer holds.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from holdfast.rules.placement.nearest import find_nearest
from holdfast.rules.placement.reason import Reason, give_reason
from holdfast.rules.placement.reserve import choose_workers
from holdfast.rules.placement.room import Integers, Room, Taken
from holdfast.rules.placement.snapshot import (
    Demand,
    Shape,
    WorkerView,
    missing_members,
    rank,
    shape_of,
)
from holdfast.rules.placement.turns import Line, Turns

RESERVE_AFTER_SECONDS = 10.0
RESERVATIONS_MAX = 8
UNSTARTED_MAX = 8
# So many tasks of others are placed ahead, to explain whose turn it is.
EXPLAINED_MAX = 10_000

__all__ = [
    "RESERVATIONS_MAX",
    "RESERVE_AFTER_SECONDS",
    "UNSTARTED_MAX",
    "Demand",
    "Placement",
    "Plan",
    "Reason",
    "Shape",
    "WorkerView",
    "explain",
    "plan",
    "shape_of",
]


class Placement(NamedTuple):
    """Some tasks of a demand go to one worker; job and `avoid` say which demand."""

    job_id: int
    worker_id: str
    count: int  # type: ignore[assignment]  # hides a method of tuples that nobody needs here
    avoid: str | None


class Plan(NamedTuple):
    """What is to be placed, and how many tasks of each demand are left waiting."""

    placements: list[Placement]
    waiting: dict[tuple[int, str | None], int]


def plan(
    workers: Sequence[WorkerView],
    demands: Sequence[Demand],
    now: float,
    *,
    unstarted_max: int = UNSTARTED_MAX,
    placements_max: int | None = None,
    turns: Turns | None = None,
) -> Plan:
    """Decide what goes where; a gang may go past `placements_max`, so that none is too large.

    With `turns`, shares get theirs within a priority.
    """
    room = Room(workers, (demand.shape for demand in demands), unstarted_max)
    served = _Pass(room, now)
    if turns is not None:
        return _plan_by_turns(served, demands, turns, placements_max=placements_max)
    ids = [worker.worker_id for worker in room.workers]
    placements: list[Placement] = []
    waiting: dict[tuple[int, str | None], int] = {}
    left = placements_max
    for demand in sorted(demands, key=rank):
        taken = [] if left == 0 else served.serve(demand, left)
        placements += [
            Placement(demand.job_id, ids[column], tasks, demand.avoid) for column, tasks in taken
        ]
        count = sum(tasks for _, tasks in taken)
        if left is not None:
            left = max(0, left - count)
        if demand.count > count:
            key = (demand.job_id, demand.avoid)
            waiting[key] = waiting.get(key, 0) + demand.count - count
    return Plan(placements, waiting)


def _plan_by_turns(
    served: "_Pass", demands: Sequence[Demand], turns: Turns, *, placements_max: int | None
) -> Plan:
    ids = [worker.worker_id for worker in served.room.workers]
    line = Line(demands, turns)
    placed: Counter[tuple[int, str, str | None]] = Counter()
    given: Counter[tuple[int, str | None]] = Counter()
    while (demand := line.first()) is not None:
        if placements_max is not None and placed.total() >= placements_max:
            break
        key = (demand.job_id, demand.avoid)
        # What was given something is not one for which workers are kept.
        taken = served.take(demand, 1) if given[key] else served.serve(demand, 1)
        for column, tasks in taken:
            placed[demand.job_id, ids[column], demand.avoid] += tasks
            given[key] += tasks
        line.note(sum(tasks for _, tasks in taken))
    waiting: Counter[tuple[int, str | None]] = Counter()
    for demand in demands:
        waiting[demand.job_id, demand.avoid] += demand.count
    waiting.subtract(given)
    return Plan(
        [Placement(job, worker, tasks, avoid) for (job, worker, avoid), tasks in placed.items()],
        {key: count for key, count in waiting.items() if count > 0},
    )


def explain(
    workers: Sequence[WorkerView],
    demands: Sequence[Demand],
    demand: Demand,
    *,
    now: float,
    unstarted_max: int = UNSTARTED_MAX,
    turns: Turns | None = None,
) -> Reason:
    """Say why a demand's tasks wait, by serving all demands before it as the next pass will."""
    room = Room(workers, (each.shape for each in (*demands, demand)), unstarted_max)
    served = _Pass(room, now)
    if turns is None:
        ahead = _serve_before(served, demands, demand)
    else:
        ahead = _serve_turns_before(served, demands, demand, turns=turns)
    fitting = sum(tasks for _, tasks in served.take(demand))
    kept = 0 if fitting else len(served.choose_kept(demand))
    reason = give_reason(room, demand, fitting=fitting, ahead=ahead, kept=kept)
    if fitting >= demand.count:
        return reason
    return msgspec.structs.replace(reason, nearest=find_nearest(room, demand.shape))


def _serve_before(served: "_Pass", demands: Sequence[Demand], demand: Demand) -> int:
    ahead = 0
    for each in sorted(demands, key=rank):
        if rank(each) >= rank(demand):
            break
        ahead += sum(tasks for _, tasks in served.serve(each))
    return ahead


def _serve_turns_before(
    served: "_Pass", demands: Sequence[Demand], demand: Demand, *, turns: Turns
) -> int:
    line = Line([*(each for each in demands if rank(each) != rank(demand)), demand], turns)
    ahead = 0
    while ahead < EXPLAINED_MAX and (each := line.first()) not in (None, demand):
        assert each is not None, "the loop ends without one"
        count = sum(tasks for _, tasks in served.serve(each, 1))
        line.note(count)
        ahead += count
    return ahead


class _Pass:
    """One pass over the demands in order; nothing is freed in it: what failed once fails again."""

    def __init__(self, room: Room, now: float) -> None:
        self.room = self._room = room
        self._now = now
        self._reservations = 0
        self._too_many: dict[Shape, int] = {}

    def serve(self, demand: Demand, limit: int | None = None) -> Taken:
        """Take room for a demand's tasks, up to a limit, and keep workers if there was none."""
        taken = self.take(demand, limit)
        if not taken:
            kept = self.choose_kept(demand)
            if kept.size:
                self._reservations += 1
                self._room.keep(kept, demand.job_id)
        return taken

    def take(self, demand: Demand, limit: int | None = None) -> Taken:
        """Take room for a demand's tasks, up to a limit."""
        if demand.count <= 0 or missing_members(demand):
            return []
        fails_at = self._too_many.get(demand.shape)
        if fails_at is not None and _together(demand) >= fails_at:
            return []
        need = self._room.need(demand.shape)
        if demand.gang is not None:
            taken = self._room.take_gang(need, demand.count, avoid=demand.avoid)
            failed = not taken
        else:
            count = demand.count if limit is None else min(demand.count, limit)
            taken = self._room.take_first(need, count, demand.avoid)
            failed = sum(tasks for _, tasks in taken) < count
        if failed:
            self._too_many[demand.shape] = _together(demand)
        return taken

    def choose_kept(self, demand: Demand) -> Integers:
        """Choose workers to be kept for a demand that got nothing; none unless it is old enough."""
        young = self._now - demand.since <= RESERVE_AFTER_SECONDS
        barred = demand.count <= 0 or missing_members(demand) > 0
        if young or barred or self._reservations >= RESERVATIONS_MAX:
            return np.empty(0, dtype=np.int64)
        need = self._room.need(demand.shape)
        return choose_workers(self._room, need, _together(demand))


def _together(demand: Demand) -> int:
    """Count the tasks that must be placed at once."""
    return 1 if demand.gang is None else demand.count
