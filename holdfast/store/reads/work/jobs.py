"""Jobs, one or a list of them, the newest first: by the index that leads past the fewest.

Every read finds its rows by an index, in a transaction as the writers open it. A job that is still
arriving does not exist for readers. Ids rise with the time at which jobs were created, so a stretch
of time is a stretch of ids.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from holdfast.errors import NotFound
from holdfast.model.work.ids import JOB_ID_MAX
from holdfast.model.work.states import UNSUCCESSFUL_STATES, JobState, TaskState
from holdfast.rules.reading.fingerprint import fingerprint
from holdfast.rules.reading.settled import Aftermath, Again, find_settled
from holdfast.store.database import Transaction
from holdfast.store.pages import EXAMINED_MAX, Page, Walk, fill_page, walker
from holdfast.store.reads.workers.worker_attempts import list_jobs_of_worker
from holdfast.store.statements import load_statements

_JOBS = load_statements("reads/work/jobs")
NAMES_MAX = 1000
# The first line is looked at; blank ones may stand before it.
ERROR_LENGTH_MAX = 300
REPLAYS_EXAMINED_MAX = 100
NAMED_EXAMINED_MAX = 100_000
_SIEVES = {
    "type": _JOBS["keep_jobs_of_type"],
    "owner": _JOBS["keep_jobs_of_owner"],
    "queue": _JOBS["keep_jobs_of_queue"],
}
_NEVER = frozenset({TaskState.ASSIGNED, TaskState.BUILDING})
# Servers take ids and look at the clock side by side, and not in one step.
SLACK = timedelta(seconds=10)
# A job that arrives in chunks is seen when it is whole; retention gives it an hour.
ARRIVAL_MAX = timedelta(hours=1)
_LAST = datetime.max.replace(tzinfo=UTC) - SLACK


class JobRow(NamedTuple):
    """A job; `labels` and `spec` are JSON texts, and lists come without the spec."""

    job_id: int
    name: str
    type: str
    owner: str
    queue: str | None
    priority: int
    labels: str
    parent_job_id: int | None
    replay_of: int | None
    correlation_id: str
    trace_id: str | None
    idempotency_key: str | None
    submitted_at: datetime
    state: int
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    exit_code: int | None
    cancel_mode: str | None
    cancel_reason: str | None
    num_tasks: int
    pending: int
    assigned: int
    building: int
    running: int
    succeeded: int
    failed: int
    killed: int
    worker_failed: int
    unschedulable: int
    dead_lettered: int
    graph_id: int | None
    compensates_job_id: int | None
    unmet: int
    released_at: datetime | None
    # Which job undoes it, and whether that has succeeded; known where the spec is.
    compensated_by: int | None
    is_compensated: bool | None
    spec: str | None


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs; None means any. `name` is a prefix, `label` a key and its value.

    `fingerprint` is that of their error.
    """

    states: frozenset[JobState] | None = None
    name: str | None = None
    type: str | None = None
    owner: str | None = None
    queue: str | None = None
    parent_job_id: int | None = None
    label: tuple[str, str] | None = None
    correlation_id: str | None = None
    # The first moment that counts, and the first after them.
    submitted_from: datetime | None = None
    submitted_until: datetime | None = None
    fingerprint: str | None = None
    # Whose attempts of late, ended or open, are of these jobs.
    worker_id: str | None = None

    @property
    def are_listed(self) -> bool:
        """Tell whether there is a list of the jobs in these states; of successes there is none."""
        return self.states is not None and JobState.SUCCEEDED not in self.states


class JobError(NamedTuple):
    """How a job ended that did not succeed; of its error, the beginning."""

    job_id: int
    type: str
    finished_at: datetime | None
    error: str
    is_cancelled: bool


@dataclass(frozen=True, slots=True)
class Span:
    """The ids that jobs of a stretch of time have; some large ones have older ids than the rest."""

    first: int = 0
    first_in_chunks: int = 0
    end: int = JOB_ID_MAX


async def find_job(tx: Transaction, job_id: int) -> JobRow | None:
    """Read one job without its spec, which may be large."""
    rows = await _read_jobs(tx, [job_id], JobFilter(), count_max=1)
    return rows[0] if rows else None


async def get_job(tx: Transaction, job_id: int) -> JobRow:
    """Read one job without its spec. Raises NotFound."""
    job = await find_job(tx, job_id)
    if job is None:
        raise NotFound("job", job_id)
    return job


async def get_job_with_spec(tx: Transaction, job_id: int) -> JobRow:
    """Read one job whole. Raises NotFound."""
    row = await tx.fetch_one(_JOBS["get_job_with_spec"], job_id=job_id)
    if row is None:
        raise NotFound("job", job_id)
    return JobRow(*row)


async def list_jobs(
    tx: Transaction, wanted: JobFilter, *, before: int = JOB_ID_MAX, page_size: int
) -> Page[JobRow, int]:
    """List jobs, the newest first; a page may be short and still not be the last one."""
    if wanted.states is not None and wanted.states <= _NEVER:
        return Page([], None)
    span = await _find_span(tx, wanted)
    walk, examined_max = await _choose_walk(tx, wanted)

    async def read(job_ids: list[int], count_max: int) -> list[JobRow]:
        kept = await _sift(tx, job_ids, wanted)
        return await _read_jobs(tx, kept, wanted, count_max=count_max) if kept else []

    return await fill_page(
        walk if span.first == 0 else _end_walk(tx, walk, span),
        read,
        lambda job: job.job_id,
        after=min(before, span.end),
        page_size=page_size,
        examined_max=examined_max,
    )


async def _read_jobs(
    tx: Transaction, job_ids: list[int], wanted: JobFilter, *, count_max: int
) -> list[JobRow]:
    """Read those of these jobs that are wanted, the newest first."""
    label_key, label_value = wanted.label or (None, None)
    rows = await tx.fetch(
        _JOBS["read_jobs"],
        job_ids=job_ids,
        states=None if wanted.states is None else sorted(wanted.states),
        name=wanted.name,
        type=wanted.type,
        owner=wanted.owner,
        queue=wanted.queue,
        parent_job_id=wanted.parent_job_id,
        correlation_id=wanted.correlation_id,
        label_key=label_key,
        label_value=label_value,
        submitted_from=wanted.submitted_from,
        submitted_until=wanted.submitted_until,
        count_max=count_max,
    )
    return [JobRow(*row) for row in rows]


async def _find_span(tx: Transaction, wanted: JobFilter) -> Span:
    since, until = wanted.submitted_from, wanted.submitted_until
    moments = []
    if since is not None:
        moments += [since - SLACK, since - SLACK - ARRIVAL_MAX]
    if until is not None:
        moments += [min(until, _LAST) + SLACK]
    if not moments:
        return Span()
    rows = await tx.fetch(_JOBS["find_jobs_by_time"], moments=moments)
    # Where there is no job at all, none is within the span.
    bounds = [JOB_ID_MAX if row[0] is None else row[0] for row in rows]
    first, first_in_chunks = (bounds[0], bounds[1]) if since is not None else (0, 0)
    return Span(first, first_in_chunks, bounds[-1] if until is not None else JOB_ID_MAX)


def _end_walk(tx: Transaction, walk: Walk, span: Span) -> Walk:
    """End a walk where a stretch of time begins, but for jobs that took long to arrive."""

    async def end(after: int, count_max: int) -> list[int]:
        found: list[int] = []
        if after > span.first:
            found = [i for i in await walk(after, count_max) if i >= span.first]
        if len(found) < count_max:
            rows = await tx.fetch(
                _JOBS["walk_jobs_in_chunks"],
                before_job_id=min(after, span.first),
                first_job_id=span.first_in_chunks,
                count_max=count_max - len(found),
            )
            found += [row[0] for row in rows]
        return found

    return end


async def _sift(tx: Transaction, job_ids: list[int], wanted: JobFilter) -> list[int]:
    """Leave out jobs that an index tells apart, if they were walked by something else.

    Few may be wanted, and rows are large: to read ten thousand for a page would take long.
    """
    names = [name for name in _SIEVES if getattr(wanted, name) is not None]
    is_walked_by_another = (
        wanted.parent_job_id is not None
        or wanted.worker_id is not None
        or wanted.correlation_id is not None
        or wanted.label is not None
        or wanted.are_listed
    )
    for name in names if is_walked_by_another else names[1:]:
        rows = await tx.fetch(_SIEVES[name], job_ids=job_ids, **{name: getattr(wanted, name)})
        job_ids = [row[0] for row in rows]
    if wanted.fingerprint is not None:
        errors = await _read_errors(tx, job_ids)
        # Thousands of errors take a while to tell apart, and this loop has leases to renew.
        alike = await asyncio.to_thread(_list_alike, errors, wanted.fingerprint)
        job_ids = [job_id for job_id in job_ids if job_id in alike]
    return job_ids


def _list_alike(errors: list[JobError], kind: str) -> set[int]:
    return {row.job_id for row in errors if fingerprint(None, row.error) == kind}


async def list_newest_errors(tx: Transaction, count_max: int) -> list[JobError]:
    """List how the newest jobs ended that did not succeed, but for those that were cancelled."""
    states = sorted(UNSUCCESSFUL_STATES)
    walk = walker(tx, _JOBS["walk_jobs_in_states"], "before_job_id", states=states)
    errors = await _read_errors(tx, await walk(JOB_ID_MAX, count_max))
    return [row for row in errors if not row.is_cancelled]


async def list_settled(tx: Transaction, job_ids: Sequence[int]) -> set[int]:
    """List those of these unsuccessful jobs that nothing is left to be done about."""
    rows = await tx.fetch(_JOBS["list_again"], job_ids=job_ids, events_max=REPLAYS_EXAMINED_MAX)
    known: dict[int, Aftermath] = {}
    for job_id, replay_of, has_letters, has_open, replay_id, is_ended, has_succeeded in rows:
        one = known.get(job_id) or Aftermath(replay_of, has_letters, has_open, ())
        if replay_id is not None:
            again = Again(replay_id, is_ended, has_succeeded)
            one = one._replace(replays=(*one.replays, again))
        known[job_id] = one
    return find_settled(known)


async def _read_errors(tx: Transaction, job_ids: list[int]) -> list[JobError]:
    rows = await tx.fetch(_JOBS["read_errors"], job_ids=job_ids, error_length=ERROR_LENGTH_MAX)
    return [JobError(*row) for row in rows]


async def _choose_walk(tx: Transaction, wanted: JobFilter) -> tuple[Walk, int]:
    """Choose the index that leads past the fewest jobs, and how many of them may be examined."""
    statement, examined_max = _JOBS["walk_jobs"], EXAMINED_MAX
    values: dict[str, Any] = {}
    if wanted.worker_id is not None:
        return _walk_along(await list_jobs_of_worker(tx, wanted.worker_id)), examined_max
    if wanted.parent_job_id is not None:
        statement = _JOBS["walk_jobs_of_parent"]
        values = {"parent_job_id": wanted.parent_job_id}
    elif wanted.correlation_id is not None:
        statement = _JOBS["walk_jobs_of_correlation"]
        values = {"correlation_id": wanted.correlation_id}
    elif wanted.label is not None:
        statement = _JOBS["walk_jobs_with_label"]
        values = {"label_key": wanted.label[0], "label_value": wanted.label[1]}
    elif wanted.are_listed:
        assert wanted.states is not None
        statement, values = _JOBS["walk_jobs_in_states"], {"states": sorted(wanted.states)}
    elif wanted.type is not None:
        statement, values = _JOBS["walk_jobs_of_type"], {"type": wanted.type}
    elif wanted.owner is not None:
        statement, values = _JOBS["walk_jobs_of_owner"], {"owner": wanted.owner}
    elif wanted.queue is not None:
        statement, values = _JOBS["walk_jobs_of_queue"], {"queue": wanted.queue}
    elif wanted.name is not None:
        rows = await tx.fetch(_JOBS["list_names"], name=wanted.name, names_max=NAMES_MAX + 1)
        # So many names have the prefix that the newest jobs are likely to have it too.
        if len(rows) <= NAMES_MAX:
            statement, values = _JOBS["walk_jobs_named"], {"names": [row[0] for row in rows]}
            examined_max = min(EXAMINED_MAX, NAMED_EXAMINED_MAX // max(len(rows), 1))
    return walker(tx, statement, "before_job_id", **values), examined_max


def _walk_along(job_ids: list[int]) -> Walk:
    """Walk along jobs that are known, the newest first."""

    async def walk(before: int, count_max: int) -> list[int]:
        return [job_id for job_id in job_ids if job_id < before][:count_max]

    return walk
