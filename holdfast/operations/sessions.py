"""Log in and out at the dashboard. A session's secrets are told once, to the browser."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.errors import Overloaded
from holdfast.model.access.roles import Role
from holdfast.model.access.tokens import Presented, hash_secret, new_secret
from holdfast.store.database import Database
from holdfast.store.tables.access import sessions

# Long enough for a day of work; whoever comes back the next morning logs in again.
SESSION_LASTS = timedelta(hours=12)
# Every server keeps all of them at hand, as it does tokens.
SESSIONS_MAX = 5000
SESSIONS_PER_CALLER_MAX = 20


class SubjectLogin(NamedTuple):
    """Whom an identity provider knows, by what it says of him."""

    subject: str
    roles: Sequence[Role]
    owners: Sequence[str] = ()


class NewSession(NamedTuple):
    """What a browser is given: the secret of its cookie, and what it shows beside that."""

    secret: str
    csrf: str
    ends_at: datetime


class _Of(NamedTuple):
    """Whose a session is, as its row has it."""

    token_id: str | None = None
    token_hash: bytes | None = None
    subject: str | None = None
    roles: Sequence[str] = ()
    owners: Sequence[str] = ()


async def open_session(database: Database, login: Presented | SubjectLogin) -> NewSession:
    """Log somebody in; beyond a number of sessions his oldest one ends."""
    secret, csrf = new_secret(), new_secret()
    if isinstance(login, Presented):
        of = _Of(token_id=login.token_id, token_hash=login.secret_hash)
    else:
        of = _Of(subject=login.subject, roles=sorted(login.roles), owners=login.owners)
    async with database.transaction() as tx:
        await sessions.drop_past_sessions(tx)
        await sessions.drop_oldest_sessions(
            tx, token_id=of.token_id, subject=of.subject, kept=SESSIONS_PER_CALLER_MAX - 1
        )
        if await sessions.count_sessions(tx) >= SESSIONS_MAX:
            raise Overloaded(
                f"{SESSIONS_MAX} sessions are open, which is the limit; they end by themselves "
                f"within {SESSION_LASTS}"
            )
        ends_at = await sessions.add_session(
            tx,
            secret_hash=hash_secret(secret),
            csrf_hash=hash_secret(csrf),
            **of._asdict(),
            lasts=SESSION_LASTS,
        )
    return NewSession(secret, csrf, ends_at)


async def end_session(database: Database, secret_hash: bytes) -> bool:
    """Log out; other servers notice within seconds. False if there is no such session."""
    async with database.transaction() as tx:
        return await sessions.drop_session(tx, secret_hash)
