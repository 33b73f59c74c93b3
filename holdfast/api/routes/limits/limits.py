"""The routes of limits of use: listed and shown to readers, set and deleted by admins."""

from typing import Annotated

import msgspec

from holdfast.api.attempts import AttemptMay
from holdfast.api.convert import ms, to_ms
from holdfast.api.page_tokens import PageToken, Text, check_page_size, read_token, write_token
from holdfast.api.route import Call, Narrowing, Route
from holdfast.model.access.roles import Role
from holdfast.model.limits.usage_limits import StoredLimit, UsageLimit
from holdfast.model.work.ids import TaskId
from holdfast.operations.usage_limits import delete, put, show, take
from holdfast.rules.limits.usage import BucketState, find_room
from holdfast.store.reads.limits.usage_limits import BucketRow, HolderRow, LimitUse
from holdfast.wire.answers import ErrorAnswer
from holdfast.wire.limits import (
    LIST_PATH,
    TAKE_PATH,
    LimitBucket,
    LimitChange,
    LimitDetail,
    LimitHolder,
    LimitListQuery,
    LimitPage,
    LimitQuery,
    LimitRequest,
    LimitStatus,
    LimitTakeRequest,
    LimitTurn,
)
from holdfast.wire.requests import Nothing
from holdfast.wire.status import Changed


class LimitToken(PageToken, frozen=True):
    """A limit."""

    name: Text


class BucketToken(PageToken, frozen=True):
    """A bucket of a limit."""

    value: Annotated[str, msgspec.Meta(max_length=show.VALUE_MAX, pattern=r"^[^\x00]*$")]


async def list_limits(call: Call[None, LimitListQuery]) -> LimitPage:
    """List limits by name: what they say, what is held of them, and how much waits for them."""
    size = check_page_size(call.query.page_size)
    token = read_token(call.query.page_token, LimitToken)
    after = "" if token is None else token.name
    found = await show.list_limits(call.runtime.reads, after=after, count_max=size + 1)
    page = found[:size]
    following = LimitToken(page[-1][0].name) if len(found) > size else None
    return LimitPage([_status(*each) for each in page], write_token(following))


async def show_limit(call: Call[None, LimitQuery]) -> LimitDetail:
    """Show a limit and its buckets: what is free, who holds their slots, and what waits."""
    asked = call.query
    size = check_page_size(asked.page_size)
    token = read_token(asked.page_token, BucketToken)
    found = await show.show_limit(
        call.runtime.reads,
        call.path["limit"],
        after="" if token is None else token.value,
        value=asked.value,
        count_max=size + 1,
    )
    page = found.buckets[:size]
    following = BucketToken(page[-1].value) if len(found.buckets) > size else None
    buckets = [_bucket(found, bucket) for bucket in page]
    return LimitDetail(_status(found.stored, found.use), buckets, write_token(following))


async def put_limit(call: Call[LimitRequest, Nothing]) -> LimitChange:
    """Set a limit for all that starts from now on; what runs goes on, also beyond it."""
    limit = UsageLimit(**msgspec.structs.asdict(call.body))
    found = await put.put_limit(call.runtime.ledger, call.path["limit"], limit, actor=call.actor)
    note = None
    if found.use.surplus:
        note = (
            f"{found.use.surplus} slots are held beyond the limit: nothing is ended, and nothing "
            "starts where they are until it fits"
        )
    return LimitChange(_status(found.stored, found.use), found.is_changed, note)


async def delete_limit(call: Call[None, Nothing]) -> Changed:
    """Delete a limit; what it held back is put in line again. Doing it twice is harmless."""
    ledger, name = call.runtime.ledger, call.path["limit"]
    return Changed(await delete.delete_limit(ledger, name, actor=call.actor))


async def take_limit(call: Call[LimitTakeRequest, Nothing]) -> LimitTurn:
    """Give a running attempt its turn at a rate, in the order in which they ask."""
    asked, fence = call.body, call.fence_of(call.body)
    wait = await take.take_turn(
        call.runtime.ledger, fence, asked.name, count=asked.count, patience=asked.patience
    )
    given = ("later" if wait.seconds else "at_once") if wait.is_granted else "too_late"
    call.runtime.metrics.count_turn(asked.name, given)
    return LimitTurn(wait.is_granted, wait.seconds)


def _status(stored: StoredLimit, use: LimitUse) -> LimitStatus:
    return LimitStatus(
        name=stored.name,
        **msgspec.structs.asdict(stored.limit),
        updated_at_ms=to_ms(stored.updated_at),
        updated_by=stored.updated_by,
        buckets=use.buckets,
        buckets_held=use.buckets_held,
        held=use.held,
        surplus=use.surplus,
        gated=use.gated,
    )


def _bucket(found: show.ShownLimit, bucket: BucketRow) -> LimitBucket:
    limit = found.stored.limit
    state = BucketState(bucket.held, bucket.tokens, bucket.filled_at, bucket.spent, bucket.oldest)
    room = find_room(limit, state, found.now)
    return LimitBucket(
        value=bucket.value,
        in_use=bucket.spent if limit.kind == "window" else bucket.held,
        free=room.free,
        gated=bucket.gated,
        next_at_ms=ms(room.next_at),
        holders=[_holder(holder) for holder in found.holders.get(bucket.bucket_id, [])],
    )


def _holder(row: HolderRow) -> LimitHolder:
    return LimitHolder(
        job_id=str(row.job_id),
        task_id=str(TaskId(row.job_id, row.task_index)),
        attempt_id=row.attempt,
        worker_id=row.worker_id,
        since_ms=to_ms(row.created_at),
        slots=row.slots,
    )


_ONE = f"{LIST_PATH}/{{limit}}"
ROUTES: tuple[Route, ...] = (
    Route("GET", LIST_PATH, list_limits, LimitPage, Role.READ, query=LimitListQuery),
    Route("GET", _ONE, show_limit, LimitDetail, Role.READ, query=LimitQuery),
    Route("PUT", _ONE, put_limit, LimitChange, Role.ADMIN, body=LimitRequest),
    Route("DELETE", _ONE, delete_limit, Changed, Role.ADMIN),
    Route(
        "POST",
        TAKE_PATH,
        take_limit,
        LimitTurn,
        Role.WORKER,
        body=LimitTakeRequest,
        also={409: ErrorAnswer},
        narrowing=Narrowing.FUNCTION,
        attempt=AttemptMay.LIVE,
    ),
)
