"""Whoever ends attempts asks here what follows: for single tasks, and for gangs as a whole."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from random import random
from typing import NamedTuple

from holdfast.ledger.ledger import Ledger
from holdfast.model.ids import TaskId
from holdfast.model.outcomes import Outcome
from holdfast.operations.ending.endings import Ending, decide_ending
from holdfast.rules.gang import Member, after_round
from holdfast.rules.retry import Counters
from holdfast.store.database import Transaction
from holdfast.store.rows import LockedLease, LockedTask
from holdfast.store.specs import StoredSpec


class Notice(NamedTuple):
    """How an open attempt ended and who says so; what follows is still to be decided."""

    outcome: Outcome
    actor: str = "server"
    reported: bool = False
    released: bool = True


async def widen(ledger: Ledger, tx: Transaction, task_ids: Iterable[TaskId]) -> list[TaskId]:
    """Add the siblings of gang members, so that whole gangs are locked at once and in order."""
    wanted = set(task_ids)
    specs = await ledger.specs.load(tx, {task_id.job_id for task_id in wanted})
    for job_id, stored in specs.items():
        if stored.policy.is_gang:
            wanted.update(TaskId(job_id, index) for index in range(stored.num_tasks))
    return sorted(wanted)


def decide_endings(
    specs: Mapping[int, StoredSpec],
    tasks: Mapping[TaskId, LockedTask],
    leases: Mapping[TaskId, LockedLease],
    *,
    notices: Mapping[TaskId, Notice],
) -> list[Ending]:
    """Decide what follows from the ends of open attempts; siblings in gangs end along with them.

    Tasks and leases are locked, of gangs all members: see `widen`.
    """
    endings: list[Ending] = []
    gangs: dict[int, dict[TaskId, Notice]] = defaultdict(dict)
    for task_id, notice in notices.items():
        policy = specs[task_id.job_id].policy
        if policy.is_gang:
            gangs[task_id.job_id][task_id] = notice
        else:
            endings.append(
                decide_ending(
                    tasks[task_id],
                    leases[task_id],
                    notice.outcome,
                    policy=policy,
                    actor=notice.actor,
                    reported=notice.reported,
                    released=notice.released,
                )
            )
    for job_id, noticed in gangs.items():
        members = [TaskId(job_id, index) for index in range(specs[job_id].num_tasks)]
        endings += _decide_gang(
            specs[job_id], {task_id: tasks[task_id] for task_id in members}, leases, notices=noticed
        )
    return endings


def _decide_gang(
    stored: StoredSpec,
    tasks: Mapping[TaskId, LockedTask],
    leases: Mapping[TaskId, LockedLease],
    *,
    notices: Mapping[TaskId, Notice],
) -> list[Ending]:
    decided = after_round(
        {
            task_id: Member(
                task.state,
                Counters(task.failure_count, task.preemption_count, task.free_loss_count),
                leases[task_id].cancel if task_id in leases else None,
            )
            for task_id, task in tasks.items()
        },
        {task_id: notice.outcome for task_id, notice in notices.items()},
        stored.policy,
        job_is_live=leases[next(iter(notices))].job_is_live,
        jitter=random(),
    )
    endings = []
    for task_id, end in decided.items():
        # An echo is the server's doing, and nobody has seen the sibling's process go.
        notice = notices.get(task_id) or Notice(end.outcome, released=False)
        endings.append(
            Ending(
                tasks[task_id],
                end.outcome,
                end.verdict,
                notice.actor,
                notice.reported,
                notice.released,
            )
        )
    return endings
