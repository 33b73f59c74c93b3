"""Store a job that is too large for one transaction: in chunks, hidden until the last step.

    store_hidden   the row, then chunk after chunk of tasks; nobody sees the job, or can claim it
    show_hidden    in a transaction of the caller's, which may do more: the job is there

A try that dies in between leaves a hidden job. Whoever submits the same under its idempotency key
abandons it and starts over; retention takes away what was abandoned.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

from holdfast.errors import Refused, Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.operations.submitting.admit import Admitted
from holdfast.operations.submitting.bind_outputs import (
    bind_outputs,
    forget_versions,
    hold_bindings,
    keep_bindings,
)
from holdfast.operations.submitting.links import hold_links, insert_dependencies
from holdfast.operations.submitting.repeats import find_first
from holdfast.operations.submitting.store import (
    CHUNK_TASKS_MAX,
    Answer,
    Submitted,
    add_tasks,
    announce,
    answer_refused,
    answer_repeat,
    insert_jobs,
    insert_tasks,
    is_ready,
    line_up,
    store_jobs,
)
from holdfast.store.database import Transaction
from holdfast.store.tables.work import jobs
from holdfast.store.tables.work.tasks import NewTasks, delete_hidden_tasks

CHUNK_BYTES_MAX = 16 << 20
DELETED_MAX = 10_000


def is_large(num_tasks: int, inputs_bytes: int) -> bool:
    """Tell whether a job takes more than one transaction to store."""
    return num_tasks > CHUNK_TASKS_MAX or inputs_bytes > CHUNK_BYTES_MAX


async def store_in_chunks(ledger: Ledger, job: Admitted) -> Answer:
    """Store a large job, and show it."""
    hidden = await store_hidden(ledger, job)
    return await ledger.write(_show, hidden) if isinstance(hidden, Admitted) else hidden


async def _show(_: Ledger, tx: Transaction, job: Admitted) -> Answer:
    return await show_hidden(tx, job)


async def store_hidden(
    ledger: Ledger, job: Admitted, inputs: AsyncIterator[str] | None = None
) -> Admitted | Answer:
    """Store a job that nobody sees yet; returns it as it is stored, or why it is not.

    Its inputs are read one by one if they are not at hand.
    """
    stored = await _begin(ledger, job)
    if not isinstance(stored, Admitted):
        return stored
    first_index = 0
    async for chunk in _at_hand(stored) if inputs is None else _pack(inputs):
        rows = NewTasks()
        add_tasks(rows, stored, chunk, first_index=first_index)
        async with ledger.database.transaction() as tx:
            await _lock_hidden(tx, stored)
            await insert_tasks(tx, rows, [stored], now=stored.admitted_at)
        first_index += len(chunk)
    assert first_index == stored.num_tasks, "a job has as many tasks as it was said to have"
    return stored


async def hide_large(ledger: Ledger, jobs: Sequence[Admitted]) -> dict[int, Admitted]:
    """Store hidden, by id, what is too much for one transaction together; raises what is refused.

    They have no idempotency key, so none can have been there before.
    """
    hidden: dict[int, Admitted] = {}
    room = CHUNK_TASKS_MAX
    for job in jobs:
        if job.num_tasks <= room:
            room -= job.num_tasks
            continue
        stored = await store_hidden(ledger, job)
        if isinstance(stored, Refused):
            raise stored
        assert isinstance(stored, Admitted), "only a key is answered with another job"
        hidden[job.job_id] = stored
    return hidden


async def store_or_show(
    tx: Transaction, jobs: Sequence[Admitted], hidden: Mapping[int, Admitted]
) -> list[Submitted]:
    """Store jobs all together, or show those that are hidden; raises what is refused."""
    small = [job for job in jobs if job.job_id not in hidden]
    stored = await store_jobs(tx, small) if small else []
    answers = dict(zip([job.job_id for job in small], stored, strict=True))
    for job_id, job in hidden.items():
        answers[job_id] = await show_hidden(tx, job)
    submitted: list[Submitted] = []
    for job in jobs:
        answer = answers[job.job_id]
        if isinstance(answer, Refused):
            raise answer
        submitted.append(answer)
    return submitted


async def _begin(ledger: Ledger, job: Admitted) -> Admitted | Answer:
    """Store the row of a hidden job, bound to its outputs."""
    async with ledger.database.transaction() as tx:
        [job], unbound = await bind_outputs(tx, [job])
        links = await hold_links(tx, [job])
        if refused := links.refused | unbound:
            await forget_versions(tx, [job.job_id])
            return (await answer_refused(tx, [job], refused))[job.job_id]
        if await insert_jobs(tx, [job], links, now=job.admitted_at, shown=False):
            return job
        first = (await find_first(tx, [job]))[job.job_id]
        if first.shown or not first.is_same:
            await forget_versions(tx, [job.job_id])
            return answer_repeat(job, first)
        # The earlier try died on the way, or is about to find out: start over.
        await abandon_hidden(tx, first.job_id)
        await insert_jobs(tx, [job], links, now=job.admitted_at, shown=False)
    return job


async def show_hidden(tx: Transaction, job: Admitted) -> Answer:
    """Let a job that is stored whole be seen, and its tasks stand in line."""
    await _lock_hidden(tx, job)
    unbound = await hold_bindings(tx, job)
    links = await hold_links(tx, [job])
    if unbound or links.refused:  # a parent has ended, or a version was sealed, in the meantime
        await abandon_hidden(tx, job.job_id)
        return unbound or links.refused[job.job_id]
    await keep_bindings(tx, [job], {job.job_id})
    unmet = links.unmet(job.job_id)
    await jobs.show_job(tx, job.job_id, unmet=unmet, actor=job.actor, now=await tx.now())
    await insert_dependencies(tx, links.checks)
    if not unmet:
        await line_up(tx, [job], now=job.admitted_at)
    waiting = set() if is_ready(job, links, job.admitted_at) else {job.job_id}
    await announce(tx, [job], links, waiting=waiting)
    return Submitted(job.job_id, is_new=True)


async def abandon_hidden(tx: Transaction, job_id: int) -> bool:
    """Give up a hidden job: it can never be shown, and its key is free; False if it is shown."""
    is_hidden = await jobs.abandon_hidden_job(tx, job_id)
    if is_hidden:
        await forget_versions(tx, [job_id])
    return is_hidden


async def delete_hidden(ledger: Ledger, job_id: int) -> bool:
    """Take away a bounded part of a hidden job for good; says whether nothing of it is left."""
    async with ledger.database.transaction() as tx:
        if not await abandon_hidden(tx, job_id):
            return True
        if await delete_hidden_tasks(tx, job_id, batch_max=DELETED_MAX) == DELETED_MAX:
            return False
        await jobs.delete_job(tx, job_id)
    return True


async def _lock_hidden(tx: Transaction, job: Admitted) -> None:
    if not await jobs.lock_hidden_job(tx, job.job_id):
        raise Unavailable("this submission was started over under the same idempotency key")


async def _at_hand(job: Admitted) -> AsyncIterator[Sequence[str | None]]:
    inputs = job.submission.inputs
    for first in range(0, job.num_tasks, CHUNK_TASKS_MAX):
        end = min(first + CHUNK_TASKS_MAX, job.num_tasks)
        yield [None] * (end - first) if inputs is None else inputs[first:end]


async def _pack(inputs: AsyncIterator[str]) -> AsyncIterator[list[str | None]]:
    """Fill chunks with inputs as they come, each within its bounds."""
    chunk: list[str | None] = []
    size = 0
    async for text in inputs:
        if chunk and (len(chunk) == CHUNK_TASKS_MAX or size + len(text) > CHUNK_BYTES_MAX):
            yield chunk
            chunk, size = [], 0
        chunk.append(text)
        size += len(text)
    if chunk:
        yield chunk
