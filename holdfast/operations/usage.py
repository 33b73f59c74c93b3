"""Note what attempts have used, and what their builds took, as their workers report it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.ledger.ledger import Ledger
from holdfast.model.fence import Fence
from holdfast.store.tables import attempts
from holdfast.store.tables.attempts import AttemptUsage

USAGE_BYTES_MAX = 16 << 10
# An attempt, what it has used, and what its build took.
Usage = tuple[Fence, dict[str, Any] | None, dict[str, Any] | None]

_encode = msgspec.json.Encoder().encode


async def note_usage(ledger: Ledger, reported: Sequence[Usage]) -> None:
    """Note usage and builds; what is noted already stays, and what cannot be kept is left out."""
    used = {
        fence[:2]: AttemptUsage(
            fence.task_id, fence.attempt, usage=_json(usage), build=_json(build)
        )
        for fence, usage, build in reported
        if (usage or build) and _can_be_kept(usage, build)
    }
    if used:
        async with ledger.database.transaction() as tx:
            await attempts.keep_usage(tx, [used[attempt] for attempt in sorted(used)])


def _can_be_kept(usage: dict[str, Any] | None, build: dict[str, Any] | None) -> bool:
    text = _encode((usage, build))
    return len(text) <= USAGE_BYTES_MAX and b"\\u0000" not in text


def _json(value: dict[str, Any] | None) -> str | None:
    return _encode(value).decode() if value else None
