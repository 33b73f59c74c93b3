"""Unique jobs: what two jobs have in common if only one of them may be there, and until when."""

from typing import Any, Literal

import msgspec

# A job's states, in the order in which it can come to them.
UniqueState = Literal[
    "pending",
    "running",
    "succeeded",
    "failed",
    "killed",
    "worker_failed",
    "unschedulable",
    "dead_lettered",
]
# What becomes of a second job: it is answered with the first, takes its place, or is refused.
OnConflict = Literal["first", "replace", "refuse"]


class Unique(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Of jobs of one type with the same arguments, one is there at a time."""

    # Where to find what is compared, such as args[0] or kwargs.user.id; without it, all of what
    # the job is called with.
    arguments: list[str] | None = None
    # What is compared, instead of that.
    values: list[Any] | None = None
    # Each owner may have one.
    owner: bool = False
    # One for each period of so many seconds; periods are counted from 1970 on, in UTC.
    period: float | None = None
    # While it is in one of these, no other may be there.
    states: list[UniqueState] | None = None
    on_conflict: OnConflict = "first"
    # A job that replaces one starts when that one would have.
    keep_start: bool = False
