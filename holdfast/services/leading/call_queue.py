"""Workers in the order in which they are to be called, found without looking at all of them.

A heap of times. A worker whose time changes is put in again, and its earlier entry is passed over
when it comes to the top.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count

from holdfast.model.work.fence import Fence
from holdfast.wire.answers import AttemptName

# How long a worker may have to wait to hear that an end is known, if nothing else is to be said.
ACKNOWLEDGE_SECONDS = 0.2
Entry = tuple[float, int, "CalledWorker"]


class CalledWorker:
    """What the leader keeps in mind of one worker; nothing of it is missed after a crash."""

    __slots__ = (
        "acknowledged", "called_at", "count_at", "entry", "has_answered", "is_rung", "next_at",
        "offered", "unknown", "unnamed", "worker_id",
    )  # fmt: skip

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.called_at = 0.0
        self.next_at = 0.0
        # A call that began before this belongs to a tick whose failure has been counted.
        self.count_at = 0.0
        self.is_rung = False
        self.has_answered = False
        self.acknowledged: list[AttemptName] = []
        # What it has named last, and the ledger does not know there.
        self.unknown: frozenset[Fence] = frozenset()
        # What calls that may have reached it have offered, and no stored answer has named. None
        # before the first call: another leader may have offered anything.
        self.offered: frozenset[Fence] | None = None
        # What the last call has offered, and its answer did not name.
        self.unnamed: frozenset[Fence] = frozenset()
        # Its entry in a queue that counts, if it has one.
        self.entry: Entry | None = None

    @property
    def due_at(self) -> float:
        """When it is to be called: at once if it was rung for, since the last call has ended."""
        return min(self.next_at, self.called_at) if self.is_rung else self.next_at

    def acknowledge_by(self, at: float) -> None:
        """Have it called by then, to hear which ends are known; it repeats them until it does."""
        self.next_at = min(self.next_at, at)

    def offer(
        self, offered: frozenset[Fence], unacknowledged: frozenset[Fence]
    ) -> frozenset[Fence]:
        """Note all that a call is about to offer; returns what none before it can have offered.

        What was offered before may be ending by now. As long as it is unacknowledged, nobody knows
        whether it has arrived.
        """
        before = unacknowledged if self.offered is None else self.offered & unacknowledged
        self.offered = before | offered
        return offered - before

    def take_back(self, new: frozenset[Fence]) -> None:
        """Note that the call which was the first to offer these was not sent."""
        assert self.offered is not None, "a call offers before it fails"
        self.offered -= new

    def note_unnamed(self, unnamed: frozenset[Fence]) -> frozenset[Fence]:
        """Note what an answer did not name; returns what the one before did not name either."""
        missing, self.unnamed = self.unnamed & unnamed, unnamed
        return missing


class CallQueue:
    """The workers that wait to be called; those that are being called are not among them."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._numbers = count()

    def put(self, worker: CalledWorker) -> None:
        """Have a worker called when it is due; put it in again whenever that has changed."""
        due_at = worker.due_at
        if worker.entry is None or worker.entry[0] != due_at:
            worker.entry = (due_at, next(self._numbers), worker)
            heappush(self._entries, worker.entry)

    def drop(self, workers: Iterable[CalledWorker]) -> None:
        """Have workers not called any more."""
        for worker in workers:
            worker.entry = None

    def take(self, now: float, count_max: int) -> list[CalledWorker]:
        """Take out those that are due, the one that is so for the longest time first."""
        taken: list[CalledWorker] = []
        while len(taken) < count_max and self.next_at() <= now:
            worker = heappop(self._entries)[2]
            worker.entry = None
            taken.append(worker)
        return taken

    def next_at(self) -> float:
        """Say when the next one is due."""
        while self._entries and self._entries[0][2].entry is not self._entries[0]:
            heappop(self._entries)
        return self._entries[0][0] if self._entries else float("inf")
