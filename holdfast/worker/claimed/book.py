"""The book of a worker of queues: what it has, and what of it attempts take that name resources."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from holdfast.model.workers.resources import Capacity, Resources, fits, subtract
from holdfast.worker.claimed.attempt import Attempt


class Book:
    """What is free, and no claim has offered yet; without a capacity, nothing is kept."""

    def __init__(self, capacity: Capacity | None) -> None:
        self.capacity = capacity
        self._held: dict[Attempt, Resources] = {}
        self._offers: list[Capacity] = []
        # Whether more is free than the last claim could offer.
        self.has_grown = False

    @contextmanager
    def offer(self) -> Iterator[Capacity | None]:
        """Keep all that is free for what one claim brings, so that no other offers it."""
        self.has_grown = False
        if self.capacity is None:
            yield None
            return
        free = self._count_free()
        self._offers.append(free)
        try:
            yield free
        finally:
            self._offers.remove(free)

    def is_whole(self, free: Capacity | None) -> bool:
        """Tell whether all of it was offered: then nothing can become free meanwhile."""
        return free == self.capacity

    def take(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Enter what attempts take; returns those that do not fit, of which nothing is entered."""
        spare = []
        for attempt in attempts:
            resources = attempt.job.resources
            if self.capacity is None or resources is None:
                continue
            if fits(resources, self._count_free()):
                self._held[attempt] = resources
            else:
                spare.append(attempt)
        return spare

    def give_back(self, attempt: Attempt) -> None:
        """Strike out what an attempt took; one that took nothing changes nothing."""
        if self._held.pop(attempt, None) is not None:
            self.has_grown = True

    def _count_free(self) -> Capacity:
        assert self.capacity is not None, "there is nothing to count"
        free = self.capacity
        for resources in self._held.values():
            free = subtract(free, resources)
        for offered in self._offers:
            free = subtract(free, offered)
        return free


class SharedBook(Book):
    """The book of a process that has placed work, too: the server keeps it, and offers by it.

    All that is known here is whether anything is taken, by either half of the process, and whether
    its devices are given out one by one (`has_devices`), to placed work alone.
    """

    def __init__(
        self, name: str, count_placed: Callable[[], int], *, has_devices: bool = False
    ) -> None:
        super().__init__(None)
        self.name = name
        self.has_devices = has_devices
        self._count_placed = count_placed

    def is_whole(self, free: Capacity | None) -> bool:
        """Tell whether nothing is taken: then nothing can become free meanwhile."""
        return not self._held and not self._count_placed()

    def take(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Note attempts that name resources; what the server has given fits."""
        named = {each: needs for each in attempts if (needs := each.job.resources) is not None}
        self._held.update(named)
        return []
