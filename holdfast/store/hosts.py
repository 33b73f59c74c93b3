"""Where a URL leads: one host, or several of which one is the primary.

The driver knows of several hosts too, but has one time-out for all of them together. A primary
whose machine is gone answers nothing at all and would use it up, so that its standby would never
be asked. So each host is asked by itself, the one that answered last first.
"""

import os
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from holdfast.model.addresses import postgres_places

HOST_SECONDS_MAX = 5.0
ATTRIBUTES = "target_session_attrs"
ATTRIBUTES_VARIABLE = "PGTARGETSESSIONATTRS"
PRIMARY = "read-write"
# The driver compares all hosts to find out whether any of them is a standby.
ASKED_TOGETHER = ("prefer-standby",)
# Whoever says this may be right a moment later; the next host is asked meanwhile.
_NOT_THIS_ONE = (
    OSError,
    asyncpg.CannotConnectNowError,
    asyncpg.PostgresConnectionError,  # it hung up, as a proxy before a dead Postgres does
    asyncpg.TargetServerAttributeNotMatched,
    asyncpg.TooManyConnectionsError,
)


class Hosts:
    """The hosts that a URL names."""

    def __init__(self, url: str, *, seconds_max: float = HOST_SECONDS_MAX) -> None:
        self._url = url
        self._seconds_max = seconds_max
        self._places = postgres_places(url)
        asked = dict(parse_qsl(urlsplit(url).query)).get(ATTRIBUTES)
        # Of several hosts the one that takes writes is meant, unless something else is said.
        self._wanted = asked or os.environ.get(ATTRIBUTES_VARIABLE) or PRIMARY

    async def connect(self, *_: Any, **how: Any) -> Any:
        """Connect to the first that answers and is what is wanted; raises what the last one said.

        The pool hands the URL over as well, which is known here.
        """
        if len(self._places) < 2 or self._wanted in ASKED_TOGETHER:
            return await asyncpg.connect(self._url, **how)
        last_error: Exception | None = None
        for place in list(self._places):
            try:
                connection = await self._connect_to(place, how)
            except _NOT_THIS_ONE as error:
                last_error = error
                continue
            self._places.remove(place)
            self._places.insert(0, place)
            return connection
        assert last_error is not None
        raise last_error

    async def _connect_to(self, place: tuple[str, str], how: dict[str, Any]) -> Any:
        host, port = place
        chosen: dict[str, Any] = {"target_session_attrs": self._wanted, **how}
        # The pool's time-out would be that of all hosts together.
        chosen["timeout"] = self._seconds_max
        return await asyncpg.connect(self._url, host=host, port=int(port), **chosen)
