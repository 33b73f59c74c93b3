"""The routes for functions: workers announce them, others see how their jobs will run."""

from typing import Annotated

import msgspec

from holdfast.api.attempts import AttemptMay
from holdfast.api.convert import to_ms
from holdfast.api.page_tokens import PageToken, check_page_size, read_token, write_token
from holdfast.api.route import Call, Narrowing, Route
from holdfast.errors import NotFound
from holdfast.model.access.callers import Caller
from holdfast.model.access.roles import Role
from holdfast.operations.announce import (
    PATH_LENGTH_MAX,
    announce,
    find_announced,
    list_announced,
)
from holdfast.store.tables.workers.functions import StoredFunction
from holdfast.wire.functions import (
    ANNOUNCE_PATH,
    LIST_PATH,
    AnnounceAnswer,
    AnnounceRequest,
    FunctionListQuery,
    FunctionPage,
    FunctionStatus,
)
from holdfast.wire.requests import Nothing


class FunctionToken(PageToken, frozen=True):
    """A function."""

    path: Annotated[str, msgspec.Meta(max_length=PATH_LENGTH_MAX, pattern=r"^[^\x00]*$")]


async def announce_functions(call: Call[AnnounceRequest, Nothing]) -> AnnounceAnswer:
    """Keep which functions a worker has, and with which options their jobs run."""
    asked, runtime = call.body, call.runtime
    await runtime.credentials.check(call.headers, asked.worker_id)
    made = await announce(
        runtime.ledger, asked.worker_id, asked.functions, queues=call.caller.queues
    )
    return AnnounceAnswer(made.changed, made.refused)


async def list_functions(call: Call[None, FunctionListQuery]) -> FunctionPage:
    """List the functions that workers have announced, by path."""
    asked = call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, FunctionToken)
    after = "" if token is None else token.path
    found = await list_announced(call.runtime.ledger, after=after, count_max=page_size)
    following = FunctionToken(found[-1].path) if len(found) == page_size else None
    shown = [status for status in map(_status, found) if _is_shown(status, call.caller)]
    return FunctionPage(shown, write_token(following))


async def show_function(call: Call[None, Nothing]) -> FunctionStatus:
    """Show a function that workers have announced."""
    path = call.path["function"]
    found = await find_announced(call.runtime.ledger, path)
    if found is None or not _is_shown(_status(found), call.caller):
        raise NotFound("announced function", path)
    status = _status(found)
    if call.caller.attempt is None:
        return status
    options = msgspec.structs.replace(status.options, environment={})
    return msgspec.structs.replace(status, options=options)


def _is_shown(function: FunctionStatus, caller: Caller) -> bool:
    """Tell whether a caller may see a function: its environment is for those of its queue."""
    return not caller.queues or function.options.queue in caller.queues


def _status(stored: StoredFunction) -> FunctionStatus:
    return FunctionStatus(
        **msgspec.structs.asdict(stored.read()),
        announced_by=stored.announced_by,
        changed_at_ms=to_ms(stored.changed_at),
        last_seen_at_ms=to_ms(stored.last_seen_at),
    )


ROUTES = (
    Route(
        "POST",
        ANNOUNCE_PATH,
        announce_functions,
        AnnounceAnswer,
        Role.WORKER,
        body=AnnounceRequest,
        narrowing=Narrowing.FUNCTION,
    ),
    Route(
        "GET",
        LIST_PATH,
        list_functions,
        FunctionPage,
        Role.CONTENT,
        query=FunctionListQuery,
        narrowing=Narrowing.FUNCTION,
    ),
    Route(
        "GET",
        f"{LIST_PATH}/{{function:path}}",
        show_function,
        FunctionStatus,
        Role.CONTENT,
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.LIVE,
    ),
)
