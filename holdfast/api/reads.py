"""The routes that read jobs, workers, queues and dead letters."""

import asyncio
from datetime import datetime, timedelta
from typing import get_args

from holdfast.api import convert
from holdfast.api.endpoint import Call, Endpoint
from holdfast.api.event_names import parse_event_type
from holdfast.api.pages import (
    JobKey,
    MomentKey,
    TaskKey,
    WorkerKey,
    check_page_size,
    read_token,
    write_token,
)
from holdfast.api.reads_tasks import tell_tasks
from holdfast.api.work import check_wait
from holdfast.errors import Invalid
from holdfast.model.ids import JOB_ID_MAX, TaskId, check_worker_id, parse_job_id, parse_task_id
from holdfast.model.outcomes import STAGES, ReasonCode
from holdfast.model.states import parse_state
from holdfast.rules.submission import check_text
from holdfast.services.doorbell import Bell
from holdfast.store import fleet, views
from holdfast.store.events import Event
from holdfast.store.follow import Moment, list_events_of_job
from holdfast.wire import requests, status
from holdfast.wire.requests import Nothing

TASKS_SHOWN_MAX = 100
TEXT_MAX = 256
VALUE_MAX = 64 << 10


async def list_jobs(call: Call[None, requests.JobListQuery]) -> status.JobPage:
    """List jobs, the newest first; a short page with a token is not the last one."""
    asked = call.query
    wanted = _job_filter(asked)
    page_size = check_page_size(asked.page_size)
    before = JOB_ID_MAX if asked.page_token is None else read_token(asked.page_token, JobKey)[0]
    async with call.runtime.reads.transaction() as tx:
        page = await views.list_jobs(tx, wanted, before=before, page_size=page_size)
    token = None if page.next_after is None else write_token(page.next_after)
    return status.JobPage([convert.job_status(job) for job in page.rows], token)


def _job_filter(asked: requests.JobListQuery) -> views.JobFilter:
    for field in ("name", "type", "owner", "queue"):
        check_text(field, getattr(asked, field) or "", TEXT_MAX)
    label = None
    if asked.label is not None:
        check_text("label", asked.label, VALUE_MAX)
        key, equals, value = asked.label.partition("=")
        if not key or not equals:
            raise Invalid("label", f"{asked.label!r} has no key or value; write it like team=search")
        label = (key, value)
    return views.JobFilter(
        state=None if asked.state is None else parse_state(asked.state),
        # Every name starts with nothing.
        name=asked.name or None,
        type=asked.type,
        owner=asked.owner,
        queue=asked.queue,
        parent_job_id=None if asked.parent is None else parse_job_id(asked.parent, "parent"),
        label=label,
    )


async def show_job(call: Call[None, requests.JobQuery]) -> status.JobStatus:
    """Read one job: at once, or when it has ended or `wait_ms` are over."""
    job_id = parse_job_id(call.path["job_id"])
    clock, doorbells = asyncio.get_running_loop().time, call.runtime.doorbells
    ends_at = clock() + check_wait(call.query.wait_ms) / 1000
    with doorbells.listen([Bell("job", str(job_id))]) as listener:
        while True:
            async with call.runtime.reads.transaction() as tx:
                job = await views.get_job(tx, job_id)
            remaining = ends_at - clock()
            if job.finished_at is not None or remaining <= 0 or doorbells.is_closed:
                break
            await listener.wait(remaining)
    if not call.query.tasks:
        return convert.job_status(job)
    async with call.runtime.reads.transaction() as tx:
        page = await views.list_tasks(tx, job_id, page_size=TASKS_SHOWN_MAX)
        tasks = await tell_tasks(tx, job, page.rows)
    return convert.job_status(job, tasks)


async def list_job_events(call: Call[None, requests.EventListQuery]) -> status.EventPage:
    """List what happened to a job and to its tasks, in the order of time."""
    job_id = parse_job_id(call.path["job_id"])
    kind, after, page_size = read_event_query(call.query)
    async with call.runtime.reads.transaction() as tx:
        await views.get_job(tx, job_id)
        found = await list_events_of_job(tx, job_id, kind, after=after, page_size=page_size + 1)
    return tell_events(found, page_size)


def read_event_query(asked: requests.EventListQuery) -> tuple[str | None, Moment, int]:
    """Read which events are asked for, after which moment, and how many."""
    kind, page_size = parse_event_type(asked.type), check_page_size(asked.page_size)
    if asked.page_token is None:
        return kind, Moment(), page_size
    microseconds, event_id = read_token(asked.page_token, MomentKey)
    return kind, Moment(Moment().ts + timedelta(microseconds=microseconds), event_id), page_size


def tell_events(found: list[Event], page_size: int) -> status.EventPage:
    """Make a page of events, one more than which was looked for."""
    page = found[:page_size]
    token = None
    if len(found) > page_size:
        microseconds = (page[-1].ts - Moment().ts) // timedelta(microseconds=1)
        token = write_token(microseconds, page[-1].id)
    return status.EventPage([convert.event(row) for row in page], token)


async def list_workers(call: Call[None, requests.PageQuery]) -> status.WorkerList:
    """List the workers, the living first, with their health and how many leases they hold."""
    asked = call.query
    page_size, after = check_page_size(asked.page_size), fleet.FIRST_WORKER
    if asked.page_token is not None:
        after = fleet.WorkerPlace(*read_token(asked.page_token, WorkerKey))
    async with call.runtime.reads.snapshot() as tx:
        page = await fleet.list_workers(tx, after=after, page_size=page_size)
    token = None if page.next_after is None else write_token(*page.next_after)
    return status.WorkerList([convert.worker_status(worker) for worker in page.rows], token)


async def show_worker(call: Call[None, Nothing]) -> status.WorkerStatus:
    """Read one worker."""
    worker_id = check_worker_id(call.path["worker_id"])
    async with call.runtime.reads.snapshot() as tx:
        return convert.worker_status(await fleet.get_worker(tx, worker_id))


async def list_queues(call: Call[None, Nothing]) -> status.QueueList:
    """List every queue that is paused, or has tasks in line, due later, running or just finished."""
    async with call.runtime.reads.transaction() as tx:
        view = await fleet.list_queues(tx)
    rows = [view.queues[name] for name in sorted(view.queues)]
    return status.QueueList([convert.queue_status(row, view.now) for row in rows])


async def show_dead_letters(call: Call[None, requests.DeadLetterListQuery]) -> status.DeadLetterPage:
    """List dead letters by id: those that wait for a decision, or with `settled` all of them."""
    asked = call.query
    wanted = _letter_filter(asked)
    page_size, after = check_page_size(asked.page_size), fleet.FIRST_DEAD_LETTER
    if asked.page_token is not None:
        after = TaskId(*read_token(asked.page_token, TaskKey))
    async with call.runtime.reads.transaction() as tx:
        page = await fleet.list_dead_letters(tx, wanted, after=after, page_size=page_size)
    token = None if page.next_after is None else write_token(*page.next_after)
    return status.DeadLetterPage([convert.dead_letter(row) for row in page.rows], token)


def _letter_filter(asked: requests.DeadLetterListQuery) -> fleet.LetterFilter:
    for field, known in (("reason_code", get_args(ReasonCode)), ("stage", STAGES)):
        value = getattr(asked, field)
        if value is not None and value not in known:
            raise Invalid(field, f"{value!r} is unknown; use one of {', '.join(known)}")
    for field in ("type", "queue"):
        check_text(field, getattr(asked, field) or "", TEXT_MAX)
    return fleet.LetterFilter(
        reason_code=asked.reason_code,
        stage=asked.stage,
        type=asked.type,
        queue=asked.queue,
        job_id=None if asked.job_id is None else parse_job_id(asked.job_id),
        with_settled=asked.settled,
    )


async def show_dead_letter(call: Call[None, Nothing]) -> status.DeadLetter:
    """Read one dead letter."""
    task_id = parse_task_id(call.path["task_id"])
    async with call.runtime.reads.transaction() as tx:
        return convert.dead_letter(await fleet.get_dead_letter(tx, task_id))
