"""Let jobs that are to be unique take their keys, and answer those whose key another job has.

Keys are taken by a constraint, in the transaction that stores the jobs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import msgspec

from holdfast.errors import NotUnique, Refused
from holdfast.operations.submitting.admit import Admitted
from holdfast.operations.submitting.repeats import find_first
from holdfast.store.database import JobChanged, Transaction
from holdfast.store.tables.submitting.unique_jobs import FoundKey, WantedKey, take_unique_keys
from holdfast.store.tables.work.jobs import Key


class Keyed(NamedTuple):
    """The jobs that are to be stored, those that are refused, and by which others have been met."""

    jobs: list[Admitted]
    refused: dict[int, Refused]
    first: dict[int, int]
    # The jobs that hold a key now.
    holders: frozenset[int]


async def take_keys(tx: Transaction, jobs: Sequence[Admitted], *, now: datetime) -> Keyed:
    """Take the keys of those jobs that are unique.

    A repeat of what came under its idempotency key before takes none.
    """
    unique = [job for job in jobs if job.spec.unique is not None]
    if not unique:
        return Keyed(list(jobs), {}, {}, frozenset())
    keyed = [job for job in unique if job.spec.idempotency_key is not None]
    seen = await find_first(tx, keyed) if keyed else {}
    wanted, again = _leave_out_repeats([job for job in unique if job.job_id not in seen])
    if not wanted:
        return Keyed(list(jobs), {}, {}, frozenset())
    rows = [describe_key(job) for job in wanted]
    taken = await take_unique_keys(tx, rows, now=now)
    found = dict(zip((job.job_id for job in wanted), taken, strict=True))
    # A repeat is answered as the job that it repeats.
    found |= {job_id: found[first] for job_id, first in again.items() if found[first].answer}
    refused: dict[int, Refused] = {}
    first: dict[int, int] = {}
    for job_id, key in found.items():
        if key.answer is None:
            continue
        assert key.holder is not None, "who has no key is told who has it"
        if key.answer == "first":
            first[job_id] = key.holder
        else:
            refused[job_id] = NotUnique(key.holder, has_started=key.answer == "started")
    stored = [_start(job, found) for job in jobs if job.job_id not in refused.keys() | first.keys()]
    holders = frozenset(job_id for job_id, key in found.items() if key.answer is None)
    return Keyed(stored, refused, first, holders)


def check_holders(keyed: Keyed, jobs: Sequence[Admitted], inserted: Mapping[int, object]) -> None:
    """Have the transaction run again if a repeat was stored, or deleted, at the same moment."""
    unique = {job.job_id for job in jobs if job.spec.unique is not None and job.job_id in inserted}
    if unique != keyed.holders:
        raise JobChanged("a repeat of a unique job came at the same moment")


def _leave_out_repeats(jobs: Sequence[Admitted]) -> tuple[list[Admitted], dict[int, int]]:
    """Leave out what comes under the idempotency key of another job here; says of which."""
    by_key: dict[Key, int] = {}
    wanted: list[Admitted] = []
    again: dict[int, int] = {}
    for job in jobs:
        if job.spec.idempotency_key is not None:
            first = by_key.setdefault(job.key, job.job_id)
            if first != job.job_id:
                again[job.job_id] = first
                continue
        wanted.append(job)
    return wanted, again


def describe_key(job: Admitted) -> WantedKey:
    """Give what a job's key is made of."""
    unique, inputs = job.spec.unique, job.submission.inputs
    assert unique is not None
    # What is compared is found among them, unless it is said.
    text = None if inputs is None or unique.values is not None else f"[{','.join(inputs)}]"
    return WantedKey(
        job.job_id, msgspec.json.encode(job.spec).decode(), text, job.actor or job.spec.owner
    )


def _start(job: Admitted, found: Mapping[int, FoundKey]) -> Admitted:
    """Let a job start when the one that it replaces would have."""
    key = found.get(job.job_id)
    if key is None or key.start_at is None:
        return job
    spec = msgspec.structs.replace(
        job.spec, not_before=key.start_at.timestamp(), start_delay=None, start_rate=None
    )
    return replace(job, submission=msgspec.structs.replace(job.submission, spec=spec))
