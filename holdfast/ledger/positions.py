"""Where claims begin to look in a queue, while dead rows stand before what is there.

A claim deletes the rows it takes. While somebody keeps vacuum from removing them, each claim steps
over all that were ever deleted. Then, and only then, a claim begins where the last one found
something. What comes in before that place (a higher priority, a retry, what an undone claim has put
back) is found by a look from the beginning, for which a twentieth of the time is spent.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from holdfast.store.tables.work.ready import FIRST_PLACE, Place

# After a look from the beginning, claims begin further on for so many times as long as it took.
REST_FACTOR = 20.0
# A look that only waited for a slow Postgres must not put priorities and retries off for minutes.
REST_SECONDS_MAX = 30.0
QUEUES_MAX = 10_000


class _Known(NamedTuple):
    place: Place
    until: float


class Positions:
    """The places of one server; what another one does is found by looking from the beginning."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_held = False
        self._clock = clock
        self._known: dict[str, _Known] = {}

    def note_held(self, is_held: bool) -> None:
        """Note whether anybody keeps vacuum from removing dead rows, which a watchdog has seen."""
        self.is_held = is_held
        if not is_held:
            self._known.clear()

    def find(self, queues: Sequence[str]) -> dict[str, Place]:
        """Say for each queue where to begin: where something was last, or at its beginning."""
        now = self._clock()
        return {queue: self._find(queue, now) for queue in queues}

    def _find(self, queue: str, now: float) -> Place:
        known = self._known.get(queue)
        return FIRST_PLACE if known is None or now >= known.until else known.place

    def note(
        self, begun: Mapping[str, Place], firsts: Mapping[str, Place], *, seconds: float
    ) -> None:
        """Note what was found first in each queue from these places on, in which time."""
        if len(self._known) > QUEUES_MAX:
            self._known.clear()
        until = self._clock() + min(REST_FACTOR * seconds, REST_SECONDS_MAX)
        for queue, place in begun.items():
            known = self._known.get(queue)
            first = firsts.get(queue)
            if place == FIRST_PLACE:
                # Nothing is there any more: what comes in next comes in behind what was last.
                begin = first or (None if known is None else known.place)
                if begin is not None:
                    self._known[queue] = _Known(begin, until)
            elif first is not None and known is not None:
                self._known[queue] = known._replace(place=max(first, known.place))
