"""The routes of jobs: their list, one of them, what depends on it, and its cancel."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import cast

import msgspec

from holdfast.api import convert
from holdfast.api.attempts import AttemptMay
from holdfast.api.job_statuses import job_status
from holdfast.api.job_terms import show_terms
from holdfast.api.page_tokens import JobToken, check_page_size, read_token, write_token
from holdfast.api.route import Call, Narrowing, Route, check_wait
from holdfast.api.task_statuses import list_statuses, read_facts, why_job_waits
from holdfast.errors import Invalid
from holdfast.model.access.roles import Role
from holdfast.model.submitting.order import Condition
from holdfast.model.work.ids import JOB_ID_MAX, check_worker_id, parse_job_id
from holdfast.model.work.states import UNSUCCESSFUL_STATES, parse_states
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.ending.dependents import let_pass
from holdfast.rules.reading.fingerprint import is_fingerprint
from holdfast.rules.submitting.submission import check_text
from holdfast.services.waking.doorbell import Bell
from holdfast.store.reads.work import jobs, tasks
from holdfast.store.reads.work.causes import list_causes
from holdfast.store.reads.work.graph import EdgeRow, NodeRow, read_graph
from holdfast.store.reads.work.terms import find_terms
from holdfast.store.reads.work.totals import read_totals
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.graphs import GraphEdge, GraphNode, JobGraph
from holdfast.wire.raw import raw
from holdfast.wire.requests import CancelRequest, JobListQuery, JobQuery, Nothing, PassRequest
from holdfast.wire.status import Changed, JobPage, JobStatus, TaskStatus

TASKS_SHOWN_MAX = 100
TEXT_MAX = 256
VALUE_MAX = 64 << 10
GRAPH_JOBS_MAX = 1000
GRAPH_EDGES_MAX = 10_000

_EPOCH = datetime.fromtimestamp(0, UTC)


async def list_jobs(call: Call[None, JobListQuery]) -> JobPage:
    """List jobs, the newest first; a short page with a token is not the last one."""
    owner, queue = call.query.owner, call.query.queue
    asked = msgspec.structs.replace(
        call.query, owner=call.caller.narrow_owner(owner), queue=call.caller.narrow_queue(queue)
    )
    wanted = _job_filter(asked)
    page_size = check_page_size(asked.page_size)
    token = read_token(asked.page_token, JobToken)
    before = JOB_ID_MAX if token is None else token.job_id
    async with call.reads.transaction() as tx:
        page = await jobs.list_jobs(tx, wanted, before=before, page_size=page_size)
    following = None if page.next_after is None else JobToken(page.next_after)
    return JobPage([job_status(job) for job in page.rows], write_token(following))


def _job_filter(asked: JobListQuery) -> jobs.JobFilter:
    for field in ("name", "type", "owner", "queue", "correlation_id"):
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
    if asked.fingerprint is not None and not is_fingerprint(asked.fingerprint):
        problem = f"{asked.fingerprint!r} is none; take one from an item of /api/overview"
        raise Invalid("fingerprint", problem)
    states = None if asked.state is None else parse_states(asked.state)
    if states is None and asked.fingerprint is not None:
        states = UNSUCCESSFUL_STATES  # the others have no error
    since, until = asked.submitted_from_ms, asked.submitted_until_ms
    if since is not None and until is not None and since >= until:
        raise Invalid("submitted_until_ms", "is not after submitted_from_ms; swap the two")
    return jobs.JobFilter(
        states=states,
        # Every name starts with nothing.
        name=asked.name or None,
        type=asked.type,
        owner=asked.owner,
        queue=asked.queue,
        parent_job_id=None if asked.parent is None else parse_job_id(asked.parent, "parent"),
        label=label,
        correlation_id=asked.correlation_id,
        submitted_from=None if since is None else _moment(since),
        submitted_until=None if until is None else _moment(until),
        fingerprint=asked.fingerprint,
        worker_id=None if asked.worker is None else check_worker_id(asked.worker, "worker"),
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
    shown = await _show_tasks(call, job) if call.query.tasks else None
    reasons = await why_job_waits(call.runtime.reasons, call.runtime.reads, job)
    async with call.runtime.reads.transaction() as tx:
        causes = await list_causes(tx, job)
        totals = await read_totals(tx, job) if call.query.totals else None
        terms = await find_terms(tx, job)
    # Arguments, environment and result are not for everybody who sees states.
    shows_content = Role.CONTENT in call.caller.roles
    status = job_status(
        job,
        tasks=shown,
        totals=totals,
        causes=causes,
        reasons=reasons,
        terms=show_terms(job, terms, shows_key=shows_content),
    )
    if not shows_content:
        status = msgspec.structs.replace(status, spec=None, serialized_result=raw(None))
    return status


async def _show_tasks(call: Call[None, JobQuery], job: jobs.JobRow) -> list[TaskStatus]:
    async with call.runtime.reads.transaction() as tx:
        page = await tasks.list_tasks(tx, job.job_id, page_size=TASKS_SHOWN_MAX)
        facts = await read_facts(tx, job, page.rows)
    return await list_statuses(call.runtime.reasons, job, page.rows, facts=facts)


async def stop_job(call: Call[CancelRequest, Nothing]) -> Changed:
    """Cancel a job: softly, with its grace, or hard."""
    job_id = parse_job_id(call.path["job_id"])
    asked = call.body
    changed = await cancel_job(
        call.runtime.ledger,
        job_id,
        asked.mode,
        actor=call.actor,
        reason=asked.reason,
        idempotency_key=asked.idempotency_key,
    )
    return Changed(changed)


async def pass_job(call: Call[PassRequest, Nothing]) -> Changed:
    """Have the chain of a job that has failed go on after it."""
    job_id = parse_job_id(call.path["job_id"])
    return Changed(
        await let_pass(call.runtime.ledger, job_id, actor=call.actor, reason=call.body.reason)
    )


async def show_graph(call: Call[None, Nothing]) -> JobGraph:
    """Read the jobs that a job depends on and that depend on it, directly or not."""
    job_id = parse_job_id(call.path["job_id"])
    async with call.runtime.reads.transaction() as tx:
        found = await read_graph(tx, job_id, jobs_max=GRAPH_JOBS_MAX, edges_max=GRAPH_EDGES_MAX)
    return JobGraph(
        job_id=str(job_id),
        nodes=[_node(row) for row in found.nodes],
        edges=[_edge(row) for row in found.edges],
        truncated=found.is_truncated,
    )


def _node(row: NodeRow) -> GraphNode:
    undone = row.compensates_job_id
    return GraphNode(
        job_id=str(row.job_id),
        name=row.name,
        type=row.type,
        state=convert.job_state(row.state),
        graph_id=None if row.graph_id is None else str(row.graph_id),
        compensates_job_id=None if undone is None else str(undone),
    )


def _edge(row: EdgeRow) -> GraphEdge:
    return GraphEdge(
        before=str(row.depends_on),
        after=str(row.job_id),
        condition=cast(Condition, row.condition),
        holds=row.holds,
    )


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/jobs",
        list_jobs,
        JobPage,
        Role.READ,
        query=JobListQuery,
        narrowing=Narrowing.FUNCTION,
        at_replica=True,
    ),
    Route(
        "POST",
        "/api/jobs/{job_id}:cancel",
        stop_job,
        Changed,
        Role.SUBMIT,
        body=CancelRequest,
        also={409: ErrorAnswer},
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "POST",
        "/api/jobs/{job_id}:pass",
        pass_job,
        Changed,
        Role.SUBMIT,
        body=PassRequest,
        also={409: ErrorAnswer},
    ),
    Route(
        "GET",
        "/api/jobs/{job_id}",
        show_job,
        JobStatus,
        Role.READ,
        query=JobQuery,
        waits=True,
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "GET",
        "/api/jobs/{job_id}/graph",
        show_graph,
        JobGraph,
        Role.READ,
        narrowing=Narrowing.REFUSED,
    ),
)
