"""The public keys of an identity provider, at hand, so that no request waits for it.

They are read again every few minutes, and when somebody shows a JWT of a key that is not known: the
provider may have changed its key a moment ago. That happens at a bounded rate, whoever asks.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key

from holdfast.errors import Unauthenticated, Unavailable

log = logging.getLogger("holdfast.identity")
READ_SECONDS = 300.0
# However many JWTs of unknown keys come: the provider is asked no more often than this.
LOOK_SECONDS_MIN = 10.0
KEYS_MAX = 100
_PAIRS = ("RSA", "EC")


class IssuerKeys:
    """Keys by their ids; `changes` counts how often they have been others than before."""

    def __init__(self, fetch: Callable[[], Awaitable[list[Any]]]) -> None:
        self._fetch = fetch
        self._keys: dict[str | None, Key] = {}
        self._told: list[Any] | None = None
        self._asked_at = -inf
        self._asking = asyncio.Lock()
        self.changes = 0

    async def find(self, key_id: str | None) -> Key:
        """Find a key by its id, or the only one; raises Unauthenticated, or Unavailable."""
        key = self._keys.get(key_id)
        if key is None:
            await self._look_again()
            key = self._keys.get(key_id)
        if key is None:
            raise Unauthenticated(f"this JWT is signed by a key that is unknown: {key_id!r}")
        return key

    async def read(self) -> int:
        """Read the keys again; if the provider is away, those that are known stay in use."""
        async with self._asking:
            try:
                await self._read()
            except Unavailable as error:
                log.warning("%s", error)
        return 0

    async def _look_again(self) -> None:
        came_at = time.monotonic()
        async with self._asking:
            if self._asked_at > came_at:
                return  # somebody has asked while this one waited
            if came_at - self._asked_at >= LOOK_SECONDS_MIN:
                await self._read()
            elif self._told is None:
                raise Unavailable("the keys of the identity provider could not be read; see later")

    async def _read(self) -> None:
        self._asked_at = time.monotonic()
        told = await self._fetch()
        if told != self._told:
            # By none nobody was let in: the first ones are no change for anybody.
            self.changes += self._told is not None
            self._told, self._keys = told, _import(told)


def _import(told: list[Any]) -> dict[str | None, Key]:
    """Take the keys that signatures can be checked with; what is not understood is left out."""
    keys: dict[str | None, Key] = {}
    for each in told[:KEYS_MAX]:
        if not isinstance(each, dict) or each.get("kty") not in _PAIRS:
            continue
        if each.get("use", "sig") != "sig":
            continue
        try:
            key = JWKRegistry.import_key(each)
        except (JoseError, ValueError) as error:
            log.warning("a key of the identity provider cannot be used: %s", error)
            continue
        key_id = each.get("kid")
        keys[key_id if isinstance(key_id, str) else None] = key
    if len(keys) == 1:
        # A JWT that names none can be of no other.
        keys[None] = next(iter(keys.values()))
    return keys
