"""Resume a broken graph: new jobs for what failed and for what was killed because of that.

An ended job never changes again, so each is run again by a new one that links to it. These wait for
each other as the first ones did, and for what has succeeded where it stands.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import msgspec

from holdfast.errors import IllegalMove, Invalid, NotFound, TooLarge, Unavailable
from holdfast.ledger.keys import RequestKey, recall, wait_turn, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId, check_job_id
from holdfast.model.work.states import JobState
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.chunk import hide_large, store_or_show
from holdfast.operations.submitting.resubmission import (
    Resubmission,
    check_inputs_size,
    describe_again,
    find_unmet,
    note_replays,
    read_all_inputs,
)
from holdfast.rules.resume import ResumableJob, Run, covers, plan_resume, rewire
from holdfast.rules.submitting.keys import check_corrected
from holdfast.rules.submitting.order import dependencies_of
from holdfast.rules.submitting.submission import check_json, check_text, complete_submission
from holdfast.store.database import Transaction
from holdfast.store.reads.work.fills import Fills, find_fills
from holdfast.store.tables.order.continuations import (
    continue_with_fills,
    hold_streams,
    list_replays,
    lock_open_letters,
    lock_streams,
    read_resumable,
    walk_broken,
)
from holdfast.store.tables.work.dead_letters import mark_replayed
from holdfast.store.tables.work.tasks import measure_inputs

TRIES_MAX = 5
GENERATIONS_MAX = 100


@dataclass(frozen=True, slots=True)
class Resumed:
    """A job, and the one that runs it again (None in a dry run), with so many tasks."""

    replay_of: int
    job_id: int | None
    num_tasks: int
    name: str


class _Again(NamedTuple):
    """One job of a plan, described anew; what it waits for is still that of the first time.

    Tasks in `done` have succeeded in replays of single dead letters, and do not run again.
    """

    run: Run
    again: Resubmission
    num_tasks: int
    unmet: Collection[int]
    done: Collection[int]


class _Plan(NamedTuple):
    """What runs again and who stands in; `made_good` have succeeded task by task in replays.

    `seqs` has the last event of each job: if there is a later one, the plan is out of date.
    """

    jobs: list[_Again]
    stand_ins: dict[int, int]
    is_graph: bool
    made_good: dict[int, int]
    seqs: dict[int, int]


class _Overtaken(Exception):
    """Somebody ran one of these jobs again while the plan was made."""


async def resume(
    ledger: Ledger,
    job_id: int,
    *,
    actor: str,
    inputs: Mapping[TaskId, str] | None = None,
    dry_run: bool = False,
    keyed: RequestKey | None = None,
    rebind: bool = False,
    only_waiting: bool = False,
) -> list[Resumed]:
    """Run everything again around a job that failed, or was killed in vain; once under a key.

    `inputs` has corrected ones, JSON texts, for tasks that are run again. With `only_waiting` it is
    refused as long as something of the job itself, or of another that failed, is left to run again.
    """
    check_job_id(job_id)
    check_text("actor", actor, 256)
    corrected = dict(inputs or {})
    for task_id, text in corrected.items():
        check_json(f"inputs[{task_id}]", text, ledger.limits.input_bytes_max)
    if dry_run:
        plan = await _plan(ledger, job_id, rebind=rebind, only_waiting=only_waiting)
        await _describe(ledger, plan, corrected)
        return [_answer(each, None) for each in plan.jobs]
    plan_again = partial(_plan, ledger, job_id, rebind=rebind, only_waiting=only_waiting)
    once = partial(
        _resume, ledger, job_id, corrected, plan_again=plan_again, actor=actor, keyed=keyed
    )
    return await wait_turn(keyed, once)


async def _resume(
    ledger: Ledger,
    job_id: int,
    corrected: Mapping[TaskId, str],
    *,
    plan_again: Callable[[], Awaitable[_Plan]],
    actor: str,
    keyed: RequestKey | None,
) -> list[Resumed]:
    for _ in range(TRIES_MAX):
        first = await recall(ledger, keyed, list[Resumed])
        if first is not None:
            return first
        try:
            plan = await plan_again()
        except IllegalMove:
            # The same request may have come about between the two looks.
            if (first := await recall(ledger, keyed, list[Resumed])) is not None:
                return first
            raise
        described = await _describe(ledger, plan, corrected)
        try:
            async with ledger.quotas.room_for(described):
                jobs = _wire(plan, await admit(ledger, described, actor=actor))
                hidden = await hide_large(ledger, jobs)
                return await write_once(
                    ledger,
                    keyed,
                    _store,
                    plan,
                    returns=list[Resumed],
                    jobs=jobs,
                    hidden=hidden,
                    corrected=corrected.keys(),
                    actor=actor,
                )
        except _Overtaken:
            continue
    raise Unavailable(f"jobs around job {job_id} keep being run again elsewhere; try again")


async def _plan(ledger: Ledger, asked: int, *, rebind: bool, only_waiting: bool) -> _Plan:
    """Find out what is broken and what runs again, without the inputs."""
    async with ledger.database.transaction() as tx:
        broken = await _find_broken(ledger, tx, asked)
        jobs, replays = await _read_generations(tx, broken)
        plan = plan_resume(asked, broken, jobs, replays=replays)
        fills = {run.job_id: await _find_done(tx, run) for run in plan.runs}
        made_good = _find_made_good(fills, jobs)
        runs = [run for run in plan.runs if run.job_id not in made_good]
        if not runs:
            done = f"run again by job {max(made_good.values())} already, which is SUCCEEDED"
            raise IllegalMove(f"job {asked}", done, "resume")
        if only_waiting:
            _check_waiting(asked, runs, jobs)
        described = await _describe_runs(ledger, tx, runs, jobs=jobs, fills=fills, rebind=rebind)
    stand_ins = {job_id: made_good.get(last, last) for job_id, last in plan.stand_ins.items()}
    seqs = {run.job_id: jobs[run.job_id].seq for run in plan.runs}
    for found in fills.values():
        seqs |= found.seqs
    total = sum(each.num_tasks for each in described)
    if total > ledger.limits.tasks_max:
        raise TooLarge("job_id", total, ledger.limits.tasks_max, unit="tasks")
    is_graph = any(jobs[run.job_id].graph_id is not None for run in runs)
    return _Plan(described, stand_ins, is_graph and len(described) > 1, made_good, seqs)


def _check_waiting(asked: int, runs: Collection[Run], jobs: Mapping[int, ResumableJob]) -> None:
    """Refuse to run more than what was killed in vain, or was undone."""
    for run in runs:
        if asked in (run.job_id, run.first_id):
            missing = "short of tasks that did not succeed and are not replayed"
            raise IllegalMove(f"job {asked}", missing, "resume what waited for")
    for job in (jobs[job_id] for run in runs for job_id in (run.first_id, run.job_id)):
        if job.has_failed:
            state = f"{JobState(job.state).name} and not replayed"
            raise IllegalMove(f"job {job.job_id}", state, "resume what waited for")


async def _find_done(tx: Transaction, run: Run) -> Fills:
    """Find what replays of single dead letters have made good of a job. Refused while they run."""
    if not run.only_unsuccessful:
        return Fills({}, {}, [])
    fills = await find_fills(tx, run.job_id)
    if fills.open:
        state = f"still running tasks of job {run.job_id}: wait for it or cancel it"
        raise IllegalMove(f"job {fills.open[0]}", state, "resume what needs")
    return fills


def _find_made_good(fills: Mapping[int, Fills], jobs: Mapping[int, ResumableJob]) -> dict[int, int]:
    """Find jobs of which nothing is left to run, and the last replay of each: it continues it."""
    return {
        job_id: last
        for job_id, found in fills.items()
        if (last := found.last_job()) is not None
        and len(found.tasks) == jobs[job_id].num_tasks - jobs[job_id].succeeded
    }


async def _find_broken(ledger: Ledger, tx: Transaction, asked: int) -> list[int]:
    """Find what is broken around a job, and around those that it has run again as a whole."""
    jobs = await read_resumable(tx, [asked])
    if asked not in jobs:
        raise NotFound("job", asked)
    job = jobs[asked]
    starts = [asked]
    while job.replay_of is not None and len(starts) < GENERATIONS_MAX:
        earlier = (await read_resumable(tx, [job.replay_of])).get(job.replay_of)
        if earlier is None or not covers(job, earlier):
            break
        job = earlier
        starts.append(job.job_id)
    jobs_max = ledger.limits.graph_jobs_max
    broken = await walk_broken(tx, starts, count_max=jobs_max + 1)
    if len(broken) > jobs_max:
        raise TooLarge("job_id", len(broken), jobs_max, unit="jobs to be resumed")
    return broken


async def _read_generations(
    tx: Transaction, broken: Collection[int]
) -> tuple[dict[int, ResumableJob], dict[int, list[int]]]:
    """Read broken jobs and whatever has run them again."""
    jobs = await read_resumable(tx, broken)
    replays: dict[int, list[int]] = {}
    generation: Collection[int] = broken
    for _ in range(GENERATIONS_MAX):
        found = await list_replays(tx, generation)
        for job_id, replay in found:
            replays.setdefault(job_id, []).append(replay)
        generation = {replay for _, replay in found} - jobs.keys()
        if not generation:
            break
        jobs |= await read_resumable(tx, generation)
    return jobs, replays


async def _describe_runs(
    ledger: Ledger,
    tx: Transaction,
    runs: list[Run],
    *,
    jobs: Mapping[int, ResumableJob],
    fills: Mapping[int, Fills],
    rebind: bool,
) -> list[_Again]:
    """Describe jobs anew, with all that the first of their kind have waited for."""
    again = await describe_again(ledger, tx, [run.job_id for run in runs], rebind=rebind)
    specs = await ledger.specs.load(tx, [run.first_id for run in runs])
    unmet = await find_unmet(tx, specs)
    described = []
    size = 0
    for run in runs:
        job, spec, first = jobs[run.job_id], again[run.job_id].spec, specs[run.first_id].spec
        count, done = job.num_tasks, fills[run.job_id].tasks
        if job.fan_out:
            measured = await measure_inputs(tx, run.job_id, only_unsuccessful=run.only_unsuccessful)
            count, size = measured.num_tasks - len(done), size + measured.bytes
        entrypoint = msgspec.structs.replace(spec.entrypoint, results=first.entrypoint.results)
        spec = msgspec.structs.replace(spec, entrypoint=entrypoint, depends_on=first.depends_on)
        resubmission = again[run.job_id]._replace(spec=spec)
        described.append(_Again(run, resubmission, count, unmet[run.first_id], done.keys()))
    check_inputs_size(size)
    return described


async def _describe(
    ledger: Ledger, plan: _Plan, corrected: Mapping[TaskId, str]
) -> list[Submission]:
    """Describe the new jobs with their inputs, corrected where that was asked for."""
    submissions = []
    left = set(corrected)
    for run, again, _, _, done in plan.jobs:
        inputs: tuple[str, ...] = ()
        if again.has_inputs:
            every = await read_all_inputs(
                ledger, run.job_id, only_unsuccessful=run.only_unsuccessful
            )
            found = [each for each in every if each.task_index not in done]
            ids = [TaskId(run.job_id, each.task_index) for each in found]
            inputs = tuple(
                corrected.get(task_id, each.text) for task_id, each in zip(ids, found, strict=True)
            )
            for task_id in sorted(left.intersection(ids)):
                check_corrected(again.spec, corrected[task_id], f"inputs[{task_id}]")
            left -= set(ids)
        submissions.append(complete_submission(again.submission(inputs), ledger.limits))
    if left:
        known = ", ".join(str(each.run.job_id) for each in plan.jobs if each.again.has_inputs)
        raise Invalid(
            f"inputs[{min(left)}]",
            f"is not run again; give inputs for tasks of job {known} that did not succeed"
            if known
            else "goes with a job that has inputs, and none of those has",
        )
    return submissions


def _wire(plan: _Plan, jobs: list[Admitted]) -> list[Admitted]:
    """Have the new jobs wait for each other, and otherwise for what stands."""
    new = {each.run.job_id: job.job_id for each, job in zip(plan.jobs, jobs, strict=True)}
    targets = {job_id: new.get(last, last) for job_id, last in plan.stand_ins.items()}
    wired = []
    for each, job in zip(plan.jobs, jobs, strict=True):
        spec = rewire(job.spec, targets, each.unmet)
        siblings = {int(d.job) for d in dependencies_of(spec)} & set(new.values())
        wired.append(
            replace(
                job,
                submission=msgspec.structs.replace(job.submission, spec=spec),
                siblings=frozenset(siblings),
                graph_id=min(new.values()) if plan.is_graph else None,
            )
        )
    return wired


async def _store(
    _: Ledger,
    tx: Transaction,
    plan: _Plan,
    *,
    jobs: list[Admitted],
    hidden: dict[int, Admitted],
    corrected: Collection[TaskId],
    actor: str,
) -> list[Resumed]:
    new = {each.run.job_id: job.job_id for each, job in zip(plan.jobs, jobs, strict=True)}
    letters = await lock_open_letters(tx, new)
    # Refused if a job whose result one of them needs is gone.
    await store_or_show(tx, jobs, hidden)
    broken = new.keys() | plan.made_good.keys()
    seqs = await lock_streams(tx, broken)
    # Those in which something was made good are only looked at, and may be held for that elsewhere.
    if seqs | await hold_streams(tx, plan.seqs.keys() - broken) != plan.seqs:
        raise _Overtaken
    for is_edited in (False, True):
        chosen = [task_id for task_id in letters if (task_id in corrected) == is_edited]
        replayed_as = {task_id: new[task_id.job_id] for task_id in chosen}
        await mark_replayed(tx, replayed_as, input_edited=is_edited)
    replays = {replay_of: [job_id] for replay_of, job_id in new.items()}
    await note_replays(tx, replays, actor=actor, action="resume", edited=corrected)
    parts = {new[each.run.job_id]: each.run.job_id for each in plan.jobs if each.done}
    whole = {last: job_id for job_id, last in plan.made_good.items()}
    taken = await continue_with_fills(tx, parts | whole, new_job_ids=new.values())
    if taken:
        again = f"run job {whole[taken[0]]} again with only_unsuccessful, then resume"
        state = f"used by other jobs as what continues another job; {again}"
        raise IllegalMove(f"job {taken[0]}", state, "resume with")
    return [_answer(each, new[each.run.job_id]) for each in plan.jobs]


def _answer(each: _Again, job_id: int | None) -> Resumed:
    return Resumed(each.run.job_id, job_id, each.num_tasks, each.again.spec.name or "")
