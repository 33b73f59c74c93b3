"""Jobs on their way to the server, as they are described; sent twice under way, each is one job."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import msgspec

from holdfast.client.context import find_lease
from holdfast.client.submit_spans import submit_span
from holdfast.wire.requests import JobBatchRequest, JobRequest
from holdfast.wire.status import JobBatchAnswer

if TYPE_CHECKING:
    from holdfast.client.client import Client

Answer = TypeVar("Answer")
SUBMIT_SECONDS_MAX = 300.0


async def submit_request(client: "Client", request: JobRequest, returns: type[Answer]) -> Answer:
    """Submit a job as it is described: what a running task submits is a child of its job.

    Returns of the answer what is wanted: a `SubmittedJob`, or the whole `JobStatus`.
    """
    return await _post(client, "/api/jobs", _with_key(request), returns=returns)


async def submit_requests(client: "Client", requests: Iterable[JobRequest]) -> JobBatchAnswer:
    """Submit jobs in one call, all or none; they may wait for each other by local names."""
    batch = JobBatchRequest([_with_key(request) for request in requests])
    return await _post(client, "/api/jobs:batch", batch, returns=JobBatchAnswer)


def _with_key(request: JobRequest) -> JobRequest:
    if request.idempotency_key is not None:
        return request
    return msgspec.structs.replace(request, idempotency_key=f"auto-{uuid4()}")


async def _post(
    client: "Client",
    path: str,
    body: JobRequest | JobBatchRequest,
    *,
    returns: type[Answer],
) -> Answer:
    shown = find_lease(client.server)
    with submit_span(body) as headers:
        if shown is not None:
            headers.update(shown.headers())
        return await client._transport.insist(
            "POST",
            path,
            returns,
            body=body,
            headers=headers,
            seconds_max=SUBMIT_SECONDS_MAX,
            patience=client._patience,
        )
