"""What one turn makes of a schedule whose instant has come: fire it, catch up on others, miss them.

A turn is bounded in how far it looks and in how much it fires. What it leaves, the next one takes
up: what is missed comes first, and then the oldest instants that are fired.
"""

from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from holdfast.model.submitting.schedules import CATCH_UP_MAX, Firing, Missed, ScheduleTerms
from holdfast.rules.schedules.instants import due_at, instants_after, next_instant

LOOK_MAX = 1000
FIRINGS_MAX = 10
assert CATCH_UP_MAX < LOOK_MAX, "a turn that only looks gets on"
_MICROSECOND = timedelta(microseconds=1)


class Turn(NamedTuple):
    """What is to be noted and fired, and the first instant that is left; None at the end."""

    missed: Missed | None
    firings: list[Firing]
    next_at: datetime | None


def decide_turn(name: str, terms: ScheduleTerms, next_at: datetime, *, now: datetime) -> Turn:
    """Decide what becomes of the instants from `next_at` on that are due."""
    come, is_all = _list_due(name, terms, next_at, now=now)
    late_max = timedelta(seconds=terms.late_max + terms.jitter)
    late = [instant for instant in come if now - instant > late_max]
    on_time = come[len(late) :]
    first_kept = max(len(late) - _count_kept(terms, has_newer=bool(on_time)), 0)
    missed, caught_up = late[:first_kept], late[first_kept:]
    firings = [Firing(instant, "caught_up") for instant in caught_up]
    firings += [Firing(instant, "scheduled") for instant in on_time]
    if not is_all and not on_time:
        firings = []  # there may be newer ones, for which these are given up
    # A job must be known before the next firing can be told that it has not ended.
    firings = firings[: FIRINGS_MAX if terms.overlap == "allow" else 1]
    handled = [*missed, *(firing.instant for firing in firings)]
    last = handled[-1] if handled else next_at - _MICROSECOND
    return Turn(
        Missed(missed[0], missed[-1], len(missed)) if missed else None,
        firings,
        next_instant(terms, last),
    )


def _list_due(
    name: str, terms: ScheduleTerms, next_at: datetime, *, now: datetime
) -> tuple[list[datetime], bool]:
    """List the instants whose time has come, and tell whether these are all."""
    come: list[datetime] = []
    for instant in islice(instants_after(terms, next_at - _MICROSECOND), LOOK_MAX):
        if due_at(name, terms, instant) > now:
            return come, True
        come.append(instant)
    return come, len(come) < LOOK_MAX


def _count_kept(terms: ScheduleTerms, *, has_newer: bool) -> int:
    """Say how many of the late instants are not missed: the newest."""
    match terms.catch_up:
        case "skip":
            return 0
        case "one":
            # One that is on time makes up for those before it.
            return 0 if has_newer else 1
        case "all":
            return terms.catch_up_max
