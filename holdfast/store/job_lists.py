"""Lists of jobs, the newest first: by the index that leads past the fewest of them.

Ids rise with the time at which jobs were created, so a stretch of time is a stretch of ids.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.model.ids import JOB_ID_MAX
from holdfast.model.states import JobState, TaskState
from holdfast.store.database import Transaction
from holdfast.store.pages import EXAMINED_MAX, Page, fill_page
from holdfast.store.statements import load_statements
from holdfast.store.views import JobFilter, JobRow, Walk, read_jobs, walker

_VIEWS = load_statements("views")
_LISTS = load_statements("lists")
NAMES_MAX = 1000
NAMED_EXAMINED_MAX = 100_000
_SIEVES = {
    "type": _LISTS["keep_jobs_of_type"],
    "owner": _LISTS["keep_jobs_of_owner"],
    "queue": _LISTS["keep_jobs_of_queue"],
}
_NEVER = frozenset({TaskState.ASSIGNED, TaskState.BUILDING})
# Servers take ids and look at the clock side by side, and not in one step.
SLACK = timedelta(seconds=10)
# A job that arrives in chunks is seen when it is whole; retention gives it an hour.
ARRIVAL_MAX = timedelta(hours=1)
_LAST = datetime.max.replace(tzinfo=UTC) - SLACK


@dataclass(frozen=True, slots=True)
class Span:
    """The ids that jobs of a stretch of time have; some large ones have older ids than the rest."""

    first: int = 0
    first_in_chunks: int = 0
    end: int = JOB_ID_MAX


async def list_jobs(
    tx: Transaction, wanted: JobFilter, *, before: int = JOB_ID_MAX, page_size: int
) -> Page[JobRow, int]:
    """List jobs, the newest first; a page may be short and still not be the last one."""
    if wanted.state in _NEVER:
        return Page([], None)
    span = await _find_span(tx, wanted)
    walk, examined_max = await _choose_walk(tx, wanted)

    async def read(job_ids: list[int], count_max: int) -> list[JobRow]:
        kept = await _sift(tx, job_ids, wanted)
        return await read_jobs(tx, kept, wanted, count_max=count_max) if kept else []

    return await fill_page(
        walk if span.first == 0 else _end_walk(tx, walk, span),
        read,
        lambda job: job.job_id,
        after=min(before, span.end),
        page_size=page_size,
        examined_max=examined_max,
    )


async def _find_span(tx: Transaction, wanted: JobFilter) -> Span:
    since, until = wanted.submitted_from, wanted.submitted_until
    moments = []
    if since is not None:
        moments += [since - SLACK, since - SLACK - ARRIVAL_MAX]
    if until is not None:
        moments += [min(until, _LAST) + SLACK]
    if not moments:
        return Span()
    rows = await tx.fetch(_LISTS["find_jobs_by_time"], moments=moments)
    # Where there is no job at all, there is no place for them either.
    places = [JOB_ID_MAX if row[0] is None else row[0] for row in rows]
    first, first_in_chunks = (places[0], places[1]) if since is not None else (0, 0)
    return Span(first, first_in_chunks, places[-1] if until is not None else JOB_ID_MAX)


def _end_walk(tx: Transaction, walk: Walk, span: Span) -> Walk:
    """End a walk where a stretch of time begins, but for jobs that took long to arrive."""

    async def end(after: int, count_max: int) -> list[int]:
        found: list[int] = []
        if after > span.first:
            found = [i for i in await walk(after, count_max) if i >= span.first]
        if len(found) < count_max:
            rows = await tx.fetch(
                _LISTS["walk_jobs_in_chunks"],
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
        or wanted.label is not None
        or wanted.state not in (None, JobState.SUCCEEDED)
    )
    for name in names if is_walked_by_another else names[1:]:
        rows = await tx.fetch(_SIEVES[name], job_ids=job_ids, **{name: getattr(wanted, name)})
        job_ids = [row[0] for row in rows]
    return job_ids


async def _choose_walk(tx: Transaction, wanted: JobFilter) -> tuple[Walk, int]:
    """Choose the index that leads past the fewest jobs, and how many of them may be examined."""
    statement, examined_max = _VIEWS["walk_jobs"], EXAMINED_MAX
    values: dict[str, Any] = {}
    if wanted.parent_job_id is not None:
        statement = _VIEWS["walk_jobs_of_parent"]
        values = {"parent_job_id": wanted.parent_job_id}
    elif wanted.label is not None:
        statement = _VIEWS["walk_jobs_with_label"]
        values = {"label_key": wanted.label[0], "label_value": wanted.label[1]}
    elif wanted.state is not None and wanted.state != JobState.SUCCEEDED:
        statement, values = _LISTS["walk_jobs_in_state"], {"state": wanted.state}
    elif wanted.type is not None:
        statement, values = _VIEWS["walk_jobs_of_type"], {"type": wanted.type}
    elif wanted.owner is not None:
        statement, values = _VIEWS["walk_jobs_of_owner"], {"owner": wanted.owner}
    elif wanted.queue is not None:
        statement, values = _VIEWS["walk_jobs_of_queue"], {"queue": wanted.queue}
    elif wanted.name is not None:
        rows = await tx.fetch(_VIEWS["list_names"], name=wanted.name, names_max=NAMES_MAX + 1)
        # So many names have the prefix that the newest jobs are likely to have it too.
        if len(rows) <= NAMES_MAX:
            statement, values = _VIEWS["walk_jobs_named"], {"names": [row[0] for row in rows]}
            examined_max = min(EXAMINED_MAX, NAMED_EXAMINED_MAX // max(len(rows), 1))
    return walker(tx, statement, "before_job_id", **values), examined_max
