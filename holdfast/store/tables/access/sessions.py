"""The table of sessions. Secrets come here as hashes."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.store.database import Database, Transaction
from holdfast.store.statements import load_statements

_SESSIONS = load_statements("access/sessions")


class LivingSession(NamedTuple):
    """A session as servers check it: of a token, by one of its secrets, or of a subject."""

    secret_hash: bytes
    csrf_hash: bytes
    token_id: str | None
    token_hash: bytes | None
    subject: str | None
    roles: list[str]
    owners: list[str]
    expires_at: datetime


async def add_session(
    tx: Transaction,
    *,
    secret_hash: bytes,
    csrf_hash: bytes,
    token_id: str | None = None,
    token_hash: bytes | None = None,
    subject: str | None = None,
    roles: Sequence[str] = (),
    owners: Sequence[str] = (),
    lasts: timedelta,
) -> datetime:
    """Add a session; returns when it ends."""
    row = await tx.fetch_one(
        _SESSIONS["add_session"],
        secret_hash=secret_hash,
        csrf_hash=csrf_hash,
        token_id=token_id,
        token_hash=token_hash,
        subject=subject,
        roles=list(roles),
        owners=list(owners),
        lasts=lasts,
    )
    assert row is not None
    ends_at: datetime = row[0]
    return ends_at


async def count_sessions(tx: Transaction) -> int:
    """Count the sessions that are there."""
    [[count]] = await tx.fetch(_SESSIONS["count_sessions"])
    return int(count)


async def drop_past_sessions(tx: Transaction) -> int:
    """Drop sessions whose time is over."""
    return len(await tx.fetch(_SESSIONS["drop_past_sessions"]))


async def drop_oldest_sessions(
    tx: Transaction, *, token_id: str | None, subject: str | None, kept: int
) -> int:
    """Drop the sessions of a token or a subject, but for the newest."""
    dropped = await tx.fetch(
        _SESSIONS["drop_oldest_sessions"], token_id=token_id, subject=subject, kept=kept
    )
    return len(dropped)


async def drop_session(tx: Transaction, secret_hash: bytes) -> bool:
    """End a session; False if there is none."""
    row = await tx.fetch_one(_SESSIONS["drop_session"], secret_hash=secret_hash)
    return row is not None


async def read_living_sessions(database: Database) -> list[LivingSession]:
    """Read every session that has not ended."""
    rows = await database.fetch(_SESSIONS["read_living_sessions"])
    return [LivingSession(*row) for row in rows]
