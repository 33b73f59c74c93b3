"""Results of other jobs that stand among the arguments of a call: fetched, opened, put there."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from holdfast.client.argument_jobs import replace_all
from holdfast.client.codec import PayloadCodec
from holdfast.client.context import Lease
from holdfast.client.outcome import RESULTS_PER_PAGE, SUCCEEDED, decode_result, open_result
from holdfast.client.pages import read_pages
from holdfast.client.transport import Transport
from holdfast.errors import NotFound, Refused, TransientError, Unavailable, ValidationError
from holdfast.model.submitting.spec import Entrypoint
from holdfast.wire.attempt_calls import given_results_path
from holdfast.wire.requests import PageQuery
from holdfast.wire.status import ResultPage, TaskResult
from holdfast.worker.running.attempt_outcome import failure
from holdfast.worker.running.function import BadCall, Callee, open_encoded, unopened

FETCHES_MAX = 8
BYTES_MAX = 256 << 20
# Longer than any lease: that a server is away is no failure of the task, and ends with its lease.
PATIENCE_SECONDS = 600.0


class JobResults(NamedTuple):
    """What a job has returned, as it came: all of it is one value to those who wait for it."""

    results: list[TaskResult]
    is_list: bool


async def fetch_results(
    transport: Transport, entrypoint: Entrypoint, lease: Lease
) -> dict[str, JobResults]:
    """Fetch what other jobs have returned, each once, a few at a time. Raises BadCall."""
    read = partial(transport.insist, "GET", headers=lease.headers(), seconds_max=PATIENCE_SECONDS)
    query = PageQuery(RESULTS_PER_PAGE)
    room = asyncio.Semaphore(FETCHES_MAX)
    found: dict[str, JobResults] = {}
    size = 0

    async def fetch(job_id: str) -> None:
        nonlocal size
        results: list[TaskResult] = []
        async with room:
            try:
                path = given_results_path(job_id)
                async for page in read_pages(read, path, ResultPage, query=query):
                    results += page.results
                    size += sum(len(bytes(result.result)) for result in page.results)
                    if size > BYTES_MAX:
                        text = f"the results it asks for are over {BYTES_MAX} bytes together"
                        raise ValidationError(f"{text}; hand on where they are stored instead")
            except NotFound as error:
                raise ValidationError(f"the result of job {job_id} is gone: {error}") from error
        found[job_id] = JobResults(results, page.is_list)

    try:
        async with asyncio.TaskGroup() as fetching:
            for job_id in {position.job for position in entrypoint.results}:
                fetching.create_task(fetch(job_id))
    except* (ValidationError, Refused, Unavailable) as group:
        problem: BaseException = group.exceptions[0]
    else:
        return found
    if not isinstance(problem, ValidationError):
        problem = TransientError(f"the results it asks for cannot be read: {problem}")
    raise BadCall(failure(problem, "input")) from problem


def fill_in(callee: Callee, entrypoint: Entrypoint, found: Mapping[str, JobResults]) -> Callee:
    """Put what was fetched in its positions among the arguments. Raises BadCall."""
    pickled = any(result.pickled for fetched in found.values() for result in fetched.results)
    if pickled and callee.limit is not None:
        raise BadCall(callee.limit.refuse_pickles())
    found = {job_id: decode_results(fetched, callee.codec) for job_id, fetched in found.items()}
    try:
        values = {job_id: _open(fetched) for job_id, fetched in found.items()}
    except (Exception, SystemExit) as error:
        raise unopened(error, "input") from error
    positions = [(position.path, values[position.job]) for position in entrypoint.results]
    try:
        filled = replace_all({"args": callee.args, "kwargs": callee.kwargs}, positions)
    except (LookupError, TypeError) as error:
        problem = (
            f"there is no position for the result of another job among its arguments: {error!r}"
        )
        raise BadCall(failure(ValidationError(problem), "input")) from error
    return callee._replace(**filled)


def decode_results(fetched: JobResults, codec: PayloadCodec | None) -> JobResults:
    """Make results readable that a codec has encoded. Raises BadCall."""
    return open_encoded(
        lambda: fetched._replace(results=[decode_result(codec, r) for r in fetched.results])
    )


def _open(fetched: JobResults) -> Any:
    """Give what a job has returned; a task that failed where that was tolerated gives None."""
    values = [open_result(r) if r.state == SUCCEEDED else None for r in fetched.results]
    return values if fetched.is_list else values[0]
