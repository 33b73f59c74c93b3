"""Make, list, rotate and revoke tokens. A secret is told once, to whoever makes it."""

import re
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.errors import Invalid, NotFound, TooLarge
from holdfast.model.access.actions import ActionKind
from holdfast.model.access.roles import Role, is_for_own_jobs
from holdfast.model.access.tokens import (
    hash_secret,
    is_token_id,
    new_secret,
    new_token_id,
    write_token,
)
from holdfast.rules.submitting.submission import check_queue, check_text
from holdfast.store.database import Database
from holdfast.store.tables.access import tokens
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.access.tokens import NamedToken, TokenRow

# Every server keeps all of them at hand, and reads them again every few seconds.
TOKENS_MAX = 1000
LISTED_MAX = 10_000
NAMED_MAX = 100
TEXT_MAX = 256
# Said instead of owners: a token for the jobs of all of them.
ALL_OWNERS = "*"
# So the server names itself, whoever does not say who he is, and the owner of jobs without one.
OWN_NAMES = frozenset({"server", "api", "anonymous"})
GRACE_MAX = timedelta(days=30)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}", re.ASCII)


class WantedToken(NamedTuple):
    """What a new token is to be."""

    name: str
    roles: tuple[str, ...]
    owners: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    expires_at: datetime | None = None


class NewToken(NamedTuple):
    """A token's id, and its text, which nobody can read again."""

    token_id: str
    text: str


async def create_token(database: Database, wanted: WantedToken, *, actor: str) -> NewToken:
    """Make a token; its name belongs to it until it is revoked."""
    wanted = _with_owners(wanted)
    roles = _check(wanted)
    check_text("actor", actor, TEXT_MAX)
    token_id, secret = new_token_id(), new_secret()
    async with database.transaction() as tx:
        if await tokens.count_living_tokens(tx) >= TOKENS_MAX:
            problem = f"there are {TOKENS_MAX}, which is the limit; revoke what nobody uses"
            raise Invalid("tokens", problem)
        if wanted.expires_at is not None and wanted.expires_at <= await tx.now():
            raise Invalid("expires_at", f"{wanted.expires_at} is over; give a time to come")
        is_new = await tokens.add_token(
            tx,
            token_id=token_id,
            name=wanted.name,
            secret_hash=hash_secret(secret),
            roles=roles,
            owners=wanted.owners,
            queues=wanted.queues,
            created_by=actor,
            expires_at=wanted.expires_at,
        )
        if not is_new:
            problem = f"{wanted.name!r} is the name of a token; rotate or revoke it, or use another"
            raise Invalid("name", problem)
        facts = {"roles": roles, "owners": wanted.owners, "queues": wanted.queues}
        named = NamedToken(token_id, wanted.name)
        await record_actions(tx, [_action(actor, "create_token", named, **facts)])
    return NewToken(token_id, write_token(token_id, secret))


async def list_tokens(database: Database, *, with_revoked: bool) -> list[TokenRow]:
    """List tokens by name; of their secrets nothing is known."""
    async with database.transaction() as tx:
        return await tokens.list_tokens(tx, with_revoked=with_revoked, batch_max=LISTED_MAX)


async def rotate_token(database: Database, token: str, *, grace: timedelta, actor: str) -> NewToken:
    """Give a token, by name or id, another secret; the old one may be used for `grace` more."""
    if not timedelta(0) <= grace <= GRACE_MAX:
        most = int(GRACE_MAX.total_seconds())
        raise Invalid("grace_seconds", f"is {grace.total_seconds():g}; use 0 to {most}")
    check_text("actor", actor, TEXT_MAX)
    check_text("token", token, TEXT_MAX)
    secret = new_secret()
    async with database.transaction() as tx:
        rotated = await tokens.rotate_token(tx, token, secret_hash=hash_secret(secret), grace=grace)
        if rotated is None:
            raise NotFound("living token", token)
        await record_actions(tx, [_action(actor, "rotate_token", rotated)])
    return NewToken(rotated.token_id, write_token(rotated.token_id, secret))


async def revoke_token(database: Database, token: str, *, actor: str) -> None:
    """Take a token, by name or id, out of use for ever; servers notice within seconds."""
    check_text("actor", actor, TEXT_MAX)
    check_text("token", token, TEXT_MAX)
    async with database.transaction() as tx:
        revoked = await tokens.revoke_token(tx, token, revoked_by=actor)
        if revoked is None:
            raise NotFound("living token", token)
        await record_actions(tx, [_action(actor, "revoke_token", revoked)])


def _action(actor: str, kind: ActionKind, token: NamedToken, **facts: Any) -> NewAction:
    """Tell of what was done to a token: by its name, whatever it was called, and with its id."""
    return NewAction(actor, kind, "token", token.name, facts={"token_id": token.token_id, **facts})


def _with_owners(wanted: WantedToken) -> WantedToken:
    """Decide for whose jobs a token is: one that only submits is for those of its own name."""
    if ALL_OWNERS in wanted.owners:
        if len(wanted.owners) > 1:
            problem = f"has {ALL_OWNERS!r}, which is all of them, and others; give one or the other"
            raise Invalid("owners", problem)
        return wanted._replace(owners=())
    if not wanted.owners and is_for_own_jobs(set(wanted.roles)):
        return wanted._replace(owners=(wanted.name,))
    return wanted


def _check(wanted: WantedToken) -> list[Role]:
    if not _NAME.fullmatch(wanted.name):
        problem = f"{wanted.name!r} is none; use letters, digits and . _ @ -, 128 at most"
        raise Invalid("name", problem)
    if wanted.name in OWN_NAMES:
        problem = f"{wanted.name!r} is how Holdfast names itself or nobody; use another"
        raise Invalid("name", problem)
    if is_token_id(wanted.name):
        raise Invalid("name", f"{wanted.name!r} looks like the id of a token; use a word")
    known = ", ".join(Role)
    for role in wanted.roles:
        if role not in set(Role):
            raise Invalid("roles", f"{role!r} is unknown; use one of {known}")
    if not wanted.roles:
        raise Invalid("roles", f"is empty; give one of {known}")
    for field, names in (("owners", wanted.owners), ("queues", wanted.queues)):
        if len(names) > NAMED_MAX:
            raise TooLarge(field, len(names), NAMED_MAX, unit="names")
    for owner in wanted.owners:
        if not owner:
            raise Invalid("owners", "has an empty name; leave it out for a token of all owners")
        check_text("owners", owner, TEXT_MAX)
    for queue in wanted.queues:
        check_queue(queue)
    roles = sorted({Role(role) for role in wanted.roles})
    if wanted.owners and Role.ADMIN in roles:
        problem = "goes without the role admin, which is for all jobs; give the role submit"
        raise Invalid("owners", problem)
    if wanted.owners and Role.WORKER in roles:
        problem = "goes without the role worker, which runs what its queues hold; give queues"
        raise Invalid("owners", problem)
    return roles
