"""The routes by which running tasks publish addresses, and others look them up."""

import msgspec

from holdfast.api.attempts import AttemptMay
from holdfast.api.convert import to_ms
from holdfast.api.page_tokens import PageToken, Text, check_page_size, read_token, write_token
from holdfast.api.route import Call, Narrowing, Route
from holdfast.model.access.roles import Role
from holdfast.model.work.ids import TaskId
from holdfast.operations import endpoints
from holdfast.store.tables.output.endpoints import Published
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.endpoints import (
    LIST_PATH,
    REGISTER_PATH,
    REMOVE_PATH,
    EndpointListQuery,
    EndpointPage,
    EndpointRegisterRequest,
    EndpointRemoveRequest,
    EndpointStatus,
)
from holdfast.wire.requests import Nothing
from holdfast.wire.status import Changed


class EndpointToken(PageToken, frozen=True):
    """An endpoint."""

    name: Text


async def register_endpoint(call: Call[EndpointRegisterRequest, Nothing]) -> EndpointStatus:
    """Publish an address for a running attempt; it is gone when the attempt ends."""
    asked = call.body
    fence = call.fence_of(asked)
    metadata = None if asked.metadata is None else msgspec.json.encode(asked.metadata).decode()
    published = await endpoints.register_endpoint(
        call.runtime.ledger, fence, asked.name, address=asked.address, metadata=metadata
    )
    return _status(published)


async def remove_endpoint(call: Call[EndpointRemoveRequest, Nothing]) -> Changed:
    """Take back what a running attempt has published; doing it twice is harmless."""
    asked = call.body
    fence = call.fence_of(asked)
    return Changed(await endpoints.remove_endpoint(call.runtime.ledger, fence, asked.name))


async def list_endpoints(call: Call[None, EndpointListQuery]) -> EndpointPage:
    """List what running attempts have published, by name."""
    asked = call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, EndpointToken)
    after = "" if token is None else token.name
    async with call.runtime.reads.transaction() as tx:
        page = await endpoints.list_endpoints(
            tx, asked.name or "", after=after, page_size=page_size
        )
    following = None if page.next_after is None else EndpointToken(page.next_after)
    return EndpointPage([_status(row) for row in page.rows], write_token(following))


async def show_endpoint(call: Call[None, Nothing]) -> EndpointStatus:
    """Look up a name; 404 unless the attempt that has published it runs."""
    async with call.runtime.reads.transaction() as tx:
        return _status(await endpoints.get_endpoint(tx, call.path["name"]))


def _status(row: Published) -> EndpointStatus:
    return EndpointStatus(
        name=row.name,
        address=row.address,
        task_id=str(TaskId(row.job_id, row.task_index)),
        attempt=row.attempt,
        registered_at_ms=to_ms(row.registered_at),
        metadata=None if row.metadata is None else msgspec.json.decode(row.metadata),
    )


_CONFLICT = {409: ErrorAnswer}
ROUTES = (
    Route(
        "POST",
        REGISTER_PATH,
        register_endpoint,
        EndpointStatus,
        Role.WORKER,
        body=EndpointRegisterRequest,
        also=_CONFLICT,
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.LIVE,
    ),
    Route(
        "POST",
        REMOVE_PATH,
        remove_endpoint,
        Changed,
        Role.WORKER,
        body=EndpointRemoveRequest,
        also=_CONFLICT,
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.LIVE,
    ),
    Route("GET", LIST_PATH, list_endpoints, EndpointPage, Role.READ, query=EndpointListQuery),
    Route(
        "GET",
        f"{LIST_PATH}/{{name:path}}",
        show_endpoint,
        EndpointStatus,
        Role.READ,
        attempt=AttemptMay.LIVE,
    ),
)
