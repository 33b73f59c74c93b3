"""Jobs that wait for other jobs, released when those have ended.

The end of a job that others wait for leaves a row in the outbox, in the same transaction.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from holdfast.errors import IllegalMove, NotFound
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import add_follow_ups
from holdfast.ledger.parts import (
    Failure,
    Patience,
    put_off_failures,
    write_at_once,
    write_in_parts,
)
from holdfast.model.work.ids import TaskId, check_job_id
from holdfast.model.work.states import JobState
from holdfast.operations.upkeep.requeue import feed_tasks
from holdfast.rules.dependencies import explain_unmeetable
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import LockTimeout, Transaction
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.limits.usage_limits import share_limits
from holdfast.store.tables.order import chains
from holdfast.store.tables.order.chains import forget_last_job
from holdfast.store.tables.order.dependencies import (
    ClosedDependencies,
    ReleasedJob,
    close_dependencies,
    count_met,
    hand_on_chains,
    list_waiting_dependents,
    lock_dependents,
    walk_open_dependencies,
)
from holdfast.store.tables.upkeep.outbox import (
    delete_done_releases,
    delete_outbox,
    put_off_releases,
    take_outbox,
)
from holdfast.store.tables.work.dead_letters import reopen_letters
from holdfast.store.tables.work.jobs import flag_cancel, hold_jobs, list_free_jobs

ENDED_JOBS_MAX = 1000
DEPENDENTS_MAX = 2000
LINED_UP_MAX = 5000
LOOKS_MAX = 10
REASON_LENGTH_MAX = 16_000


async def release_dependents(ledger: Ledger) -> int:
    """Release what waited for jobs that have ended: many at a time; returns 0 if nothing did.

    A dependent that somebody holds, or that is broken, is left alone. The end of the job that it
    waits for is put off when nothing else is left to do for it.
    """
    at_once = await write_at_once(ledger, _release)
    if at_once is not None:
        return at_once
    done, is_more = 0, True
    patience = Patience()
    left: list[Failure[int]] = []
    for _ in range(LOOKS_MAX):
        held, free, is_more = await _find_waiting(ledger, left)
        if held:
            left.append(Failure(held, LockTimeout("somebody holds dependents")))
        write = partial(ledger.write, _release)
        answers, failures = await write_in_parts(write, [[job_id] for job_id in free], patience)
        done += sum(answers)
        left += failures
        if not is_more or patience.is_over:
            break
    if done and (is_more or patience.is_over):
        return done
    await put_off_failures(ledger, left, put_off_releases)
    return done


async def _find_waiting(
    ledger: Ledger, left: Sequence[Failure[int]]
) -> tuple[list[int], list[int], bool]:
    """Find dependents but for what is left: those somebody holds, the rest; and if more may be."""
    async with ledger.database.transaction() as tx:
        waiting = await list_waiting_dependents(
            tx,
            except_jobs=[job_id for items, _ in left for job_id in items],
            ended_max=ENDED_JOBS_MAX,
            batch_max=DEPENDENTS_MAX,
        )
        free = await list_free_jobs(tx, set(waiting))
    return sorted(set(waiting).difference(free)), sorted(free), len(waiting) == DEPENDENTS_MAX


async def _release(_: Ledger, tx: Transaction, among: list[int] | None = None) -> int:
    """Release dependents, or some of them; returns how many jobs had ended."""
    rows = await take_outbox(tx, "release", batch_max=ENDED_JOBS_MAX)
    if not rows:
        return 0
    ended = {row.job_id for row in rows}
    await share_limits(tx)  # before jobs are locked: whoever changes limits waits for leases
    await _hand_on(tx, ended)
    closed = await close_dependencies(tx, ended, among=among, batch_max=DEPENDENTS_MAX)
    if closed:
        await _count(tx, closed)
    row_ids = [row.id for row in rows]
    if among is not None:
        await delete_done_releases(tx, row_ids)
    elif sum(job.closed for job in closed) < DEPENDENTS_MAX:  # else there may be more of them
        await delete_outbox(tx, row_ids)
    return len(rows)


async def _hand_on(tx: Transaction, ended: set[int], *, lets_pass: bool = False) -> int:
    """Pass over those of a chain that have ended before their turns; returns for how many jobs."""
    handed = await hand_on_chains(tx, ended, lets_pass=lets_pass)
    again = {each.depends_on for each in handed if each.has_ended}
    await add_follow_ups(tx, [("release", job_id) for job_id in sorted(again)])
    return len(handed)


async def _count(tx: Transaction, closed: Sequence[ClosedDependencies]) -> None:
    # All rows at once and in order: each is written to below.
    live = await lock_dependents(tx, [job.job_id for job in closed])
    released = await count_met(tx, {job.job_id: job.met for job in closed if job.met})
    causes = {
        job.job_id: explain_unmeetable(*job.unmeetable)
        for job in closed
        if job.unmeetable is not None and job.job_id in live
    }
    await cancel_unmeetable(tx, causes)
    if causes:
        await reopen_letters(tx, sorted(causes))
    await _line_up(tx, released)


async def cancel_unmeetable(tx: Transaction, causes: Mapping[int, str]) -> None:
    """Cancel live jobs that will never start; their tasks are left to the sweep."""
    if causes:
        await flag_cancel(tx, sorted(causes.items()), mode="hard", actor="server")
        await add_follow_ups(tx, [("sweep", job_id) for job_id in sorted(causes)])


async def _line_up(tx: Transaction, released: Sequence[ReleasedJob]) -> None:
    """Put the tasks of released jobs in line; large jobs, and those for later, are fed.

    The tasks are not locked: none of them has ever been in line, and the ready row of one that is
    cancelled at this moment is stale like that of any other. A waiting row must not be.
    """
    task_ids: list[TaskId] = []
    fed: list[int] = []
    for job in released:
        if job.has_time or len(task_ids) + job.num_tasks > LINED_UP_MAX:
            fed.append(job.job_id)
        else:
            task_ids += [TaskId(job.job_id, index) for index in range(job.num_tasks)]
    await feed_tasks(tx, task_ids)
    await add_follow_ups(tx, [("feed", job_id) for job_id in fed])


async def let_pass(ledger: Ledger, job_id: int, *, actor: str, reason: str) -> bool:
    """Have a chain that stands still after this job go on; False if nothing waits for that."""
    check_job_id(job_id)
    check_text("reason", reason, REASON_LENGTH_MAX)
    return await ledger.write(_let_pass, job_id, actor=actor, reason=reason)


async def _let_pass(_: Ledger, tx: Transaction, job_id: int, *, actor: str, reason: str) -> bool:
    is_last = await forget_last_job(tx, job_id)  # its chain first: nobody joins meanwhile
    await share_limits(tx)
    num_handed_on = await _hand_on(tx, {job_id}, lets_pass=True)
    waiting = await chains.let_pass(tx, job_id)
    job = (await hold_jobs(tx, [job_id])).get(job_id)
    if job is None:
        raise NotFound("job", job_id)
    if not job.ended:
        raise IllegalMove(f"job {job_id}", JobState(job.state).name, "pass")
    closed = [ClosedDependencies(each.job_id, 1, 1, None) for each in waiting if each.is_closed]
    if closed:
        await _count(tx, closed)
    if len(closed) < len(waiting):
        await add_follow_ups(tx, [("release", job_id)])
    num_waiting = num_handed_on + len(waiting)
    if is_last or num_waiting:
        did = NewAction(actor, "let_pass", "job", str(job_id), reason, {"waiting": num_waiting})
        await record_actions(tx, [did])
    return is_last or num_waiting > 0


async def find_forgotten(ledger: Ledger, after: int, *, batch_max: int) -> int | None:
    """Look through open dependencies for jobs that have ended and were not followed up.

    There should be none, ever. Returns where to go on, or None at the end.
    """
    async with ledger.database.transaction() as tx:
        awaited = await walk_open_dependencies(tx, after=after, batch_max=batch_max)
        await add_follow_ups(tx, [("release", job.job_id) for job in awaited if job.is_forgotten])
    return awaited[-1].job_id if len(awaited) == batch_max else None
