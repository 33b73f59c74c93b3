"""Who calls a server that asks for tokens: those that may be used are at hand, so that no request
waits for Postgres; so are the sessions of browsers (`holdfast.services.sessions`). Whoever an
identity provider knows shows a JWT in a token's place (`holdfast.services.identity`).

A header that was found good is known by its own bytes from then on, and costs one look into a dict.
That tells nobody anything: Python's hash of bytes is keyed anew in every process, and the bytes
themselves are compared only where all 64 bits of it agree. Only good headers are kept, and none
for longer than its token lives. What is not known yet is hashed, and compared in constant time.
"""

import asyncio
import hmac
import time
from collections import deque
from collections.abc import Mapping
from math import inf

from holdfast.errors import Overloaded, Unauthenticated
from holdfast.model.access.callers import Caller
from holdfast.model.access.cookies import find_secret
from holdfast.model.access.roles import Role, with_implied
from holdfast.model.access.tokens import Presented, is_jwt, parse_token
from holdfast.services.identity.provider import IdentityProvider, Returned
from holdfast.services.sessions import CSRF_HEADER, Session, Sessions
from holdfast.store.database import Database
from holdfast.store.tables.access.sessions import LivingSession, read_living_sessions
from holdfast.store.tables.access.tokens import LivingToken, note_tokens_used, read_living_tokens

READ_SECONDS = 2.0
NOTE_SECONDS = 60.0
# However many strangers come: the table is read no more often than this because of them.
LOOK_SECONDS_MIN = 0.25
REFUSED_MAX = 1024
# Of JWTs there are as many as people; beyond this they are checked anew.
KNOWN_MAX = 8192
# Logins that may fail within so many seconds; a token that is known is let in all the same.
FAILURES_MAX = 20
FAILURES_SECONDS = 10.0
SCHEME = b"bearer "
_LACKS = "send `Authorization: Bearer hf_...`; clients take it from HOLDFAST_TOKEN or --token-file"


class Callers:
    """The tokens that may be used now, by the callers that show them."""

    def __init__(self, database: Database, provider: IdentityProvider | None = None) -> None:
        self._database = database
        self.provider = provider
        self._rows: list[LivingToken] = []
        # By token id: each secret that counts, as its hash, and whom it stands for.
        self._secrets: dict[str, list[tuple[bytes, Caller]]] = {}
        self._known: dict[bytes, Caller] = {}
        self._read_at = -inf
        self._reading = asyncio.Lock()
        self._looking = asyncio.Lock()
        # What was refused stays so: ids and secrets are random, and none comes back.
        self._refused: set[bytes] = set()
        self._session_rows: list[LivingSession] = []
        self._sessions = Sessions()
        # Apart, so that wrong tokens keep nobody from his identity provider.
        self._token_failures: deque[float] = deque(maxlen=FAILURES_MAX)
        self._return_failures: deque[float] = deque(maxlen=FAILURES_MAX)
        self._key_changes = 0

    async def identify(self, headers: Mapping[bytes, bytes], method: str = "GET") -> Caller:
        """Say who calls, by a token, or else by a session; raises Unauthenticated, NotAllowed."""
        header = headers.get(b"authorization", b"")
        if not header and b"cookie" in headers:
            session = await self.find_session(headers)
            if session is not None:
                session.check(method, headers.get(CSRF_HEADER, b""))
                return session.caller
        caller = self._known.get(header)
        if caller is None:
            caller = await self._find(header)
            if len(self._known) >= KNOWN_MAX:
                self._forget(has_room=False)
            self._known[header] = caller
        if caller.ends_at <= time.time():
            caller.is_over = True
            raise _invalid()
        caller.is_used = True
        return caller

    async def find_session(self, headers: Mapping[bytes, bytes]) -> Session | None:
        """Find the session of a browser; None if it has none that lasts."""
        secret = find_secret(headers.get(b"cookie", b""))
        if secret is None:
            return None
        session = self._sessions.find(secret)
        shown = secret.encode()
        if session is None and shown not in self._refused:
            await self._look_again()  # it may have been opened at another server
            session = self._sessions.find(secret)
            if session is None:
                self._refuse(shown)
        if session is None or session.caller.ends_at <= time.time():
            return None
        if session.token is not None:
            session.token.is_used = True
        return session

    async def check_login(self, text: str) -> Presented:
        """Find the token that somebody logs in with.

        Raises Unauthenticated, Overloaded, or NotAllowed where it could see nothing.
        """
        shown = parse_token(text)
        known = None if shown is None else self._match(*shown)
        if known is None or known.ends_at <= time.time():
            _check_failures(self._token_failures)
            try:
                header = SCHEME + text.encode("latin-1", "replace")
                known = await self.identify({b"authorization": header})
            except Unauthenticated:
                self._token_failures.append(time.monotonic())
                raise
        if shown is None:
            raise Unauthenticated("a JWT does not log in here; use a token of Holdfast")
        known.check_role(Role.READ, "the dashboard")
        return shown

    async def check_return(self, returned: Returned) -> Caller:
        """Find out whom an identity provider sends; raises Unauthenticated, Overloaded."""
        if self.provider is None:
            raise Unauthenticated("this server knows no identity provider; log in by a token")
        _check_failures(self._return_failures)
        try:
            return await self.provider.finish(returned)
        except Unauthenticated:
            self._return_failures.append(time.monotonic())
            raise

    async def read(self) -> int:
        """Read tokens and sessions again; whoever has shown one that is gone is a stranger."""
        async with self._reading:
            began_at = time.monotonic()
            rows = await read_living_tokens(self._database)
            sessions = await read_living_sessions(self._database)
            self._read_at = began_at
            if rows != self._rows or sessions != self._session_rows:
                if rows != self._rows:
                    self._take(rows)
                self._sessions.take(sessions, self._match)
                self._session_rows = sessions
        self._forget()
        return 0

    async def note_used(self) -> int:
        """Write down which tokens have been used since the last time."""
        used = [caller for caller in self._list() if caller.is_used]
        for caller in used:
            caller.is_used = False
        if used:
            await note_tokens_used(self._database, sorted({caller.token_id for caller in used}))
        return 0

    async def _find(self, header: bytes) -> Caller:
        if not header:
            raise Unauthenticated(f"this server asks for a token; {_LACKS}")
        scheme, shown_text = header[: len(SCHEME)], header[len(SCHEME) :]
        text = shown_text.decode("latin-1") if scheme.lower() == SCHEME else ""
        if self.provider is not None and is_jwt(text):
            return await self.provider.identify(text)
        shown = parse_token(text)
        if shown is None:
            raise Unauthenticated(f"Authorization: is not a bearer token of Holdfast; {_LACKS}")
        caller = self._match(*shown)
        if caller is None and header not in self._refused:
            await self._look_again()  # it may have been made a moment ago
            caller = self._match(*shown)
        if caller is None:
            self._refuse(header)
            raise _invalid()
        return caller

    def _refuse(self, shown: bytes) -> None:
        if len(self._refused) >= REFUSED_MAX:
            self._refused.clear()
        self._refused.add(shown)

    def _forget(self, *, has_room: bool = True) -> None:
        """End whoever has shown a JWT that is over; all of them, if keys have changed since."""
        if self.provider is None:
            return
        changes = self.provider.keys.changes
        keeps, self._key_changes = has_room and changes == self._key_changes, changes
        now = time.time()
        for caller in self._known.values():
            if not caller.token_id and not (keeps and caller.ends_at > now):
                caller.is_over = True
        self._known = {
            header: caller for header, caller in self._known.items() if not caller.is_over
        }

    async def _look_again(self) -> None:
        """Wait for a reading that begins from here on; all who come meanwhile share one."""
        came_at = time.monotonic()
        async with self._looking:
            if self._read_at < came_at:
                await asyncio.sleep(max(self._read_at + LOOK_SECONDS_MIN - came_at, 0))
                await self.read()

    def _match(self, token_id: str, secret_hash: bytes) -> Caller | None:
        for expected, caller in self._secrets.get(token_id, ()):
            if hmac.compare_digest(expected, secret_hash):
                return caller
        return None

    def _take(self, rows: list[LivingToken]) -> None:
        unchanged = set(map(_key, self._rows)) & set(map(_key, rows))
        before, self._secrets = self._secrets, {}
        for row in rows:
            if _key(row) in unchanged:
                self._secrets[row.token_id] = before.pop(row.token_id)
            else:
                self._secrets[row.token_id] = _secrets_of(row)
        # Streams that were opened by what has changed or is gone end.
        for secrets in before.values():
            for _, caller in secrets:
                caller.is_over = True
        self._rows = rows
        self._known = {
            header: caller for header, caller in self._known.items() if not caller.is_over
        }

    def _list(self) -> list[Caller]:
        return [caller for secrets in self._secrets.values() for _, caller in secrets]


def _check_failures(failures: deque[float]) -> None:
    """Refuse to look a login up where too many of its kind have failed just now."""
    began_at = time.monotonic() - FAILURES_SECONDS
    if len(failures) >= FAILURES_MAX and failures[0] > began_at:
        raise Overloaded("too many logins have failed just now; try again in some seconds")


def _invalid() -> Unauthenticated:
    return Unauthenticated(
        "this token is unknown, revoked or over its time; an admin sees with `holdfast tokens "
        "list` which, and makes another"
    )


def _key(row: LivingToken) -> str:
    return repr(row)


def _secrets_of(row: LivingToken) -> list[tuple[bytes, Caller]]:
    """Make the callers of a token: one for each of its secrets."""
    ends_at = inf if row.expires_at is None else row.expires_at.timestamp()
    secrets = [(row.secret_hash, _caller(row, ends_at))]
    if row.previous_hash is not None and row.previous_until is not None:
        until = min(ends_at, row.previous_until.timestamp())
        secrets.append((row.previous_hash, _caller(row, until)))
    return secrets


def _caller(row: LivingToken, ends_at: float) -> Caller:
    return Caller(
        row.name,
        with_implied(Role(role) for role in row.roles),
        frozenset(row.owners),
        frozenset(row.queues),
        row.token_id,
        ends_at,
    )
