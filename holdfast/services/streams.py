"""How many streams each caller has open at this server."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.model.limits.server_limits import ServerLimits


class Streams:
    """The open streams of a server, by caller: a token, or an address where none is asked for."""

    def __init__(self, limits: ServerLimits, note: Callable[[str], None]) -> None:
        self._limits = limits
        self._note = note
        self._open: Counter[str] = Counter()

    def count(self) -> int:
        """Count those of all callers."""
        return self._open.total()

    def check(self, caller: str | None) -> None:
        """Refuse one more of a caller that has too many; None is for what ends by itself."""
        if caller is not None and self._open[caller] >= self._limits.streams_max:
            self._note("streams_max")
            raise self._limits.refusal("streams_max", caller, retry_after=5)

    @contextmanager
    def opened(self, caller: str | None) -> Iterator[None]:
        """Count one for the time of a block."""
        if caller is None:
            yield
            return
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]
