"""The scheduler: from a snapshot of workers and waiting tasks to a plan, and why tasks wait.

Lines are served by priority, then age. Each task goes to the first worker where it fits, gangs
whole or not at all. What does not fit lets smaller tasks behind it pass, but not for ever: workers
are kept for what has waited long, until they have drained enough.
Pure: the commit re-checks the plan, and drops what no longer holds.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from holdfast.rules.placement_reason import Reason, give_reason
from holdfast.rules.placement_reserve import choose_workers
from holdfast.rules.placement_room import Integers, Room, Taken
from holdfast.rules.placement_snapshot import (
    Line,
    Shape,
    WorkerView,
    missing_members,
    rank,
    shape_of,
)

RESERVE_AFTER_SECONDS = 10.0
RESERVATIONS_MAX = 8
UNSTARTED_MAX = 8

__all__ = [
    "RESERVATIONS_MAX",
    "RESERVE_AFTER_SECONDS",
    "UNSTARTED_MAX",
    "Line",
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
    """Some tasks of a line go to one worker; job and `avoid` say which line."""

    job_id: int
    worker_id: str
    count: int  # type: ignore[assignment]  # hides a method of tuples that nobody needs here
    avoid: str | None


class Plan(NamedTuple):
    """What is to be placed, and how many tasks of each line are left waiting."""

    placements: list[Placement]
    waiting: dict[tuple[int, str | None], int]


def plan(
    workers: Sequence[WorkerView],
    lines: Sequence[Line],
    now: float,
    *,
    unstarted_max: int = UNSTARTED_MAX,
    placements_max: int | None = None,
) -> Plan:
    """Decide what goes where; a gang may go past `placements_max`, so that none is too large."""
    room = Room(workers, (line.shape for line in lines), unstarted_max)
    served = _Pass(room, now)
    ids = [worker.worker_id for worker in room.workers]
    placements: list[Placement] = []
    waiting: dict[tuple[int, str | None], int] = {}
    left = placements_max
    for line in sorted(lines, key=rank):
        taken = [] if left == 0 else served.serve(line, left)
        placements += [
            Placement(line.job_id, ids[column], tasks, line.avoid) for column, tasks in taken
        ]
        count = sum(tasks for _, tasks in taken)
        if left is not None:
            left = max(0, left - count)
        if line.count > count:
            key = (line.job_id, line.avoid)
            waiting[key] = waiting.get(key, 0) + line.count - count
    return Plan(placements, waiting)


def explain(
    workers: Sequence[WorkerView],
    lines: Sequence[Line],
    line: Line,
    *,
    now: float,
    unstarted_max: int = UNSTARTED_MAX,
) -> Reason:
    """Say why a line's tasks wait, by serving all lines before it as the next pass will."""
    room = Room(workers, (each.shape for each in (*lines, line)), unstarted_max)
    served = _Pass(room, now)
    ahead = 0
    for each in sorted(lines, key=rank):
        if rank(each) >= rank(line):
            break
        ahead += sum(tasks for _, tasks in served.serve(each))
    fitting = sum(tasks for _, tasks in served.take(line))
    kept = 0 if fitting else len(served.choose_kept(line))
    return give_reason(room, line, fitting=fitting, ahead=ahead, kept=kept)


class _Pass:
    """One pass over the lines in order; nothing is freed in it, so what failed once fails again."""

    def __init__(self, room: Room, now: float) -> None:
        self._room = room
        self._now = now
        self._reservations = 0
        self._too_many: dict[Shape, int] = {}

    def serve(self, line: Line, limit: int | None = None) -> Taken:
        """Take room for a line's tasks, up to a limit, and keep workers if there was none."""
        taken = self.take(line, limit)
        if not taken:
            kept = self.choose_kept(line)
            if kept.size:
                self._reservations += 1
                self._room.keep(kept, line.job_id)
        return taken

    def take(self, line: Line, limit: int | None = None) -> Taken:
        """Take room for a line's tasks, up to a limit."""
        if line.count <= 0 or missing_members(line):
            return []
        fails_at = self._too_many.get(line.shape)
        if fails_at is not None and _together(line) >= fails_at:
            return []
        need = self._room.need(line.shape)
        if line.gang is not None:
            taken = self._room.take_gang(
                need, line.count, avoid=line.avoid, group_by=line.shape.group_by
            )
            failed = not taken
        else:
            count = line.count if limit is None else min(line.count, limit)
            taken = self._room.take_first(need, count, line.avoid)
            failed = sum(tasks for _, tasks in taken) < count
        if failed:
            self._too_many[line.shape] = _together(line)
        return taken

    def choose_kept(self, line: Line) -> Integers:
        """Choose workers to be kept for a line that got nothing; none unless it is old enough."""
        young = self._now - line.since <= RESERVE_AFTER_SECONDS
        barred = line.count <= 0 or missing_members(line) > 0
        if young or barred or self._reservations >= RESERVATIONS_MAX:
            return np.empty(0, dtype=np.int64)
        need = self._room.need(line.shape)
        return choose_workers(self._room, need, _together(line), group_by=line.shape.group_by)


def _together(line: Line) -> int:
    """Count the tasks that must be placed at once."""
    return 1 if line.gang is None else line.count
