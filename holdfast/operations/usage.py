"""Note what attempts have used, and what their builds took, as their workers report it.

While an attempt runs, a later report replaces an earlier one. What its end says stays.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.store.tables.work import attempts
from holdfast.store.tables.work.attempts import AttemptUsage

USAGE_BYTES_MAX = 16 << 10

_encode = msgspec.json.Encoder().encode


class Usage(NamedTuple):
    """What an attempt has used, in all or so far, and what its build took."""

    fence: Fence
    usage: dict[str, Any] | None
    build: dict[str, Any] | None = None
    is_final: bool = True


async def note_usage(ledger: Ledger, reported: Sequence[Usage]) -> None:
    """Note usage and builds; what is final already stays, and what cannot be kept is left out."""
    used = {
        fence[:2]: AttemptUsage(
            fence.task_id,
            fence.attempt,
            usage=_json(usage),
            build=_json(build),
            is_final=is_final,
        )
        for fence, usage, build, is_final in reported
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
