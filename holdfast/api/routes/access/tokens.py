"""The routes of tokens: made, listed, rotated and revoked, by admins."""

import math
from datetime import timedelta

from holdfast.api.route import Call, Reply, Route
from holdfast.errors import Invalid
from holdfast.model.access.roles import Role
from holdfast.operations import tokens
from holdfast.operations.tokens import WantedToken
from holdfast.wire.requests import Nothing
from holdfast.wire.status import Changed
from holdfast.wire.tokens import (
    LIST_PATH,
    MadeToken,
    RotateRequest,
    TokenList,
    TokenListQuery,
    TokenRequest,
    TokenStatus,
)

SECONDS_MAX = 1e9


async def list_tokens(call: Call[None, TokenListQuery]) -> TokenList:
    """List tokens by name; their secrets are not known here."""
    rows = await tokens.list_tokens(call.runtime.reads, with_revoked=call.query.revoked)
    return TokenList([TokenStatus(**row._asdict()) for row in rows])


async def create_token(call: Call[TokenRequest, Nothing]) -> Reply:
    """Make a token; its text is told here, and never again."""
    asked = call.body
    if asked.expires_at is not None and asked.expires_at.tzinfo is None:
        raise Invalid("expires_at", "names no zone; write it like 2027-01-31T00:00:00Z")
    wanted = WantedToken(
        asked.name, tuple(asked.roles), tuple(asked.owners), tuple(asked.queues), asked.expires_at
    )
    made = await tokens.create_token(call.runtime.ledger.database, wanted, actor=call.actor)
    return Reply(MadeToken(made.token_id, made.text), 201)


async def rotate_token(call: Call[RotateRequest, Nothing]) -> MadeToken:
    """Give a token, by name or id, another secret; the old one may be used for a while."""
    seconds = call.body.grace_seconds
    if not math.isfinite(seconds) or abs(seconds) > SECONDS_MAX:
        raise Invalid("grace_seconds", f"is {seconds:g}, which is no time to wait")
    made = await tokens.rotate_token(
        call.runtime.ledger.database,
        call.path["token"],
        grace=timedelta(seconds=seconds),
        actor=call.actor,
    )
    return MadeToken(made.token_id, made.text)


async def revoke_token(call: Call[Nothing, Nothing]) -> Changed:
    """Take a token, by name or id, out of use for ever."""
    database = call.runtime.ledger.database
    await tokens.revoke_token(database, call.path["token"], actor=call.actor)
    return Changed(True)


ROUTES: tuple[Route, ...] = (
    Route("GET", LIST_PATH, list_tokens, TokenList, Role.ADMIN, query=TokenListQuery),
    Route(
        "POST",
        LIST_PATH,
        create_token,
        None,
        Role.ADMIN,
        body=TokenRequest,
        also={201: MadeToken},
    ),
    Route(
        "POST",
        f"{LIST_PATH}/{{token}}:rotate",
        rotate_token,
        MadeToken,
        Role.ADMIN,
        body=RotateRequest,
    ),
    Route("POST", f"{LIST_PATH}/{{token}}:revoke", revoke_token, Changed, Role.ADMIN, body=Nothing),
)
