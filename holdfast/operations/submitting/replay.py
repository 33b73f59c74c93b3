"""Replay dead letters: a new job for each job they came from, linked to it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import msgspec

from holdfast.errors import Invalid, NotFound, TooLarge
from holdfast.ledger.keys import RequestKey, recall, wait_turn, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.work.ids import TaskId
from holdfast.operations.dead_letters import check_letter_ids, check_letters, lock_letters
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.chunk import hide_large, store_or_show
from holdfast.operations.submitting.resubmission import (
    PAGE_TASKS_MAX,
    Resubmission,
    check_inputs_size,
    describe_again,
    note_replays,
)
from holdfast.rules.replay import Letters, Part, arrange, keep_pace
from holdfast.rules.submitting.keys import check_corrected
from holdfast.rules.submitting.submission import check_json, check_text, complete_submission
from holdfast.store.database import Transaction
from holdfast.store.tables.work.dead_letters import (
    mark_replayed,
    measure_letter_inputs,
    read_letter_inputs,
    read_letters,
)


@dataclass(frozen=True, slots=True)
class Replay:
    """Dead letters of one job, and the new job that runs them again (None in a dry run)."""

    replay_of: int
    task_ids: tuple[TaskId, ...]
    job_id: int | None
    is_canary: bool = False
    input_edited: bool = False
    start_delay: float | None = None
    start_rate: float | None = None


@dataclass(frozen=True, slots=True)
class Manner:
    """How dead letters are replayed.

    If it may rebind, a job writes the newest open version where the one that was named is sealed.
    The first `canary` letters go first, and the others once these have succeeded. `rate` is how
    many start in a second. `edited` is the input, a JSON text, that a single letter gets instead
    of its own.
    """

    rebind: bool = False
    canary: int | None = None
    edited: str | None = None
    rate: float | None = None


AS_IT_WAS = Manner()


class _Plan(NamedTuple):
    """Dead letters of one job that are replayed together, and what runs them again."""

    part: Part
    again: Resubmission


async def replay(
    ledger: Ledger,
    task_ids: Sequence[TaskId],
    *,
    actor: str,
    dry_run: bool = False,
    keyed: RequestKey | None = None,
    manner: Manner = AS_IT_WAS,
) -> list[Replay]:
    """Submit dead letters again: a new job for each job they came from, linked to it.

    With inputs, the new job has the dead inputs; replicas belong together and run again as a whole.
    """
    check_letter_ids(task_ids)
    check_text("actor", actor, 256)
    if manner.edited is not None:
        _check_edited(task_ids, manner.edited, ledger.limits)
    if dry_run:
        plans = await _plan(ledger, task_ids, manner)
        return [_answer(plan, None, manner) for plan in plans]
    again = partial(_replay, ledger, task_ids, actor=actor, keyed=keyed, manner=manner)
    return await wait_turn(keyed, again)


async def _replay(
    ledger: Ledger,
    task_ids: Sequence[TaskId],
    *,
    actor: str,
    keyed: RequestKey | None,
    manner: Manner,
) -> list[Replay]:
    first = await recall(ledger, keyed, list[Replay])
    if first is not None:
        return first
    plans = await _plan(ledger, task_ids, manner, only_open=keyed is None)
    described = await _describe(ledger, plans, manner)
    total = sum(submission.num_tasks for submission in described)
    if total > ledger.limits.tasks_max:
        raise TooLarge("task_ids", total, ledger.limits.tasks_max, unit="tasks")
    async with ledger.quotas.room_for(described):
        jobs = _let_wait(plans, await admit(ledger, described, actor=actor))
        hidden = await hide_large(ledger, jobs)
        return await write_once(
            ledger,
            keyed,
            _store,
            plans,
            returns=list[Replay],
            jobs=jobs,
            hidden=hidden,
            actor=actor,
            manner=manner,
        )


async def _plan(
    ledger: Ledger, task_ids: Sequence[TaskId], manner: Manner, *, only_open: bool = True
) -> list[_Plan]:
    """Find out which jobs there will be, without the inputs; their size is bounded.

    Under a key, letters that are settled are left to the transaction that takes it: the same
    request may have settled them.
    """
    async with ledger.database.transaction() as tx:
        found = await read_letters(tx, task_ids)  # not locked: who only looks stops nobody
        check_letters(found, task_ids, "replay", only_open=only_open)
        by_job: dict[int, list[TaskId]] = defaultdict(list)
        for task_id in sorted(task_ids):
            by_job[task_id.job_id].append(task_id)
        again = await describe_again(ledger, tx, by_job.keys(), rebind=manner.rebind)
        with_inputs = [task_id for task_id in task_ids if again[task_id.job_id].has_inputs]
        check_inputs_size(await measure_letter_inputs(tx, with_inputs))
    letters = [
        Letters(job_id, tuple(group), again[job_id].has_inputs)
        for job_id, group in sorted(by_job.items())
    ]
    parts = arrange(letters, canary=manner.canary, links_max=ledger.limits.dependencies_max)
    if manner.rate is not None:
        parts = keep_pace(parts, letters, manner.rate)
    plans = [_Plan(part, again[part.job_id]) for part in parts]
    _check_inputs_and_outputs(plans, manner)
    return plans


def _check_edited(task_ids: Sequence[TaskId], edited: str, limits: Limits) -> None:
    if len(task_ids) != 1:
        raise Invalid("input", f"goes with one dead letter, not {len(task_ids)}; name it by its id")
    check_json("input", edited, limits.input_bytes_max)


def _check_inputs_and_outputs(plans: Sequence[_Plan], manner: Manner) -> None:
    """Refuse an input for a job that has none, and a version that would be opened twice."""
    if manner.edited is not None:
        again = plans[0].again
        if not again.has_inputs:
            problem = f"job {again.job_id} has replicas, which have no input; leave it out"
            raise Invalid("input", problem)
        check_corrected(again.spec, manner.edited, "input")
    first = {plan.again.job_id for plan in plans if plan.part.is_canary}
    for part, again in plans:
        is_split = not part.is_canary and part.job_id in first
        for output in again.spec.outputs if is_split else ():
            if output.version == "new":
                problem = f"would open two new versions of dataset {output.dataset}"
                raise Invalid("canary", f"{problem} for job {part.job_id}; replay it as a whole")


def _let_wait(plans: Sequence[_Plan], jobs: Sequence[Admitted]) -> list[Admitted]:
    """Let the rest wait until all canaries have succeeded."""
    canaries = [job.job_id for job, plan in zip(jobs, plans, strict=True) if plan.part.is_canary]
    if not canaries:
        return list(jobs)
    waiting = []
    for job, plan in zip(jobs, plans, strict=True):
        if plan.part.is_canary:
            waiting.append(job)
            continue
        depends_on = [*job.spec.depends_on, *map(str, canaries)]
        spec = msgspec.structs.replace(job.spec, depends_on=depends_on)
        submission = msgspec.structs.replace(job.submission, spec=spec)
        waiting.append(replace(job, submission=submission, siblings=frozenset(canaries)))
    return waiting


async def _describe(ledger: Ledger, plans: Sequence[_Plan], manner: Manner) -> list[Submission]:
    """Describe the new jobs, the inputs of all of them read a page at a time."""
    wanted = [task_id for plan in plans if plan.again.has_inputs for task_id in plan.part.task_ids]
    inputs: dict[TaskId, str] = {}
    for first in range(0, len(wanted), PAGE_TASKS_MAX):
        async with ledger.database.transaction() as tx:
            inputs |= await read_letter_inputs(tx, wanted[first : first + PAGE_TASKS_MAX])
    for task_id in wanted:
        if task_id not in inputs:  # retention was faster
            raise NotFound("dead letter", task_id)
        if manner.edited is not None:
            inputs[task_id] = manner.edited
    return [
        complete_submission(
            _pace(plan).submission(
                tuple(inputs[task_id] for task_id in plan.part.task_ids)
                if plan.again.has_inputs
                else ()
            ),
            ledger.limits,
        )
        for plan in plans
    ]


def _pace(plan: _Plan) -> Resubmission:
    """Have the tasks of a job start when they may."""
    part, again = plan
    spec = msgspec.structs.replace(
        again.spec, start_delay=part.start_delay or None, start_rate=part.start_rate
    )
    return again._replace(spec=spec)


async def _store(
    _: Ledger,
    tx: Transaction,
    plans: list[_Plan],
    *,
    jobs: list[Admitted],
    hidden: dict[int, Admitted],
    actor: str,
    manner: Manner,
) -> list[Replay]:
    # Locked and checked again: somebody may have replayed or discarded them meanwhile.
    await lock_letters(tx, [task_id for plan in plans for task_id in plan.part.task_ids], "replay")
    # Refused if a job whose result one of them needs is gone.
    submitted = await store_or_show(tx, jobs, hidden)
    made = [(plan, job.job_id) for plan, job in zip(plans, submitted, strict=True)]
    await mark_replayed(
        tx,
        {task_id: job_id for plan, job_id in made for task_id in plan.part.task_ids},
        input_edited=manner.edited is not None,
    )
    by_job: dict[int, list[int]] = defaultdict(list)
    for plan, job_id in made:
        by_job[plan.again.job_id].append(job_id)
    edited = () if manner.edited is None else plans[0].part.task_ids
    await note_replays(tx, by_job, actor=actor, action="replay", edited=edited)
    return [_answer(plan, job_id, manner) for plan, job_id in made]


def _answer(plan: _Plan, job_id: int | None, manner: Manner) -> Replay:
    part = plan.part
    edited = manner.edited is not None
    return Replay(
        part.job_id,
        part.task_ids,
        job_id,
        part.is_canary,
        edited,
        part.start_delay,
        part.start_rate,
    )
