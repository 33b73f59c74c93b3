"""Jobs of chains: each waits for the one that was submitted before it under the same name.

lock    the chains, before anything else, so that submissions of one chain come one after the other
join    each new job waits for the last one of its chain that has not ended
keep    the new last ones
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from holdfast.errors import Unavailable
from holdfast.model.submitting.spec import ChainKey
from holdfast.operations.submitting.admit import Admitted
from holdfast.operations.submitting.links import Links
from holdfast.operations.submitting.repeats import find_first
from holdfast.rules.dependencies import CheckedDependency, DependencyCheck
from holdfast.store.database import JobChanged, Transaction
from holdfast.store.tables.order import chains
from holdfast.store.tables.order.chains import ChainEnd

_ALONE = DependencyCheck((), 0, None)


class Joining(NamedTuple):
    """Jobs that join chains, by id, and the last job of each chain before them."""

    keys: dict[int, ChainKey]
    last: dict[ChainKey, int | None]


async def lock_chains(
    tx: Transaction, jobs: Sequence[Admitted], *, ids_end: int
) -> tuple[list[Admitted], Joining | None]:
    """Lock the chains of new jobs; these get ids above those of all that joined before them.

    What was submitted before under its idempotency key joins nothing: it is in its chain.
    """
    chained = [job for job in jobs if job.submission.chain is not None]
    if not chained:
        return list(jobs), None
    wanted = [job.submission.chain for job in chained if job.submission.chain is not None]
    last = await chains.lock_chains(tx, wanted)
    ids = await chains.allocate_more_ids(tx, len(chained))
    if ids[-1] >= ids_end:
        raise Unavailable("there is no partition for these jobs yet; submit them again")
    fresh = iter(ids)
    again = [
        job if job.submission.chain is None else replace(job, job_id=next(fresh)) for job in jobs
    ]
    keyed = [job for job in again if job.submission.chain and job.spec.idempotency_key]
    first = await find_first(tx, keyed) if keyed else {}
    seen = {job.key for job in keyed if job.job_id in first}
    keys: dict[int, ChainKey] = {}
    for job in again:
        if job.submission.chain is None or job.key in seen:
            continue
        keys[job.job_id] = job.submission.chain
        if job.spec.idempotency_key is not None:
            seen.add(job.key)
    return again, Joining(keys, last)


async def join_chains(
    tx: Transaction, jobs: Sequence[Admitted], links: Links, *, joining: Joining
) -> tuple[Links, dict[ChainKey, int]]:
    """Have each job wait for the last one of its chain; returns the new last ones, too."""
    ends = await chains.find_ends(tx, {job_id for job_id in joining.last.values() if job_id})
    if any(end.live_ended for end in ends.values()):
        raise JobChanged
    checks = dict(links.checks)
    new: dict[ChainKey, int] = {}
    for job in jobs:
        key = joining.keys.get(job.job_id)
        if key is None:
            continue
        check = checks.get(job.job_id, _ALONE)
        before = new.get(key) or _find_before(ends.get(joining.last[key] or 0), job, check)
        if before is not None:
            checks[job.job_id] = _wait_for(before, job, check)
        new[key] = job.job_id
    return Links(links.refused, checks), new


def _find_before(end: ChainEnd | None, job: Admitted, check: DependencyCheck) -> int | None:
    """Find whom a job waits for: none that has ended, but where the chain stands still after it.

    What the job says itself of one that has ended, holds.
    """
    if end is None:
        return None
    stop = end.stop_job_id
    is_named = any(dependency.depends_on == stop for dependency in check.dependencies)
    if job.spec.on_failure == "block" and stop is not None and not is_named:
        return stop
    return end.live_job_id


def _wait_for(before: int, job: Admitted, check: DependencyCheck) -> DependencyCheck:
    """Have a job wait for one before it; for what it waits anyhow, it does so in its chain, too."""
    on_failure = job.spec.on_failure or "pass"
    if all(dependency.depends_on != before for dependency in check.dependencies):
        waits = CheckedDependency(before, "ended", None, on_failure)
        return DependencyCheck((*check.dependencies, waits), check.unmet + 1, check.cause)
    named = [
        # Any other condition says what a failure is to it.
        each._replace(on_failure=on_failure if each.condition == "ended" else "pass")
        if each.depends_on == before
        else each
        for each in check.dependencies
    ]
    return DependencyCheck(tuple(named), check.unmet, check.cause)


async def keep_last(
    tx: Transaction,
    new: Mapping[ChainKey, int],
    joining: Joining,
    *,
    welcome: Collection[int],
    inserted: Collection[int],
) -> None:
    """Note the new last jobs of chains, once all that joined are stored.

    One that another submission has just stored, under its key and with another spec, breaks its
    chain here: the whole transaction is undone, and finds it when it is tried again.
    """
    if any(job_id in joining.keys and job_id not in inserted for job_id in welcome):
        raise JobChanged
    if new:
        await chains.set_last_jobs(tx, new)
