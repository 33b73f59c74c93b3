"""Jobs that wait for other jobs, released when those have ended.

The end of a job that others wait for leaves a row in the outbox, in the same transaction.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import add_follow_ups
from holdfast.model.ids import TaskId
from holdfast.rules.dependencies import explain_unmeetable
from holdfast.store.database import Transaction
from holdfast.store.tables.dependencies import (
    LockedDependent,
    SettledDependency,
    count_met,
    lock_dependents,
    settle_dependencies,
    walk_open_dependencies,
)
from holdfast.store.tables.jobs import flag_cancel
from holdfast.store.tables.outbox import delete_outbox, take_releases
from holdfast.store.tables.ready import feed_ready

ENDED_JOBS_MAX = 1000
DEPENDENTS_MAX = 2000
LINED_UP_MAX = 5000


async def release_dependents(_: Ledger, tx: Transaction) -> int:
    """Settle what waited for jobs that have ended: many at a time; returns how many had ended."""
    ended = await take_releases(tx, ENDED_JOBS_MAX)
    if not ended:
        return 0
    settled = await settle_dependencies(tx, {row.job_id for row in ended}, batch_max=DEPENDENTS_MAX)
    if settled:
        await _release(tx, settled)
    if len(settled) < DEPENDENTS_MAX:  # else there may be more of them
        await delete_outbox(tx, [row.id for row in ended])
    return len(ended)


async def _release(tx: Transaction, settled: Sequence[SettledDependency]) -> None:
    met: Counter[int] = Counter()
    in_vain: dict[int, str] = {}
    for job_id, depends_on, condition, state, is_met in settled:
        if is_met:
            met[job_id] += 1
        else:
            in_vain.setdefault(job_id, explain_unmeetable(depends_on, condition, state))
    # All rows at once and in order: each is written to below.
    waiting = await lock_dependents(tx, {*met, *in_vain})
    counted = await count_met(tx, sorted(met.items()))
    live = {job_id: cause for job_id, cause in in_vain.items() if waiting[job_id].is_live}
    await cancel_unmeetable(tx, live)
    await _line_up(tx, [waiting[job_id] for job_id, is_released in counted if is_released])


async def cancel_unmeetable(tx: Transaction, causes: Mapping[int, str]) -> None:
    """Cancel live jobs that will never start; their tasks are left to the sweep."""
    if causes:
        await flag_cancel(tx, sorted(causes.items()), mode="hard", actor="server")
        await add_follow_ups(tx, [("sweep", job_id) for job_id in sorted(causes)])


async def _line_up(tx: Transaction, released: Sequence[LockedDependent]) -> None:
    """Put the tasks of released jobs in line; large jobs, and those for later, are fed.

    The tasks are not locked: none of them has ever been in line, and the ready row of one that is
    cancelled at this moment is stale like that of any other. A waiting row must not be.
    """
    task_ids: list[TaskId] = []
    fed: list[int] = []
    for job in sorted(released):
        if job.has_time or len(task_ids) + job.num_tasks > LINED_UP_MAX:
            fed.append(job.job_id)
        else:
            task_ids += [TaskId(job.job_id, index) for index in range(job.num_tasks)]
    await feed_tasks(tx, task_ids)
    await add_follow_ups(tx, [("feed", job_id) for job_id in fed])


async def feed_tasks(tx: Transaction, task_ids: Sequence[TaskId]) -> None:
    """Put tasks in line that have not been there before, and tell who waits for them."""
    if task_ids:
        for task_id, queue in await feed_ready(tx, task_ids):
            tx.news.add_ready(queue, task_id)


async def find_forgotten(ledger: Ledger, after: int, *, batch_max: int) -> int | None:
    """Look through open dependencies for jobs that have ended and were not followed up.

    There should be none, ever. Returns where to go on, or None at the end.
    """
    async with ledger.database.transaction() as tx:
        awaited = await walk_open_dependencies(tx, after=after, batch_max=batch_max)
        await add_follow_ups(tx, [("release", job.job_id) for job in awaited if job.is_forgotten])
    return awaited[-1].job_id if len(awaited) == batch_max else None
