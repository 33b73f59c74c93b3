"""Replay dead letters: a new job for each job they came from, linked to it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from holdfast.errors import NotFound, TooLarge
from holdfast.ledger.keys import RequestKey, recall, wait_turn, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.model.ids import TaskId
from holdfast.model.spec import Submission
from holdfast.operations.dead_letters import check_letter_ids, lock_letters
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.chunk import hide_large, store_or_show
from holdfast.operations.submitting.resubmission import (
    PAGE_TASKS_MAX,
    Resubmission,
    check_inputs_size,
    describe_again,
    note_replays,
)
from holdfast.rules.submission import check_text, complete_submission
from holdfast.store.database import Transaction
from holdfast.store.tables.dead_letters import (
    mark_replayed,
    measure_letter_inputs,
    read_letter_inputs,
)


@dataclass(frozen=True, slots=True)
class Replay:
    """Dead letters of one job, and the new job that runs them again (None in a dry run)."""

    replay_of: int
    task_ids: tuple[TaskId, ...]
    job_id: int | None


class _Plan(NamedTuple):
    """Dead letters of one job in the order of their ids, and what runs them again."""

    task_ids: tuple[TaskId, ...]
    again: Resubmission


async def replay(
    ledger: Ledger,
    task_ids: Sequence[TaskId],
    *,
    actor: str,
    dry_run: bool = False,
    keyed: RequestKey | None = None,
    rebind: bool = False,
) -> list[Replay]:
    """Submit dead letters again: a new job for each job they came from, linked to it.

    With inputs, the new job has the dead inputs; replicas belong together and run again as a whole.
    If it may rebind, it writes the newest open version where the one that was named is sealed.
    """
    check_letter_ids(task_ids)
    check_text("actor", actor, 256)
    if dry_run:
        plans = await _plan(ledger, task_ids, rebind=rebind)
        return [Replay(plan.again.job_id, plan.task_ids, None) for plan in plans]
    again = partial(_replay, ledger, task_ids, actor=actor, keyed=keyed, rebind=rebind)
    return await again() if keyed is None else await wait_turn(keyed, again)


async def _replay(
    ledger: Ledger,
    task_ids: Sequence[TaskId],
    *,
    actor: str,
    keyed: RequestKey | None,
    rebind: bool,
) -> list[Replay]:
    first = await recall(ledger, keyed, list[Replay])
    if first is not None:
        return first
    plans = await _plan(ledger, task_ids, only_open=keyed is None, rebind=rebind)
    jobs = await admit(ledger, await _describe(ledger, plans))
    total = sum(job.num_tasks for job in jobs)
    if total > ledger.limits.tasks_max:
        raise TooLarge("task_ids", total, ledger.limits.tasks_max, unit="tasks")
    hidden = await hide_large(ledger, jobs)
    return await write_once(
        ledger, keyed, _store, plans, returns=list[Replay], jobs=jobs, hidden=hidden, actor=actor
    )


async def _plan(
    ledger: Ledger, task_ids: Sequence[TaskId], *, only_open: bool = True, rebind: bool
) -> list[_Plan]:
    """Find out which jobs there will be, without the inputs; their size is bounded.

    Under a key, letters that are settled are left to the transaction that takes it: the same
    request may have settled them.
    """
    async with ledger.database.transaction() as tx:
        await lock_letters(tx, task_ids, "replay", only_open=only_open)
        by_job: dict[int, list[TaskId]] = defaultdict(list)
        for task_id in sorted(task_ids):
            by_job[task_id.job_id].append(task_id)
        again = await describe_again(ledger, tx, by_job.keys(), rebind=rebind)
        with_inputs = [task_id for task_id in task_ids if again[task_id.job_id].has_inputs]
        check_inputs_size(await measure_letter_inputs(tx, with_inputs))
    return [_Plan(tuple(group), again[job_id]) for job_id, group in sorted(by_job.items())]


async def _describe(ledger: Ledger, plans: Sequence[_Plan]) -> list[Submission]:
    """Describe the new jobs, the inputs of all of them read a page at a time."""
    wanted = [task_id for plan in plans if plan.again.has_inputs for task_id in plan.task_ids]
    inputs: dict[TaskId, str] = {}
    for first in range(0, len(wanted), PAGE_TASKS_MAX):
        async with ledger.database.transaction() as tx:
            inputs |= await read_letter_inputs(tx, wanted[first : first + PAGE_TASKS_MAX])
    for task_id in wanted:
        if task_id not in inputs:  # retention was faster
            raise NotFound("dead letter", task_id)
    return [
        complete_submission(
            plan.again.submission(
                tuple(inputs[task_id] for task_id in plan.task_ids) if plan.again.has_inputs else ()
            ),
            ledger.limits,
        )
        for plan in plans
    ]


async def _store(
    _: Ledger,
    tx: Transaction,
    plans: list[_Plan],
    *,
    jobs: list[Admitted],
    hidden: dict[int, Admitted],
    actor: str,
) -> list[Replay]:
    # Locked and checked again: somebody may have replayed or discarded them meanwhile.
    await lock_letters(tx, [task_id for plan in plans for task_id in plan.task_ids], "replay")
    # Refused if a job whose result one of them needs is gone.
    submitted = await store_or_show(tx, jobs, hidden)
    made = [(plan, job.job_id) for plan, job in zip(plans, submitted, strict=True)]
    await mark_replayed(tx, {task_id: job_id for plan, job_id in made for task_id in plan.task_ids})
    await note_replays(tx, {plan.again.job_id: job_id for plan, job_id in made}, actor=actor)
    return [Replay(plan.again.job_id, plan.task_ids, job_id) for plan, job_id in made]
