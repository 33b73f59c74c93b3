"""What follows downward from a change: sweeps, cascades and the feeding of large jobs.

Each step is a transaction of its own that takes one outbox row, or many of a kind; a row lives
until its work is done, so that a crash in between loses nothing.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from holdfast.errors import Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, add_follow_ups, apply_moves
from holdfast.ledger.parts import BROKEN_PUT_OFF
from holdfast.model.work.attempts import LockedTask
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import CancelMode
from holdfast.model.work.states import JobState
from holdfast.operations.ending.cancel import flag_job, stop_tasks
from holdfast.operations.ending.dependents import release_dependents
from holdfast.operations.undoing.compensate import compensate
from holdfast.operations.undoing.undo import end_undo, note_undos
from holdfast.operations.upkeep.requeue import feed_tasks
from holdfast.rules.pace import next_step
from holdfast.store.database import LockTimeout, Transaction
from holdfast.store.tables.limits.usage_limits import share_limits
from holdfast.store.tables.upkeep.outbox import (
    OutboxRow,
    advance_outbox,
    delete_outbox,
    drop_childless_ends,
    let_outbox_wait,
    list_outbox,
    lock_outbox,
    pace_outbox,
    put_off_outbox,
    take_small_sweeps,
)
from holdfast.store.tables.work.jobs import (
    list_live_children,
    read_job_flags,
    read_time_to_start,
)
from holdfast.store.tables.work.ready import Stretch, leave_line
from holdfast.store.tables.work.tasks import (
    has_unstopped_task,
    lock_live_tasks,
    lock_tasks,
    lock_tasks_of_jobs,
)

SWEEP_TASKS_MAX = 1000
FEED_TASKS_MAX = 5000
CHILDREN_MAX = 100
SMALL_JOBS_MAX = 500
SMALL_TASKS_MAX = 2
BLOCKED_MAX = 20


async def follow_up(ledger: Ledger, rows_max: int = 100) -> int:
    """Take one step of each piece of work that waits; returns how many steps were taken.

    What cannot be done, because somebody else holds its locks or because something is wrong with
    it, must not hold up the rest. It is raised at the end: an error at once, a lock that could not
    be had only if nothing else could be done.
    """
    async with ledger.database.transaction() as tx:
        rows = await list_outbox(tx, list(_STEPS), batch_max=rows_max)
        graphs = await list_outbox(tx, ["undo_graph"], batch_max=rows_max)
    steps, blocked, broken = 0, None, None
    for row_id, step in _list_steps(ledger, rows, graphs):
        try:
            steps += await step()
        except LockTimeout as error:
            blocked = error
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - raised when the others had a turn
            broken = broken or error
            await ledger.write(_put_off, row_id)
    if broken is not None:
        raise broken
    if blocked is not None and not steps:
        raise blocked
    return steps


def _list_steps(
    ledger: Ledger, rows: Sequence[OutboxRow], graphs: Sequence[OutboxRow]
) -> Iterator[tuple[int | None, Callable[[], Awaitable[int]]]]:
    """Say what is to be done, and for which row of the outbox: first what is done for many."""
    yield None, partial(release_dependents, ledger)
    yield None, partial(ledger.write, _sweep_small)
    yield None, partial(ledger.write, _drop_childless)
    yield None, partial(note_undos, ledger)
    for row in rows:
        yield row.id, partial(ledger.write, _step, row_id=row.id)
    for row in graphs:
        yield row.id, partial(compensate, ledger, row.id, row.job_id)


async def _put_off(_: Ledger, tx: Transaction, row_id: int | None) -> None:
    if row_id is not None:
        await put_off_outbox(tx, [row_id], BROKEN_PUT_OFF)


async def follow_up_all(ledger: Ledger, steps_max: int = 1_000_000) -> int:
    """Take steps until nothing waits; for tests, demos and small installations."""
    steps = 0
    blocked = 0
    while steps < steps_max:
        try:
            taken = await follow_up(ledger)
        except LockTimeout:
            blocked += 1
            if blocked == BLOCKED_MAX:
                raise
            continue
        if not taken:
            break
        steps += taken
    return steps


class _Later(NamedTuple):
    """Where a piece of work goes on, and how long after the last time."""

    next_index: int
    pause: timedelta


async def _step(ledger: Ledger, tx: Transaction, *, row_id: int) -> int:
    work = await lock_outbox(tx, row_id)
    if work is None:
        return 0
    step = _STEPS[work.kind]
    following = await step(ledger, tx, work.job_id, next_index=work.next_index)
    if following is None:
        await delete_outbox(tx, [row_id])
        return 1
    if isinstance(following, _Later):
        await pace_outbox(tx, row_id, following.next_index, pause=following.pause)
        return 1
    await advance_outbox(tx, row_id, following)
    if following == work.next_index:  # for something that is held
        await let_outbox_wait(tx, [row_id])
    return 1


async def _sweep(ledger: Ledger, tx: Transaction, job_id: int, *, next_index: int) -> int | None:
    """Stop the next tasks of a job that was cancelled or has ended, but for held ones."""
    if not await _sweep_window(ledger, tx, job_id, next_index=next_index):
        await add_follow_ups(tx, [("sweep_held", job_id)], next_index)
    stored = (await ledger.specs.load(tx, {job_id})).get(job_id)
    end = next_index + SWEEP_TASKS_MAX
    return end if stored is not None and end < stored.num_tasks else None


async def _sweep_held(
    ledger: Ledger, tx: Transaction, job_id: int, *, next_index: int
) -> int | None:
    """Stop what a sweep has passed by because somebody held it, and nothing else."""
    is_done = await _sweep_window(ledger, tx, job_id, next_index=next_index)
    return None if is_done else next_index


async def _sweep_window(ledger: Ledger, tx: Transaction, job_id: int, *, next_index: int) -> bool:
    """Stop a thousand tasks, but for those that somebody holds; False if there are any."""
    window = {"first_index": next_index, "end_index": next_index + SWEEP_TASKS_MAX}
    await leave_line(tx, [Stretch(job_id, **window)])
    await _stop(ledger, tx, await lock_live_tasks(tx, job_id, **window))
    return not await has_unstopped_task(tx, job_id, **window)


async def _sweep_small(ledger: Ledger, tx: Transaction) -> int:
    """Stop the tasks of many small jobs; one that fails makes each of them go on its own."""
    rows = await take_small_sweeps(tx, tasks_max=SMALL_TASKS_MAX, batch_max=SMALL_JOBS_MAX)
    if rows:
        await leave_line(tx, [Stretch(row.job_id, 0, SMALL_TASKS_MAX) for row in rows])
        await _stop(ledger, tx, await lock_tasks_of_jobs(tx, [row.job_id for row in rows]))
        await delete_outbox(tx, [row.id for row in rows])
    return len(rows)


async def _stop(ledger: Ledger, tx: Transaction, tasks: Sequence[LockedTask]) -> None:
    """Stop locked tasks, as it was asked of their jobs and for that reason."""
    flags = await read_job_flags(tx, sorted({task.job_id for task in tasks}))
    groups: dict[tuple[CancelMode, str], set[int]] = defaultdict(set)
    for job in flags.values():
        mode: CancelMode = "soft" if job.cancel_mode == "soft" and not job.finished else "hard"
        reason = job.cancel_reason or f"the job is {JobState(job.state).name}"
        groups[mode, reason].add(job.job_id)
    moves = Moves()
    for (mode, reason), group in groups.items():
        mine = [task for task in tasks if task.job_id in group]
        await stop_tasks(ledger, tx, mine, moves=moves, mode=mode, actor="server", reason=reason)
    await apply_moves(tx, moves)


async def _drop_childless(_: Ledger, tx: Transaction) -> int:
    """Forget about the children of jobs that have none."""
    return await drop_childless_ends(tx, SMALL_JOBS_MAX)


async def _feed(
    ledger: Ledger, tx: Transaction, job_id: int, *, next_index: int
) -> int | _Later | None:
    """Line up the next tasks of a job that is too large to be lined up at once, or paced.

    They are not locked, as when a small job is lined up, unless they may have to wait for a time.
    """
    job = (await read_job_flags(tx, [job_id])).get(job_id)
    if job is None or job.finished or job.cancel_mode:
        return None
    stored = (await ledger.specs.load(tx, {job_id}))[job_id]
    spec = stored.spec
    if next_index == 0 and spec.start_delay:
        early = await read_time_to_start(tx, job_id, timedelta(seconds=spec.start_delay))
        if early > timedelta():
            return _Later(0, early)
    tasks_max, pause = FEED_TASKS_MAX, None
    if spec.start_rate is not None:
        tasks_max, pause = next_step(spec.start_rate, FEED_TASKS_MAX)
    end = min(next_index + tasks_max, stored.num_tasks)
    task_ids = [TaskId(job_id, index) for index in range(next_index, end)]
    if spec.not_before is not None:
        await share_limits(tx)  # before tasks are locked: whoever changes limits waits for leases
        await lock_tasks(tx, task_ids)
    await feed_tasks(tx, task_ids)
    if end == stored.num_tasks:
        return None
    return end if pause is None else _Later(end, pause)


async def _end_children(
    ledger: Ledger, tx: Transaction, job_id: int, *, next_index: int
) -> int | None:
    """Cancel the live children of a job that ended in any state but SUCCEEDED."""
    job = (await read_job_flags(tx, [job_id])).get(job_id)
    if job is None:
        return None
    mode: CancelMode = "soft" if job.cancel_mode == "soft" else "hard"
    children = await list_live_children(tx, job_id, mode=mode, batch_max=CHILDREN_MAX)
    for child in children:
        reason = f"parent job {job_id} ended {JobState(job.state).name}"
        await flag_job(ledger, tx, child, mode=mode, actor="server", reason=reason)
    return next_index + 1 if len(children) == CHILDREN_MAX else None


_STEPS: dict[str, Callable[..., Awaitable[int | _Later | None]]] = {
    "sweep": _sweep,
    "sweep_held": _sweep_held,
    "feed": _feed,
    "job_ended": _end_children,
    "undone": end_undo,
}
