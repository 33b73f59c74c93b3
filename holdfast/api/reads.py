"""The routes that read jobs; and the list of all routes that read."""

import asyncio
from datetime import UTC, datetime, timedelta

from holdfast.api import (
    convert,
    reads_events,
    reads_fleet,
    reads_letters,
    reads_lists,
    reads_tasks,
)
from holdfast.api.endpoint import Call, Endpoint
from holdfast.api.pages import JobPlace, check_page_size, read_token, write_token
from holdfast.api.reads_tasks import read_facts, tell_tasks
from holdfast.api.work import check_wait
from holdfast.errors import Invalid
from holdfast.model.ids import JOB_ID_MAX, parse_job_id
from holdfast.model.states import parse_state
from holdfast.rules.submission import check_text
from holdfast.services.waking.doorbell import Bell
from holdfast.store.reads import jobs, tasks
from holdfast.wire.requests import JobListQuery, JobQuery
from holdfast.wire.status import JobPage, JobStatus

TASKS_SHOWN_MAX = 100
TEXT_MAX = 256
VALUE_MAX = 64 << 10
_EPOCH = datetime.fromtimestamp(0, UTC)


async def list_jobs(call: Call[None, JobListQuery]) -> JobPage:
    """List jobs, the newest first; a short page with a token is not the last one."""
    asked = call.query
    wanted = _job_filter(asked)
    page_size = check_page_size(asked.page_size)
    place = read_token(asked.page_token, JobPlace)
    before = JOB_ID_MAX if place is None else place.job_id
    async with call.runtime.reads.transaction() as tx:
        page = await jobs.list_jobs(tx, wanted, before=before, page_size=page_size)
    following = None if page.next_after is None else JobPlace(page.next_after)
    return JobPage([convert.job_status(job) for job in page.rows], write_token(following))


def _job_filter(asked: JobListQuery) -> jobs.JobFilter:
    for field in ("name", "type", "owner", "queue"):
        check_text(field, getattr(asked, field) or "", TEXT_MAX)
    label = None
    if asked.label is not None:
        check_text("label", asked.label, VALUE_MAX)
        key, equals, value = asked.label.partition("=")
        if not key or not equals:
            raise Invalid(
                "label", f"{asked.label!r} has no key or value; write it like team=search"
            )
        label = (key, value)
    since, until = asked.submitted_from_ms, asked.submitted_until_ms
    if since is not None and until is not None and since >= until:
        raise Invalid("submitted_until_ms", "is not after submitted_from_ms; swap the two")
    return jobs.JobFilter(
        state=None if asked.state is None else parse_state(asked.state),
        # Every name starts with nothing.
        name=asked.name or None,
        type=asked.type,
        owner=asked.owner,
        queue=asked.queue,
        parent_job_id=None if asked.parent is None else parse_job_id(asked.parent, "parent"),
        label=label,
        submitted_from=None if since is None else _moment(since),
        submitted_until=None if until is None else _moment(until),
    )


def _moment(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


async def show_job(call: Call[None, JobQuery]) -> JobStatus:
    """Read one job: at once, or when it has ended or `wait_ms` are over."""
    job_id = parse_job_id(call.path["job_id"])
    clock, doorbells = asyncio.get_running_loop().time, call.runtime.doorbells
    ends_at = clock() + check_wait(call.query.wait_ms) / 1000
    with doorbells.listen([Bell("job", str(job_id))]) as listener:
        while True:
            async with call.runtime.reads.transaction() as tx:
                job = await jobs.get_job_with_spec(tx, job_id)
            remaining = ends_at - clock()
            if job.finished_at is not None or remaining <= 0 or doorbells.is_closed:
                break
            await listener.wait(remaining)
    if not call.query.tasks:
        return convert.job_status(job)
    async with call.runtime.reads.transaction() as tx:
        page = await tasks.list_tasks(tx, job_id, page_size=TASKS_SHOWN_MAX)
        facts = await read_facts(tx, job, page.rows)
    shown = await tell_tasks(call.runtime.reasons, job, page.rows, facts=facts)
    return convert.job_status(job, shown)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/api/jobs", list_jobs, JobPage, query=JobListQuery),
    Endpoint("GET", "/api/jobs/{job_id}", show_job, JobStatus, query=JobQuery, waits=True),
    *reads_events.ENDPOINTS,
    *reads_lists.ENDPOINTS,
    *reads_letters.ENDPOINTS,
    *reads_tasks.ENDPOINTS,
    *reads_fleet.ENDPOINTS,
)
