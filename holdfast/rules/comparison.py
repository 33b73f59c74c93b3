"""How two versions of a dataset differ, a stretch of keys at a time."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, TypeVar

Kind = Literal["added", "removed", "changed"]


class Keyed(Protocol):
    """An entry of a version, as far as it is compared."""

    @property
    def key(self) -> str:
        """Where it stands."""

    @property
    def content(self) -> object:
        """What must be the same, or it has changed."""


AnyEntry = TypeVar("AnyEntry", bound=Keyed)


class Difference(NamedTuple):
    """What has become of one key; an entry that was not there is None."""

    kind: Kind
    key: str
    before: object | None
    after: object | None


def compare_stretches(
    before: Sequence[AnyEntry], after: Sequence[AnyEntry], count_max: int
) -> tuple[list[Difference], str | None]:
    """Compare the next entries of two versions, both by key, as far as both are known.

    A stretch of `count_max` entries may go on. Returns the key up to which both have been compared,
    or None if both have come to their end.
    """
    ends = [entries[-1].key for entries in (before, after) if len(entries) >= count_max]
    horizon = min(ends) if ends else None
    old = {entry.key: entry for entry in before if horizon is None or entry.key <= horizon}
    new = {entry.key: entry for entry in after if horizon is None or entry.key <= horizon}
    found: list[Difference] = []
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if was is None:
            found.append(Difference("added", key, None, now))
        elif now is None:
            found.append(Difference("removed", key, was, None))
        elif was.content != now.content:
            found.append(Difference("changed", key, was, now))
    return found, horizon
