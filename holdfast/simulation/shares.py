"""Whose turn it is, where a queue or placed work is shared: how far each share has come."""

from collections.abc import Iterable
from datetime import datetime

from holdfast.model.limits.shares import ShareRule
from holdfast.rules.limits.shares import check_share_rule
from holdfast.rules.placement.turns import KnownPass, Turn, Turns, begin_turns
from holdfast.simulation.lines import Group


class ShareBook:
    """The shares of one queue. As in the real ledger, one that was idle saves nothing up."""

    def __init__(self, queue: str, rule: ShareRule) -> None:
        check_share_rule(queue, rule)
        self.rule = rule
        self._passes: dict[Turn, float] = {}
        self._in_line: set[Turn] = set()

    def begin(self, groups: Iterable[Group], now: datetime) -> Turns:
        """Say where the shares stand that have something in line now."""
        wanted = {(self.priority_of(group, now), group.key.share) for group in groups}
        known = [
            KnownPass(turn, at, turn not in self._in_line) for turn, at in self._passes.items()
        ]
        begun = begin_turns(known, wanted)
        self._passes |= begun
        self._in_line = wanted
        return Turns(begun, self.rule.weights)

    def advance(self, turn: Turn, slots: int) -> None:
        """Move a share on by a task that was given out."""
        # What has gained a step within a pass counts from the next one on.
        if turn in self._passes:
            self._passes[turn] += slots / self.rule.weights.get(turn[1], 1.0)

    def pass_of(self, turn: Turn) -> float:
        """Say how far a share has come."""
        return self._passes[turn]

    def priority_of(self, group: Group, now: datetime) -> int:
        """Give the priority of a group, and what its first task has gained by waiting."""
        return group.key.priority + self.gained(group.tasks[0][0], now)

    def gained(self, since: datetime, now: datetime) -> int:
        """Count the steps of priority that a task has gained by waiting."""
        step = self.rule.age_step_seconds
        if step is None:
            return 0
        return max(0, min(self.rule.age_max, int((now - since).total_seconds() // step)))
