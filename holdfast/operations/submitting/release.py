"""Release what waited for replayed jobs: resume it as soon as its replays are stored.

Nothing but what was killed in vain runs again: of the jobs themselves, the replay does. What failed
besides has to be replayed first.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from holdfast.errors import IllegalMove, TooLarge
from holdfast.ledger.keys import RequestKey, recall
from holdfast.ledger.ledger import Ledger
from holdfast.operations.submitting.resume import Resumed, resume
from holdfast.store.tables.order.continuations import list_in_vain, read_resumable, walk_broken


@dataclass(frozen=True, slots=True)
class Broken:
    """Jobs for which others have waited in vain, and those others, directly or not."""

    waited_for: frozenset[int] = frozenset()
    in_vain: tuple[int, ...] = ()


@dataclass(slots=True)
class Released:
    """What goes on, and for which jobs what waited does not, and why."""

    resumed: list[Resumed] = field(default_factory=list)
    not_resumed: dict[int, str] = field(default_factory=dict)


async def find_broken(ledger: Ledger, job_ids: Collection[int], *, to_resume: bool) -> Broken:
    """Find what was killed because these jobs failed, and was not run again since.

    More than can be resumed are refused if they are to be; otherwise they are counted up to that.
    """
    jobs_max = ledger.limits.graph_jobs_max
    async with ledger.database.transaction() as tx:
        waited_for = await list_in_vain(tx, job_ids)
        broken = await walk_broken(tx, waited_for, count_max=jobs_max + 1) if waited_for else []
        jobs = await read_resumable(tx, broken)
    if to_resume and len(broken) > jobs_max:
        raise TooLarge("resume", len(broken), jobs_max, unit="jobs to be resumed")
    in_vain = {job_id for job_id, job in jobs.items() if not job.has_failed}
    return Broken(frozenset(waited_for), tuple(sorted(in_vain - set(waited_for))))


async def release(
    ledger: Ledger,
    replayed: Iterable[int],
    broken: Broken,
    *,
    actor: str,
    keyed: RequestKey | None,
    rebind: bool,
) -> Released:
    """Resume what waited for replayed jobs; once under a key, for each of them."""
    released = Released()
    for job_id in sorted(set(replayed)):
        once = keyed and keyed._replace(scope=f"release {job_id}:{actor}")
        if job_id not in broken.waited_for:
            released.resumed += await recall(ledger, once, list[Resumed]) or ()
            continue
        try:
            released.resumed += await resume(
                ledger, job_id, actor=actor, keyed=once, rebind=rebind, only_waiting=True
            )
        except IllegalMove as refusal:
            released.not_resumed[job_id] = str(refusal)
    return released
