"""The routes for what an attempt needs of its own job; its process or its worker shows its lease.

What it was given by other jobs, the call that it undoes, its bundle; and how far it has got.
"""

from typing import Any

from holdfast.api.attempts import AttemptMay, read_lease
from holdfast.api.route import Call, Narrowing, Route, Stream
from holdfast.api.routes.output.results import read_result_page
from holdfast.api.routes.submitting.bundles import give_out
from holdfast.errors import Invalid, NotAllowed, NotFound
from holdfast.model.access.roles import Role
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import parse_job_id
from holdfast.operations.notes import note_progress
from holdfast.operations.own_attempt import check_lease, list_given, load_own
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.attempt_calls import (
    COMPENSATED_PATH,
    PROGRESS_PATH,
    CompensatedCall,
    TaskProgressRequest,
    given_results_path,
    own_bundle_path,
)
from holdfast.wire.bundles import OCTETS, check_bundle_hash
from holdfast.wire.requests import Nothing, PageQuery
from holdfast.wire.status import ResultPage


async def list_given_results(call: Call[None, PageQuery]) -> ResultPage:
    """List what a job returned that the attempt's job, or the job that it undoes, asks for."""
    job_id, fence = parse_job_id(call.path["given"]), _shown(call)
    async with call.runtime.reads.transaction() as tx:
        await _check(call, tx, fence)
        given = await list_given(tx, call.runtime.ledger.specs, fence)
    if job_id not in given:
        raise NotAllowed(
            f"job {job_id} is none that job {fence.task_id.job_id} waits for or has results of; "
            "name it in depends_on, or use a token",
            lacks=f"job {job_id}",
        )
    return await read_result_page(call.runtime.reads, job_id, call.query)


async def show_compensated(call: Call[None, Nothing]) -> CompensatedCall:
    """Read what the job was called with that the attempt's job undoes; 404 if it is gone."""
    fence = _shown(call)
    async with call.runtime.reads.transaction() as tx:
        await _check(call, tx, fence)
        own = await load_own(tx, call.runtime.ledger.specs, fence)
        if own.compensates_job_id is None:
            raise NotAllowed(f"job {fence.task_id.job_id} undoes no other", lacks="a compensation")
        found = await call.runtime.ledger.specs.load(tx, [own.compensates_job_id])
    if own.compensates_job_id not in found:
        raise NotFound("job", own.compensates_job_id)
    return CompensatedCall(found[own.compensates_job_id].spec.entrypoint)


async def fetch_own_bundle(call: Call[None, Nothing]) -> Stream:
    """Give out the workspace of the attempt's job."""
    bundle, fence = check_bundle_hash(call.path["bundle"]), _shown(call)
    async with call.runtime.reads.transaction() as tx:
        await _check(call, tx, fence)
        own = await load_own(tx, call.runtime.ledger.specs, fence)
    if own.spec.bundle != bundle:
        raise NotAllowed(
            f"bundle {bundle} is not that of job {fence.task_id.job_id}; fetch the one that it "
            "names",
            lacks=f"bundle {bundle}",
        )
    return await give_out(call.runtime, bundle)


async def take_progress(call: Call[TaskProgressRequest, Nothing]) -> Nothing:
    """Note how far an attempt has got; its lease is not renewed by that."""
    asked, fence = call.body, call.fence_of(call.body)
    async with call.runtime.reads.transaction() as tx:
        await _check(call, tx, fence)
    await note_progress(call.runtime.ledger, [(fence, asked.fraction, asked.message)])
    return Nothing()


def _shown(call: Call[Any, Any]) -> Fence:
    """Find the attempt that a request is about: nobody but itself has anything to ask here."""
    fence = call.caller.attempt or read_lease(call.headers)
    if fence is None:
        raise Invalid("Holdfast-Lease", "is missing; show `TASK_ID ATTEMPT LEASE_TOKEN`")
    return fence


async def _check(call: Call[Any, Any], tx: Any, fence: Fence) -> None:
    """Look for the lease, unless the caller was known by it."""
    if call.caller.attempt is None:
        await check_lease(tx, fence)


_CONFLICT = {409: ErrorAnswer}
ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        given_results_path("{given}"),
        list_given_results,
        ResultPage,
        Role.WORKER,
        query=PageQuery,
        also=_CONFLICT,
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "GET",
        COMPENSATED_PATH,
        show_compensated,
        CompensatedCall,
        Role.WORKER,
        also=_CONFLICT,
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "GET",
        own_bundle_path("{bundle}"),
        fetch_own_bundle,
        None,
        Role.WORKER,
        also=_CONFLICT,
        content_type=OCTETS,
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "POST",
        PROGRESS_PATH,
        take_progress,
        Nothing,
        Role.WORKER,
        body=TaskProgressRequest,
        also=_CONFLICT,
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.LIVE,
    ),
)
