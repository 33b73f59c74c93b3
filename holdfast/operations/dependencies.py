"""Jobs that wait for other jobs, released when those have ended.

The end of a job that others wait for leaves a row in the outbox, in the same transaction.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import add_follow_ups
from holdfast.model.ids import TaskId
from holdfast.rules.dependencies import explain_unmeetable
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import id_columns

_JOBS = load_statements("jobs")
_ORDER = load_statements("order")
_READY = load_statements("ready")
ENDED_JOBS_MAX = 1000
DEPENDENTS_MAX = 2000
LINED_UP_MAX = 5000


async def release_dependents(_: Ledger, tx: Transaction) -> int:
    """Settle what waited for jobs that have ended: many at a time; returns how many had ended."""
    rows = await tx.fetch(_ORDER["take_releases"], batch_max=ENDED_JOBS_MAX)
    if not rows:
        return 0
    settled = await tx.fetch(
        _ORDER["settle_dependencies"],
        ended_job_ids=sorted({row[1] for row in rows}),
        batch_max=DEPENDENTS_MAX,
    )
    if settled:
        await _release(tx, settled)
    if len(settled) < DEPENDENTS_MAX:  # else there may be more of them
        await tx.fetch(_ORDER["delete_releases"], ids=[row[0] for row in rows])
    return len(rows)


async def _release(tx: Transaction, settled: Sequence[Any]) -> None:
    met: Counter[int] = Counter()
    in_vain: dict[int, str] = {}
    for job_id, depends_on, condition, state, is_met in settled:
        if is_met:
            met[job_id] += 1
        else:
            in_vain.setdefault(job_id, explain_unmeetable(depends_on, condition, state))
    # All rows at once and in order: each is written to below.
    rows = await tx.fetch(_ORDER["lock_dependents"], job_ids=sorted({*met, *in_vain}))
    waiting = {row["job_id"]: row for row in rows}
    counted = sorted(met)
    freed = await tx.fetch(
        _ORDER["count_met"], job_ids=counted, met=[met[job_id] for job_id in counted]
    )
    live = {job_id: cause for job_id, cause in in_vain.items() if waiting[job_id]["is_live"]}
    await cancel_unmeetable(tx, live)
    await _line_up(tx, [waiting[job_id] for job_id, is_released in freed if is_released])


async def cancel_unmeetable(tx: Transaction, causes: Mapping[int, str]) -> None:
    """Cancel live jobs that will never start; their tasks are left to the sweep."""
    job_ids = sorted(causes)
    if job_ids:
        await tx.fetch(
            _JOBS["flag_cancel"],
            job_ids=job_ids,
            mode="hard",
            reasons=[causes[job_id] for job_id in job_ids],
            actor="server",
        )
        await add_follow_ups(tx, [("sweep", job_id) for job_id in job_ids])


async def _line_up(tx: Transaction, released: Sequence[Any]) -> None:
    """Put the tasks of released jobs in line; large jobs, and those for later, are fed.

    The tasks are not locked: none of them has ever been in line, and the ready row of one that is
    cancelled at this moment is stale like that of any other. A waiting row must not be.
    """
    task_ids: list[TaskId] = []
    fed: list[int] = []
    for job in sorted(released, key=lambda job: job["job_id"]):
        if job["has_time"] or len(task_ids) + job["num_tasks"] > LINED_UP_MAX:
            fed.append(job["job_id"])
        else:
            task_ids += [TaskId(job["job_id"], index) for index in range(job["num_tasks"])]
    await feed_tasks(tx, task_ids)
    await add_follow_ups(tx, [("feed", job_id) for job_id in fed])


async def feed_tasks(tx: Transaction, task_ids: Sequence[TaskId]) -> None:
    """Put tasks in line that have not been there before, and tell who waits for them."""
    if task_ids:
        for row in await tx.fetch(_READY["feed_ready"], **id_columns(task_ids)):
            tx.news.add_ready(row["queue"], TaskId(row["job_id"], row["task_index"]))


async def find_forgotten(ledger: Ledger, after: int, *, batch_max: int) -> int | None:
    """Look through open dependencies for jobs that have ended and were not followed up.

    There should be none, ever. Returns where to go on, or None at the end.
    """
    async with ledger.database.transaction() as tx:
        rows = await tx.fetch(_ORDER["walk_open_dependencies"], after=after, batch_max=batch_max)
        await add_follow_ups(tx, [("release", row[0]) for row in rows if row[1]])
    return rows[-1][0] if len(rows) == batch_max else None
