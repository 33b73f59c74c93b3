"""The table of tokens. Secrets come here as hashes."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.store.database import Database, Transaction
from holdfast.store.statements import load_statements

_TOKENS = load_statements("access/tokens")


class TokenRow(NamedTuple):
    """A token as people see it."""

    token_id: str
    name: str
    roles: list[str]
    owners: list[str]
    queues: list[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    last_used_at: datetime | None


class LivingToken(NamedTuple):
    """A token as servers check it."""

    token_id: str
    name: str
    secret_hash: bytes
    previous_hash: bytes | None
    previous_until: datetime | None
    roles: list[str]
    owners: list[str]
    queues: list[str]
    expires_at: datetime | None


class NamedToken(NamedTuple):
    """A token by both its names."""

    token_id: str
    name: str


async def add_token(
    tx: Transaction,
    *,
    token_id: str,
    name: str,
    secret_hash: bytes,
    roles: Sequence[str],
    owners: Sequence[str],
    queues: Sequence[str],
    created_by: str,
    expires_at: datetime | None,
) -> bool:
    """Add a token; False if one of that name is there and not revoked."""
    row = await tx.fetch_one(
        _TOKENS["add_token"],
        token_id=token_id,
        name=name,
        secret_hash=secret_hash,
        roles=list(roles),
        owners=list(owners),
        queues=list(queues),
        created_by=created_by,
        expires_at=expires_at,
    )
    return row is not None


async def count_living_tokens(tx: Transaction) -> int:
    """Count the tokens that may be used now."""
    [[count]] = await tx.fetch(_TOKENS["count_living_tokens"])
    return int(count)


async def list_tokens(tx: Transaction, *, with_revoked: bool, batch_max: int) -> list[TokenRow]:
    """List tokens by name, those that were revoked if asked for."""
    rows = await tx.fetch(_TOKENS["list_tokens"], with_revoked=with_revoked, batch_max=batch_max)
    return [TokenRow(*row) for row in rows]


async def read_living_tokens(database: Database) -> list[LivingToken]:
    """Read every token that may be used now."""
    rows = await database.fetch(_TOKENS["read_living_tokens"])
    return [LivingToken(*row) for row in rows]


async def rotate_token(
    tx: Transaction, token: str, *, secret_hash: bytes, grace: timedelta
) -> NamedToken | None:
    """Give a living token, by id or name, another secret; returns which, if it is there."""
    row = await tx.fetch_one(
        _TOKENS["rotate_token"], token=token, secret_hash=secret_hash, grace=grace
    )
    return None if row is None else NamedToken(*row)


async def revoke_token(tx: Transaction, token: str, *, revoked_by: str) -> NamedToken | None:
    """Revoke a token, by id or name; returns which, if it was not revoked before."""
    row = await tx.fetch_one(_TOKENS["revoke_token"], token=token, revoked_by=revoked_by)
    return None if row is None else NamedToken(*row)


async def note_tokens_used(database: Database, token_ids: Sequence[str]) -> int:
    """Note that tokens have been used just now."""
    return len(await database.fetch(_TOKENS["note_tokens_used"], token_ids=list(token_ids)))
