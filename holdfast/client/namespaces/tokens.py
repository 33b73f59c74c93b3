"""`client.tokens`: who may call the server, for admins."""

from collections.abc import Coroutine, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from holdfast.client.both import both
from holdfast.client.namespaces.namespace import Namespace
from holdfast.wire.requests import Nothing
from holdfast.wire.status import Changed
from holdfast.wire.tokens import (
    LIST_PATH,
    MadeToken,
    RotateRequest,
    TokenList,
    TokenListQuery,
    TokenRequest,
)


class Tokens(Namespace):
    """Tokens, by their names or ids."""

    @both
    def list(self, *, revoked: bool = False) -> Coroutine[Any, Any, TokenList]:
        """List tokens, those that were revoked if asked for."""
        return self._client.read(LIST_PATH, TokenList, query=TokenListQuery(revoked))

    @both
    def create(
        self,
        name: str,
        roles: Sequence[str],
        *,
        owners: Sequence[str] = (),
        queues: Sequence[str] = (),
        expires_at: datetime | None = None,
    ) -> Coroutine[Any, Any, MadeToken]:
        """Make a token; its text is told this once."""
        body = TokenRequest(name, [*roles], [*owners], [*queues], expires_at)
        return self._client.change(LIST_PATH, body, MadeToken)

    @both
    def rotate(self, token: str, *, grace_seconds: float = 0) -> Coroutine[Any, Any, MadeToken]:
        """Give a token another secret; the old one may be used for `grace_seconds` more."""
        body = RotateRequest(grace_seconds)
        return self._client.change(f"{_path(token)}:rotate", body, MadeToken)

    @both
    async def revoke(self, token: str) -> None:
        """Take a token out of use for ever."""
        await self._client.change(f"{_path(token)}:revoke", Nothing(), Changed)


def _path(token: str) -> str:
    return f"{LIST_PATH}/{quote(token, '@')}"
