"""Take a worker's word that an attempt is building or running."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from holdfast.errors import Invalid, LeaseConflict, Refused
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.work.fence import Fence, check_fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.store.database import Transaction
from holdfast.store.tables.work.leases import find_leases
from holdfast.store.tables.work.tasks import NO_TIME, lock_tasks, start_building, start_running

_STARTS = (TaskState.BUILDING, TaskState.RUNNING)


class Report(NamedTuple):
    """A worker says where its attempt stands."""

    fence: Fence
    state: TaskState
    # Of one that runs: for how long, by the worker's own clock.
    run: timedelta = NO_TIME


class Recorded(NamedTuple):
    """The report is in the ledger, or was nothing new."""

    task_id: TaskId
    is_news: bool


Answer = Recorded | Refused


async def report(ledger: Ledger, reports: Sequence[Report]) -> list[Answer]:
    """Record starts; a report at or behind the recorded state changes nothing."""
    refused = [_refusal_of(report) for report in reports]
    good = [r for r, refusal in zip(reports, refused, strict=True) if refusal is None]
    recorded = iter(await ledger.write(record, good) if good else [])
    return [refusal if refusal is not None else next(recorded) for refusal in refused]


async def record(_: Ledger, tx: Transaction, reports: list[Report]) -> list[Answer]:
    """Record starts that have been checked."""
    moves = Moves()
    by_state = {
        state: {report.fence for report in reports if report.state == state} for state in _STARTS
    }
    if all(by_state.values()):
        # Two statements follow; tasks are locked once, all together and in order.
        await lock_tasks(tx, [report.fence.task_id for report in reports])
    moved: set[tuple[Fence, TaskState]] = set()
    runs = {report.fence: report.run for report in reports}
    for state, fences in by_state.items():
        started = await start(tx, fences, state, moves=moves, runs=runs)
        moved |= {(fence, state) for fence in started}
    left = [report.fence for report in reports if (report.fence, report.state) not in moved]
    known = await find_leases(tx, left) if left else set()
    await apply_moves(tx, moves)
    answers: list[Answer] = []
    for item in reports:
        task_id = item.fence.task_id
        if (item.fence, item.state) in moved:
            answers.append(Recorded(task_id, is_news=True))
        elif item.fence in known:
            answers.append(Recorded(task_id, is_news=False))
        else:
            answers.append(
                LeaseConflict(task_id, "this attempt no longer holds the lease; stop it")
            )
    return answers


async def start(
    tx: Transaction,
    fences: set[Fence],
    state: TaskState,
    *,
    moves: Moves,
    runs: Mapping[Fence, timedelta],
) -> list[Fence]:
    """Lock tasks and move open attempts forward; returns those that this brought forward.

    One that runs has started as long ago as `runs` says, but not before its claim.
    """
    if not fences:
        return []
    if state == TaskState.BUILDING:
        started = await start_building(tx, sorted(fences))
    else:
        started = await start_running(tx, sorted(fences), runs)
    tokens = {}
    for job_id, task_index, token, before in started:
        moves.add(job_id, before, state)
        tokens[job_id, task_index] = token
    # Two tokens for one task in one batch: only the one that matches the lease has moved it.
    return [fence for fence in fences if tokens.get(fence.task_id) == fence.lease_token]


def check_report(report: Report) -> None:
    """Refuse what no attempt can report."""
    check_fence(report.fence)
    if report.state not in _STARTS:
        raise Invalid("state", "cannot be reported by a heartbeat; use BUILDING or RUNNING")


def _refusal_of(report: Report) -> Refused | None:
    try:
        check_report(report)
    except Refused as refused:
        return refused
    return None
