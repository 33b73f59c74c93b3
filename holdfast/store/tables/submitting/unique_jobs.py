"""The table of unique jobs: who holds a key that others like it would want."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_UNIQUE = load_statements("submitting/unique")


class WantedKey(NamedTuple):
    """A job that is to be stored; spec and inputs are JSON texts, the inputs a list of them."""

    job_id: int
    spec: str
    inputs: str | None
    actor: str | None


class FoundKey(NamedTuple):
    """What became of it: it has its key, if there is no answer, or another job has.

    The answer is `first`, `refused`, or `started` where that one cannot be replaced any more. One
    that has replaced another may start when that one would have.
    """

    answer: str | None
    holder: int | None
    start_at: datetime | None


async def take_unique_keys(
    tx: Transaction, wanted: Sequence[WantedKey], *, now: datetime
) -> list[FoundKey]:
    """Take keys for jobs, or put those that have them out of the way, as the jobs say."""
    row = await tx.fetch_one(
        _UNIQUE["take_unique_keys"],
        job_ids=[each.job_id for each in wanted],
        specs=[each.spec for each in wanted],
        inputs=[each.inputs for each in wanted],
        actors=[each.actor for each in wanted],
        at=now,
    )
    assert row is not None
    answers, holders, starts, has_follow_ups = row
    if has_follow_ups and tx.news is not None:
        tx.news.has_follow_ups = True
    return list(map(FoundKey, answers, holders, starts))
