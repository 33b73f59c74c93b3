"""What the namespaces of a client share."""

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from holdfast.client.both import LoopThread
from holdfast.client.functions.arguments import encode_input
from holdfast.model.work.outcomes import CancelMode
from holdfast.wire.requests import CancelRequest
from holdfast.wire.status import Changed

if TYPE_CHECKING:
    from holdfast.client.client import Client


class Namespace:
    """The calls of a client about one subject. Methods block; each has an `.aio`."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    @property
    def loop_thread(self) -> LoopThread:
        """Where calls to the server run."""
        return self._client.loop_thread

    async def _cancel(
        self, path: str, mode: CancelMode, reason: str, *, idempotency_key: str | None
    ) -> bool:
        body = CancelRequest(mode, reason, repeatable(idempotency_key))
        return (await self._client.change(f"{path}:cancel", body, Changed)).changed

    def _encode(self, value: Any, field: str) -> msgspec.Raw:
        text, codec = encode_input(value, field), self._client.codec
        return text if codec is None else codec.encode(bytes(text))


def repeatable(idempotency_key: str | None) -> str:
    """Give a request a key if it has none: one whose answer got lost can be sent again."""
    return idempotency_key or f"auto-{uuid4()}"
