"""The virtual clock: what happens next, and when; ties go by the order in which they were noted."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Action = Callable[[], None]


class Entry:
    """Something that is to happen, unless it is called off."""

    __slots__ = ("action", "at", "is_off", "number")

    def __init__(self, at: float, number: int, action: Action) -> None:
        self.at = at
        self.number = number
        self.action = action
        self.is_off = False

    def __lt__(self, other: "Entry") -> bool:
        return (self.at, self.number) < (other.at, other.number)

    def call_off(self) -> None:
        """Have it not happen."""
        self.is_off = True


class Agenda:
    """What is to happen, in order; `now` is the time of what happens now."""

    def __init__(self) -> None:
        self.now = 0.0
        self._entries: list[Entry] = []
        self._numbers = count()

    def note(self, at: float, action: Action) -> Entry:
        """Note something for a time; what should have happened before happens at once."""
        entry = Entry(max(at, self.now), next(self._numbers), action)
        heappush(self._entries, entry)
        return entry

    def run(self, until: float) -> None:
        """Let everything happen up to a time."""
        entries = self._entries
        while entries and entries[0].at <= until:
            entry = heappop(entries)
            if not entry.is_off:
                self.now = entry.at
                entry.action()
        self.now = until
