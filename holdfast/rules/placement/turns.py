"""Whose turn it is among demands: by priority, then by share, then by age.

Shares are served by stride scheduling: the one with the lowest pass goes next, and each task moves
its pass on by its slots through the weight of the share.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.rules.placement.snapshot import Demand, rank

# A priority, and whose share it is.
Turn = tuple[int, str]


class Turns(NamedTuple):
    """Where each share begins, and what it weighs, if that is not 1."""

    passes: Mapping[Turn, float]
    weights: Mapping[str, float]

    def cost(self, demand: Demand) -> float:
        """Say by how much one task of a demand moves its share on."""
        return demand.slots / self.weights.get(demand.share, 1.0)


class KnownPass(NamedTuple):
    """How far a share has come; it is idle if it had nothing in line when last looked at."""

    turn: Turn
    at: float
    is_idle: bool


def begin_turns(known: Sequence[KnownPass], wanted: Iterable[Turn]) -> dict[Turn, float]:
    """Say where shares with something in line begin.

    One that was idle begins where those in line are, so that nobody saves up; without any in line,
    where the last one got to.
    """
    passes = {each.turn: each for each in known}
    turns = set(wanted)
    begun = {turn: passes[turn].at for turn in turns if turn in passes and not passes[turn].is_idle}
    least: dict[int, float] = {}
    for (priority, _), at in begun.items():
        least[priority] = min(at, least.get(priority, at))
    most: dict[int, float] = defaultdict(float)
    for each in known:
        most[each.turn[0]] = max(each.at, most[each.turn[0]])
    for turn in turns - begun.keys():
        start = least.get(turn[0], most[turn[0]])
        begun[turn] = max(passes[turn].at, start) if turn in passes else start
    return begun


class Line:
    """Demands in the order in which they are served, a task or a gang at a time."""

    def __init__(self, demands: Iterable[Demand], turns: Turns) -> None:
        self._turns = turns
        self._waiting: dict[Turn, deque[tuple[Demand, int]]] = defaultdict(deque)
        for demand in sorted(demands, key=rank):
            if demand.count > 0:
                self._waiting[demand.priority, demand.share].append((demand, demand.count))
        self._next = [(-turn[0], turns.passes.get(turn, 0.0), turn[1]) for turn in self._waiting]
        heapq.heapify(self._next)

    def first(self) -> Demand | None:
        """Find the demand whose turn it is; None if all have been served."""
        if not self._next:
            return None
        priority, _, share = self._next[0]
        return self._waiting[-priority, share][0][0]

    def note(self, count: int) -> None:
        """Note how many tasks of the first demand were served; after none, it is passed over."""
        priority, at, share = heapq.heappop(self._next)
        line = self._waiting[-priority, share]
        demand, left = line.popleft()
        if count and left > count:
            line.appendleft((demand, left - count))
        if line:
            heapq.heappush(self._next, (priority, at + count * self._turns.cost(demand), share))
