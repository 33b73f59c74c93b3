"""Submit a job again: as it was, or with the inputs of those of its tasks that did not succeed."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from holdfast.errors import IllegalMove, Invalid, NotFound
from holdfast.ledger.keys import RequestKey, recall, wait_turn, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import check_job_id
from holdfast.model.work.states import JobState
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.chunk import hide_large, store_or_show
from holdfast.operations.submitting.resubmission import (
    Resubmission,
    check_inputs_size,
    describe_again,
    note_replays,
    read_all_inputs,
)
from holdfast.rules.submitting.submission import check_text, complete_submission
from holdfast.store.database import Transaction
from holdfast.store.tables.work.jobs import JobToRerun, read_job_to_rerun
from holdfast.store.tables.work.tasks import measure_inputs


@dataclass(frozen=True, slots=True)
class Rerun:
    """A job, and the one that runs it again (None in a dry run)."""

    replay_of: int
    job_id: int | None
    num_tasks: int


async def rerun(
    ledger: Ledger,
    job_id: int,
    *,
    actor: str,
    only_unsuccessful: bool = False,
    dry_run: bool = False,
    keyed: RequestKey | None = None,
    rebind: bool = False,
) -> Rerun:
    """Submit a job again, linked to it; under a key once, whoever asks how often."""
    check_job_id(job_id)
    check_text("actor", actor, 256)
    plan = partial(_plan, ledger, job_id, only_unsuccessful=only_unsuccessful, rebind=rebind)
    if dry_run:
        return Rerun(job_id, None, (await plan(with_inputs=False)).num_tasks)
    again = partial(_rerun, ledger, plan, actor=actor, keyed=keyed)
    return await wait_turn(keyed, again)


async def _rerun(
    ledger: Ledger,
    plan: Callable[[], Awaitable["_Plan"]],
    *,
    actor: str,
    keyed: RequestKey | None,
) -> Rerun:
    first = await recall(ledger, keyed, Rerun)
    if first is not None:
        return first
    submission = (await plan()).submission
    completed = complete_submission(submission, ledger.limits)
    async with ledger.quotas.room_for([completed]):
        jobs = await admit(ledger, [completed], actor=actor)
        hidden = await hide_large(ledger, jobs)
        return await write_once(
            ledger, keyed, _store, jobs, hidden=hidden, returns=Rerun, actor=actor
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    num_tasks: int
    submission: Submission


async def _plan(
    ledger: Ledger, job_id: int, *, only_unsuccessful: bool, rebind: bool, with_inputs: bool = True
) -> _Plan:
    """Describe the new job, or find out why there can be none."""
    async with ledger.database.transaction() as tx:
        job = await read_job_to_rerun(tx, job_id)
        if job is None:
            raise NotFound("job", job_id)
        again = (await describe_again(ledger, tx, [job_id], rebind=rebind))[job_id]
        _check(job, again, only_unsuccessful=only_unsuccessful)
        if not job.fan_out:
            return _Plan(job.num_tasks, again.submission(()))
        size = await measure_inputs(tx, job_id, only_unsuccessful=only_unsuccessful)
    if not size.num_tasks:
        raise IllegalMove(f"job {job_id}", "without a task that did not succeed", "rerun")
    check_inputs_size(size.bytes)
    if not with_inputs:
        return _Plan(size.num_tasks, again.submission(()))
    inputs = await read_all_inputs(ledger, job_id, only_unsuccessful=only_unsuccessful)
    return _Plan(size.num_tasks, again.submission(tuple(each.text for each in inputs)))


def _check(job: JobToRerun, again: Resubmission, *, only_unsuccessful: bool) -> None:
    """Refuse what cannot be run again, or not in part."""
    if again.compensates_job_id is not None:
        raise Invalid(
            "job_id",
            f"job {again.job_id} undoes job {again.compensates_job_id} and is not run twice;"
            " if it failed, replay its dead letter",
        )
    if not only_unsuccessful:
        return
    if not job.fan_out:
        raise Invalid("only_unsuccessful", "goes with inputs only; replicas run again all together")
    if job.finished_at is None or job.live:
        state = JobState(job.state).name if job.finished_at is None else "still stopping"
        raise IllegalMove(f"what did not succeed of job {again.job_id}", state, "rerun")


async def _store(
    _: Ledger, tx: Transaction, jobs: list[Admitted], *, hidden: dict[int, Admitted], actor: str
) -> Rerun:
    [job] = jobs
    # Refused if a job whose result it needs is gone.
    [submitted] = await store_or_show(tx, jobs, hidden)
    replay_of = job.submission.replay_of
    assert replay_of is not None, "a job that is submitted again is known by its id"
    await note_replays(tx, {replay_of: [submitted.job_id]}, actor=actor, action="rerun")
    return Rerun(replay_of, submitted.job_id, job.num_tasks)
