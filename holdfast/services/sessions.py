"""The sessions that last now, by the hashes of their secrets; read along with the tokens."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.errors import NotAllowed
from holdfast.model.access.callers import Caller
from holdfast.model.access.roles import Role, is_for_own_jobs, with_implied
from holdfast.model.access.tokens import hash_secret
from holdfast.store.tables.access.sessions import LivingSession

CSRF_HEADER = b"holdfast-csrf"
# They change nothing, so that a page of another site gains nothing by having a browser send them.
_SAFE = ("GET", "HEAD")


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """Somebody who is logged in, and the token that he has shown, if it was one."""

    row: LivingSession
    caller: Caller
    token: Caller | None

    def check(self, method: str, csrf: bytes) -> None:
        """Refuse what would change something unless a page of our own has asked for it."""
        if method in _SAFE:
            return
        if not hmac.compare_digest(hash_secret(csrf.decode("latin-1")), self.row.csrf_hash):
            raise NotAllowed(
                "a session changes something only with the header Holdfast-Csrf, which was told "
                "at its login; programs show a token instead",
                lacks="the header Holdfast-Csrf",
            )


class Sessions:
    """All sessions of the ledger, as of the last reading."""

    def __init__(self) -> None:
        self._living: dict[bytes, Session] = {}

    def find(self, secret: str) -> Session | None:
        """Find a session by its secret."""
        return self._living.get(hash_secret(secret))

    def take(
        self, rows: list[LivingSession], find_token: Callable[[str, bytes], Caller | None]
    ) -> None:
        """Take what was read; sessions that have ended, or lost their token, are over."""
        before, self._living = self._living, {}
        for row in rows:
            token = None
            if row.token_id is not None and row.token_hash is not None:
                token = find_token(row.token_id, row.token_hash)
                if token is None:
                    continue
            known = before.get(row.secret_hash)
            if known is not None and known.row == row and known.token is token:
                self._living[row.secret_hash] = before.pop(row.secret_hash)
            else:
                self._living[row.secret_hash] = Session(row, _caller(row, token), token)
        for gone in before.values():
            gone.caller.is_over = True


def _caller(row: LivingSession, token: Caller | None) -> Caller:
    ends_at = row.expires_at.timestamp()
    if token is not None:
        return replace(token, ends_at=min(ends_at, token.ends_at), is_over=False, is_used=False)
    assert row.subject is not None
    roles = with_implied(Role(role) for role in row.roles)
    owners = frozenset(row.owners)
    if not owners and is_for_own_jobs(roles):
        owners = frozenset({row.subject})  # it was opened by a server that did not say so yet
    return Caller(row.subject, roles, owners, ends_at=ends_at)
