"""What a worker holds of the attempts that calls have brought, and what it has held before."""

from collections.abc import Iterator, Set

from holdfast.worker.placed.attempt import PlacedAttempt

Key = tuple[str, int]


class Held:
    """Attempts, from the call that brings one until its end is acknowledged."""

    def __init__(self) -> None:
        self._held: dict[Key, PlacedAttempt] = {}
        # Never begun again, as long as calls name them.
        self._dropped: set[Key] = set()

    def __iter__(self) -> Iterator[PlacedAttempt]:
        return iter(list(self._held.values()))

    def __len__(self) -> int:
        return len(self._held)

    def find(self, key: Key) -> PlacedAttempt | None:
        """Find an attempt that is held."""
        return self._held.get(key)

    def was_dropped(self, key: Key) -> bool:
        """Tell whether an attempt has been here."""
        return key in self._dropped

    def add(self, attempt: PlacedAttempt) -> None:
        """Hold a new attempt, and have it run unless it is over already."""
        self._held[attempt.key] = attempt
        if not attempt.is_over:
            self._begin(attempt)

    def drop(self, key: Key) -> None:
        """Hold an attempt no longer that is over."""
        attempt = self._held.get(key)
        if attempt is None or not attempt.is_over:
            return
        del self._held[key]
        self._dropped.add(key)
        self._clear_away(attempt)

    def forget_dropped(self, named: Set[Key]) -> None:
        """Forget what was dropped, but for attempts that calls still name."""
        self._dropped &= named

    def _begin(self, attempt: PlacedAttempt) -> None:
        """Run an attempt."""
        raise NotImplementedError

    def _clear_away(self, attempt: PlacedAttempt) -> None:
        """Delete what is left of an attempt."""
        raise NotImplementedError
