"""Store admitted jobs: their rows, their tasks, where these stand in line, what they depend on.

Whatever becomes of the new jobs is announced here too, with the transaction that stores them: they
are counted, those who wait for work are woken, and their specs are at hand for the first claim.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from holdfast.errors import KeyReused, Refused
from holdfast.ledger.moves import add_follow_ups
from holdfast.ledger.news import StoredJob
from holdfast.model.submitting.spec import ChainKey
from holdfast.operations.submitting.admit import Admitted
from holdfast.operations.submitting.bind_outputs import bind_outputs, keep_bindings
from holdfast.operations.submitting.chains import Joining, join_chains, keep_last
from holdfast.operations.submitting.links import Links, hold_links, insert_dependencies
from holdfast.operations.submitting.repeats import find_first
from holdfast.operations.submitting.unique import check_holders, take_keys
from holdfast.store.database import Transaction
from holdfast.store.tables.limits.usage_limits import share_limits
from holdfast.store.tables.submitting import new_jobs
from holdfast.store.tables.submitting.new_jobs import NewJob, TasksInLine
from holdfast.store.tables.work import ready, tasks
from holdfast.store.tables.work.jobs import KeyedJob
from holdfast.store.tables.work.ready import ReadyStretch, WaitingStretch
from holdfast.store.tables.work.tasks import NewTasks

CHUNK_TASKS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job's id; not new if its idempotency key had been seen before.

    `row` is what was stored of a new one, and `at` when, if that was in one transaction.
    """

    job_id: int
    is_new: bool
    row: NewJob | None = None
    at: datetime | None = None


Answer = Submitted | Refused


async def store_jobs(
    tx: Transaction, admitted: Sequence[Admitted], joining: Joining | None = None
) -> list[Answer]:
    """Store admitted jobs in one transaction; a repeated key is answered with its job."""
    now = admitted[-1].admitted_at
    await share_limits(tx)  # before jobs are locked: whoever changes limits waits for leases
    jobs, unbound = await bind_outputs(tx, list(admitted))
    links = await hold_links(tx, jobs)
    answers = await answer_refused(tx, jobs, links.refused | unbound)
    keyed = await take_keys(tx, [job for job in jobs if job.job_id not in answers], now=now)
    answers |= keyed.refused
    answers |= {k: Submitted(first, is_new=False) for k, first in keyed.first.items()}
    welcome = keyed.jobs
    last: dict[ChainKey, int] = {}
    if joining is not None:
        links, last = await join_chains(tx, welcome, links, joining=joining)
    waiting = {job.job_id for job in welcome if not is_ready(job, links, now)}
    # Most jobs are small, and their tasks ready at once: those are stored in one go.
    in_line = None if waiting else tasks_in_line(welcome)
    inserted = await insert_jobs(tx, welcome, links, now=now, shown=True, tasks=in_line)
    check_holders(keyed, welcome, inserted)
    await keep_bindings(tx, jobs, inserted)
    if joining is not None:
        ids = [job.job_id for job in welcome]
        await keep_last(tx, last, joining, welcome=ids, inserted=inserted)
    new = [job for job in welcome if job.job_id in inserted]
    if waiting:
        await _insert_tasks_of(tx, new, links, now=now)
    await insert_dependencies(tx, {k: v for k, v in links.checks.items() if k in inserted})
    await announce(tx, new, links, waiting=waiting)
    answers |= {
        job.job_id: Submitted(job.job_id, is_new=True, row=inserted[job.job_id], at=now)
        for job in new
    }
    answers |= await _answer_repeats(tx, [job for job in welcome if job.job_id not in inserted])
    return [answers[job.job_id] for job in jobs]


async def insert_jobs(
    tx: Transaction,
    jobs: Sequence[Admitted],
    links: Links,
    *,
    now: datetime,
    shown: bool,
    tasks: TasksInLine | None = None,
) -> dict[int, NewJob]:
    """Store the rows of jobs; those whose idempotency key was seen before are left out."""
    if not jobs:
        return {}
    rows = [row_of(job, shown=shown, unmet=links.unmet(job.job_id)) for job in jobs]
    inserted = await new_jobs.insert_jobs(tx, rows, now=now, tasks=tasks)
    by_id = zip([job.job_id for job in jobs], rows, strict=True)
    return {job_id: row for job_id, row in by_id if job_id in inserted}


def row_of(job: Admitted, *, shown: bool = True, unmet: int = 0) -> NewJob:
    """Make the row of a job."""
    spec, submission = job.spec, job.submission
    assert spec.type is not None, "an accepted spec is complete"
    assert spec.owner is not None, "an accepted spec is complete"
    # In order: by name, each job would cost a microsecond more. A test looks at each field.
    return NewJob(
        job.job_id,
        spec.name,
        spec.type,
        spec.owner,
        spec.queue,
        spec.priority or 0,
        msgspec.json.encode(spec).decode(),
        msgspec.json.encode(spec.labels).decode(),
        submission.parent_job_id,
        submission.replay_of,
        job.correlation_id,
        job.trace_id,
        submission.trace_parent,
        spec.idempotency_key,
        _asked(job),
        shown,
        submission.inputs is not None,
        spec.max_task_failures,
        job.num_tasks,
        job.graph_id,
        submission.compensates_job_id,
        unmet,
        job.actor,
    )


def _asked(job: Admitted) -> str | None:
    """Give what came under the job's key, unless that is what is stored."""
    if job.spec.idempotency_key is None or job.asked == job.spec:
        return None
    return msgspec.json.encode(job.asked).decode()


def tasks_in_line(jobs: Sequence[Admitted]) -> TasksInLine:
    """Give the tasks of jobs that are ready as they are stored."""
    rows = TasksInLine()
    for job in jobs:
        rows.add(
            _inputs_of(job),
            is_placed=job.spec.queue is None,
            scheduling_timeout=_scheduling_timeout(job),
        )
    return rows


def _inputs_of(job: Admitted) -> Sequence[str | None]:
    return job.submission.inputs or [None] * job.num_tasks


async def _insert_tasks_of(
    tx: Transaction, jobs: Sequence[Admitted], links: Links, *, now: datetime
) -> None:
    """Store the tasks of new jobs, and line up those that can start or have a time to."""
    if not jobs:
        return
    rows = NewTasks()
    for job in jobs:
        add_tasks(rows, job, _inputs_of(job))
    await insert_tasks(tx, rows, jobs, now=now)
    await line_up(tx, [job for job in jobs if not links.unmet(job.job_id)], now=now)


def add_tasks(
    rows: NewTasks, job: Admitted, inputs: Sequence[str | None], *, first_index: int = 0
) -> None:
    """Add a stretch of a job's tasks, from an index on, to those that will be stored."""
    count = len(inputs)
    rows.job_ids += [job.job_id] * count
    rows.task_indexes += range(first_index, first_index + count)
    rows.placed += [job.spec.queue is None] * count
    rows.inputs += inputs


async def insert_tasks(
    tx: Transaction, rows: NewTasks, jobs: Iterable[Admitted], *, now: datetime
) -> None:
    """Store tasks of these jobs that are not put in line yet."""
    when = {job.job_id: job.eligible_at(now) for job in jobs}
    await tasks.insert_tasks(
        tx, rows, eligible_at=[when[job_id] for job_id in rows.job_ids], now=now
    )


async def line_up(tx: Transaction, jobs: Sequence[Admitted], *, now: datetime) -> None:
    """Put tasks where claims find them, or where they wait; of a large job, the first stretch.

    Those of a paced job are fed.
    """
    jobs = [job for job in jobs if not job.is_paced]
    at_once = [job for job in jobs if job.eligible_at(now) <= now]
    later = [job for job in jobs if job.eligible_at(now) > now]
    if at_once:
        await ready.insert_ready(tx, _ready_stretches(at_once), now=now)
    if later:
        await ready.insert_waiting(
            tx,
            [
                WaitingStretch(job.job_id, _first_stretch(job), job.eligible_at(now))
                for job in later
            ],
        )


def _ready_stretches(jobs: Iterable[Admitted]) -> list[ReadyStretch]:
    return [
        ReadyStretch(
            job.job_id,
            job.spec.queue or "",
            -(job.spec.priority or 0),
            _first_stretch(job),
            _scheduling_timeout(job),
        )
        for job in jobs
    ]


def _scheduling_timeout(job: Admitted) -> timedelta | None:
    seconds = job.spec.scheduling_timeout
    return None if seconds is None else timedelta(seconds=seconds)


def _first_stretch(job: Admitted) -> int:
    """Give the index up to which the tasks of a job are lined up when it is stored."""
    return min(job.num_tasks, CHUNK_TASKS_MAX)


def is_ready(job: Admitted, links: Links, now: datetime) -> bool:
    """Tell whether the tasks of a job can be claimed or placed as soon as it is stored."""
    return not links.unmet(job.job_id) and job.eligible_at(now) <= now and not job.is_paced


async def announce(
    tx: Transaction, jobs: Sequence[Admitted], links: Links, *, waiting: set[int]
) -> None:
    """Tell of new jobs once the transaction has committed, and have large and paced ones fed."""
    for job in jobs:
        ready_tasks = 0 if job.job_id in waiting else _first_stretch(job)
        spec = job.stored() if ready_tasks or job.graph_id is None else None
        is_compensation = job.submission.compensates_job_id is not None
        submitted = 0 if is_compensation else job.num_tasks
        tx.news.stored_jobs.append(StoredJob(job.job_id, submitted, ready_tasks, spec))
    paced = {job.job_id for job in jobs if job.job_id in waiting and job.is_paced}
    large = {job.job_id for job in jobs if job.num_tasks > CHUNK_TASKS_MAX}
    for fed, next_index in ((paced, 0), (large - paced, CHUNK_TASKS_MAX)):
        feeds = [("feed", job_id) for job_id in sorted(fed) if not links.unmet(job_id)]
        await add_follow_ups(tx, feeds, next_index=next_index)


async def _answer_repeats(tx: Transaction, jobs: Sequence[Admitted]) -> dict[int, Answer]:
    """Answer those whose key was seen before, in this transaction or earlier."""
    if not jobs:
        return {}
    first = await find_first(tx, jobs)
    return {job.job_id: answer_repeat(job, first[job.job_id]) for job in jobs}


def answer_repeat(job: Admitted, first: KeyedJob) -> Answer:
    """Answer a key that was seen before: with its job, or that it meant something else."""
    if not first.is_same:
        return KeyReused(job.spec.idempotency_key or "", first.job_id)
    return Submitted(first.job_id, is_new=False)


async def answer_refused(
    tx: Transaction, jobs: Sequence[Admitted], refused: Mapping[int, Refused]
) -> dict[int, Answer]:
    """Answer what can no longer be stored; but a key that was seen before means the job of then.

    The jobs it refers to may have been pruned since, or have ended.
    """
    answers: dict[int, Answer] = dict(refused)
    keyed = [job for job in jobs if job.job_id in refused and job.spec.idempotency_key]
    first = await find_first(tx, keyed) if keyed else {}
    for job in keyed:
        if job.job_id in first and first[job.job_id].shown:
            answers[job.job_id] = answer_repeat(job, first[job.job_id])
    return answers
