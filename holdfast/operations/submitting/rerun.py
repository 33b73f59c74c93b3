"""Submit a job again: as it was, or with the inputs of those of its tasks that did not succeed."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from holdfast.errors import IllegalMove, Invalid, NotFound, TooLarge
from holdfast.ledger.keys import (
    RequestKey,
    keep_answer,
    recall,
    take_key,
    wait_turn,
    write_once,
)
from holdfast.ledger.ledger import Ledger
from holdfast.model.ids import check_job_id
from holdfast.model.spec import Submission
from holdfast.model.states import JobState
from holdfast.operations.submitting.arrivals import (
    CHUNK_TASKS_MAX,
    Answer,
    Arrival,
    Submitted,
    admit,
    store_arrivals,
)
from holdfast.operations.submitting.resubmission import Again, describe_again, note_replay
from holdfast.operations.submitting.submit import store_in_chunks
from holdfast.rules.submission import check_text, complete_submission
from holdfast.store.database import LockTimeout, Transaction
from holdfast.store.statements import load_statements

_JOBS = load_statements("jobs")
_TASKS = load_statements("tasks")
# As much as a submission may have: the inputs are in memory while they are stored again.
INPUTS_BYTES_MAX = 64 << 20
PAGE_TASKS_MAX = 1000


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
    return await again() if keyed is None else await wait_turn(keyed, again)


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
    [arrival] = await admit(ledger, [complete_submission(submission, ledger.limits)])
    if submission.num_tasks > CHUNK_TASKS_MAX:
        return await _store_large(ledger, arrival, actor=actor, keyed=keyed)
    return await write_once(ledger, keyed, _store, arrival, returns=Rerun, actor=actor)


@dataclass(frozen=True, slots=True)
class _Plan:
    num_tasks: int
    submission: Submission


async def _plan(
    ledger: Ledger, job_id: int, *, only_unsuccessful: bool, rebind: bool, with_inputs: bool = True
) -> _Plan:
    """Describe the new job, or find out why there can be none."""
    asked = {"job_id": job_id, "only_unsuccessful": only_unsuccessful}
    async with ledger.database.transaction() as tx:
        job = await tx.fetch_one(_JOBS["read_job_to_rerun"], job_id=job_id)
        if job is None:
            raise NotFound("job", job_id)
        again = (await describe_again(ledger, tx, [job_id], rebind=rebind))[job_id]
        _check(job, again, only_unsuccessful=only_unsuccessful)
        if not job["fan_out"]:
            return _Plan(job["num_tasks"], again.submission(()))
        [(num_tasks, size)] = await tx.fetch(_TASKS["measure_inputs"], **asked)
    if not num_tasks:
        raise IllegalMove(f"job {job_id}", "without a task that did not succeed", "rerun")
    if size > INPUTS_BYTES_MAX:
        raise TooLarge("inputs", size, INPUTS_BYTES_MAX)
    inputs = await _read_inputs(ledger, asked) if with_inputs else ()
    return _Plan(num_tasks, again.submission(inputs))


def _check(job: Any, again: Again, *, only_unsuccessful: bool) -> None:
    """Refuse what cannot be run again, or not in part."""
    if again.compensates_job_id is not None:
        raise Invalid(
            "job_id",
            f"job {again.job_id} undoes job {again.compensates_job_id} and is not run twice;"
            " if it failed, replay its dead letter",
        )
    if not only_unsuccessful:
        return
    if not job["fan_out"]:
        raise Invalid("only_unsuccessful", "goes with inputs only; replicas run again all together")
    if job["finished_at"] is None or job["live"]:
        state = JobState(job["state"]).name if job["finished_at"] is None else "still stopping"
        raise IllegalMove(f"what did not succeed of job {again.job_id}", state, "rerun")


async def _read_inputs(ledger: Ledger, asked: dict[str, Any]) -> tuple[str, ...]:
    inputs: list[str] = []
    after = -1
    while True:
        async with ledger.database.transaction() as tx:
            rows = await tx.fetch(
                _TASKS["read_inputs"], **asked, after_index=after, batch_max=PAGE_TASKS_MAX
            )
        inputs += [row[1] for row in rows]
        if len(rows) < PAGE_TASKS_MAX:
            return tuple(inputs)
        after = rows[-1][0]


async def _store(_: Ledger, tx: Transaction, arrival: Arrival, *, actor: str) -> Rerun:
    [answer] = await store_arrivals(tx, [arrival])
    return await _note(tx, arrival, answer, actor=actor)


async def _store_large(
    ledger: Ledger, arrival: Arrival, *, actor: str, keyed: RequestKey | None
) -> Rerun:
    """Store a large job in chunks; the key is taken when it is shown, and the job is noted then."""
    made: list[Rerun] = []

    async def finish(tx: Transaction) -> None:
        if keyed is not None and not await take_key(tx, keyed):
            raise LockTimeout("the same request was faster")
        made.append(await _note(tx, arrival, Submitted(arrival.job_id, is_new=True), actor=actor))
        if keyed is not None:
            await keep_answer(tx, keyed, made[-1])

    answer = await store_in_chunks(ledger, arrival, finish)
    if not isinstance(answer, Submitted):
        raise answer
    return made[-1]


async def _note(tx: Transaction, arrival: Arrival, answer: Answer, *, actor: str) -> Rerun:
    if not isinstance(answer, Submitted):  # a job whose result it needs is gone
        raise answer
    replay_of = arrival.submission.replay_of
    assert replay_of is not None
    await note_replay(tx, replay_of, answer.job_id, actor=actor)
    return Rerun(replay_of, answer.job_id, arrival.submission.num_tasks)
