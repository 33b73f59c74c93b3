"""What a firing does while jobs of earlier ones have not ended."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.errors import Refused
from holdfast.model.submitting.schedules import Overlap

# So many firings wait for one another at most, each for all before it.
OPEN_MAX = 100


class Waits(NamedTuple):
    """The jobs whose end a firing waits for, and whether they are asked to stop."""

    job_ids: Sequence[int] = ()
    cancels: bool = False


def decide_overlap(overlap: Overlap, open_jobs: Sequence[int]) -> Waits | str:
    """Say what a firing waits for, or why it is skipped."""
    if not open_jobs or overlap == "allow":
        return Waits()
    if overlap == "skip":
        return f"job {open_jobs[-1]} of an earlier firing has not ended"
    if len(open_jobs) >= OPEN_MAX:
        return f"{len(open_jobs)} jobs of earlier firings have not ended; no more of them queue"
    return Waits(tuple(open_jobs), cancels=overlap == "cancel")


def refuse_too_many(open_jobs: Sequence[int], instants: Sequence[datetime]) -> None:
    """Refuse instants whose jobs would wait for one another, if more of them than may would."""
    room = max(OPEN_MAX - len(open_jobs), 0)
    if len(instants) <= room:
        return
    remedy = (
        f"backfill until {instants[room - 1].isoformat()}, or with overlap allow"
        if room
        else "wait until one of them has ended, or use overlap allow"
    )
    raise Refused(
        f"until: {len(instants)} jobs would wait for one another behind {len(open_jobs)} that have "
        f"not ended, and {OPEN_MAX} may; {remedy}"
    )
