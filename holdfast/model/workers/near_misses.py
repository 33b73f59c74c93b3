"""Workers on which a task nearly fits, and what each of them lacks."""

from typing import Literal

import msgspec

LackCode = Literal[
    "not_accepting", "fails_constraints", "lacks_resources", "reserved", "build_slots"
]


class Lack(msgspec.Struct, frozen=True):
    """One thing in which a worker falls short of what a task needs; of an amount, the numbers.

    The total of ports is not known: they are free on a host or not.
    """

    code: LackCode
    message: str
    resource: str | None = None
    need: float | None = None
    free: float | None = None
    total: float | None = None


class NearMiss(msgspec.Struct, frozen=True):
    """A worker that does not fit, with all it lacks."""

    worker_id: str
    name: str
    lacks: list[Lack]

    def __str__(self) -> str:
        """Write it for people: worker a: 2 of 4 cpu free (needs 3), no gpu (needs 1)."""
        return f"worker {self.name}: {', '.join(lack.message for lack in self.lacks)}"
