"""Take in jobs: checked whole, stored whole or not at all, once per idempotency key.

accept   checked, and completed under the policies of their types     or graph, which resolves
at_once  small jobs that refer to no other: by one call of the database       names within one call
admit    ids, for the others
store    rows, tasks, lines, in one transaction; or chunk, in several, hidden until the last
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from holdfast.errors import LimitReached, Refused
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.operations.submitting.accept import Accepted, accept, under_policies
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.at_once import can_be_at_once, store_at_once
from holdfast.operations.submitting.chains import lock_chains
from holdfast.operations.submitting.chunk import store_in_chunks
from holdfast.operations.submitting.store import CHUNK_TASKS_MAX, Answer, Submitted, store_jobs
from holdfast.store.database import Transaction

# What becomes of a submission: an owner may have too much already. Where some of a call was stored
# and the rest could not be, the rest is answered with the error, so that it alone is tried again.
Taken = Answer | LimitReached | Exception


async def submit(ledger: Ledger, submissions: Sequence[Submission]) -> list[Taken]:
    """Take in jobs that have nothing to do with each other: a bad one is refused alone.

    Beyond 10,000 tasks they take several transactions. If a later one fails, so does the call,
    although the earlier ones are stored: who means to try again keeps below.
    """
    # By position; those that have an answer keep it when policies change on the way.
    answers: dict[int, Taken] = {}
    await under_policies(partial(_submit_unanswered, ledger, submissions, answers))
    return [answers[position] for position in range(len(submissions))]


async def submit_one(ledger: Ledger, submission: Submission) -> Submitted:
    """Take in one job, or raise what is wrong with it."""
    [answer] = await submit(ledger, [submission])
    if isinstance(answer, Exception):
        raise answer
    return answer


async def _submit_unanswered(
    ledger: Ledger, submissions: Sequence[Submission], answers: dict[int, Taken]
) -> None:
    """Take in what has no answer yet; each gets its own as soon as it is stored."""
    positions = [position for position in range(len(submissions)) if position not in answers]
    found, policies = await accept(ledger, [submissions[position] for position in positions])
    by_position = dict(zip(positions, found, strict=True))
    answers |= {k: answer for k, answer in by_position.items() if isinstance(answer, Refused)}
    for whole in _split(by_position):
        over = await ledger.quotas.find_over(whole)
        answers |= over
        batch = {k: submission for k, submission in whole.items() if k not in over}
        at_once = {k: each for k, each in batch.items() if can_be_at_once(each)}
        stored: Mapping[int, Submitted] = {}
        if at_once:
            with ledger.quotas.arriving(at_once.values()):
                stored = await store_at_once(ledger, at_once, policies)
            answers |= stored
            batch = {k: each for k, each in batch.items() if k not in stored}
        if not batch:
            continue
        with ledger.quotas.arriving(batch.values()):
            jobs = await admit(ledger, list(batch.values()), policies)
            answers |= zip(
                batch, await _store_apart(ledger, jobs, is_rest=bool(stored)), strict=True
            )


async def _store_apart(
    ledger: Ledger, jobs: list[Admitted], *, is_rest: bool
) -> Sequence[Answer | Exception]:
    """Store what goes the long way; an error must not have others stored again that were before."""
    try:
        if jobs[0].num_tasks > CHUNK_TASKS_MAX:
            return [await store_in_chunks(ledger, jobs[0])]
        return await ledger.write(_store, jobs)
    except Exception as error:
        if not is_rest:
            raise
        return [error] * len(jobs)


def _split(accepted: Mapping[int, Accepted]) -> Iterator[dict[int, Submission]]:
    """Split submissions into what fits into a transaction; one that does not is on its own."""
    batch: dict[int, Submission] = {}
    room = CHUNK_TASKS_MAX
    for position, submission in accepted.items():
        if isinstance(submission, Refused):
            continue
        if submission.num_tasks > CHUNK_TASKS_MAX:
            yield {position: submission}
            continue
        if submission.num_tasks > room:
            yield batch
            batch, room = {}, CHUNK_TASKS_MAX
        batch[position] = submission
        room -= submission.num_tasks
    if batch:
        yield batch


async def _store(ledger: Ledger, tx: Transaction, jobs: Sequence[Admitted]) -> list[Answer]:
    if not any(job.spec.chain for job in jobs):
        return await store_jobs(tx, jobs)
    numbered, joining = await lock_chains(tx, jobs, ids_end=ledger.partitions_end)
    return await store_jobs(tx, numbered, joining)
