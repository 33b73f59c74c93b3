"""Idempotency keys: one change per key; whoever repeats the request gets the first answer.

The key is taken first in the change's own transaction, and its answer is kept before the commit. So
a second request under the same key waits for the first, and then finds its answer. A change that is
refused leaves no key behind. With a key or without: rows in others' hands are waited for.
"""

import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from holdfast.errors import Invalid, KeyReused, Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import LockTimeout, Transaction
from holdfast.store.tables.access import keys

Answer = TypeVar("Answer")
KEY_LENGTH_MAX = 256
# Each wait is as long as a transaction waits for a lock.
WAITS_MAX = 20


class RequestKey(NamedTuple):
    """What a caller calls one request: who may say so, the key, and what the request was."""

    scope: str
    key: str
    digest: bytes

    @property
    def action(self) -> str:
        """Name what was asked for under the key."""
        return self.scope.partition(":")[0]


def request_key(action: str, caller: str, key: str | None, *, request: Any) -> RequestKey | None:
    """Describe a request under a caller's key; None if it came without one."""
    if key is None:
        return None
    if not key:
        raise Invalid("idempotency_key", "is empty; leave it out, or give it a name")
    check_text("idempotency_key", key, KEY_LENGTH_MAX)
    digest = hashlib.sha256(msgspec.json.encode(request)).digest()
    return RequestKey(f"{action}:{caller}", key, digest)


async def write_once(
    ledger: Ledger,
    keyed: RequestKey | None,
    change: Callable[..., Awaitable[Answer]],
    *arguments: Any,
    returns: type[Answer],
    **named: Any,
) -> Answer:
    """Run a change in one transaction, once per key; a repeat is given the first answer.

    The answer is something that msgspec can write as JSON and read back, and not None.
    """
    if keyed is None:
        return await wait_turn(None, partial(ledger.write, change, *arguments, **named))

    async def keyed_change(_: Ledger, tx: Transaction) -> Answer:
        if not await take_key(tx, keyed):
            first = await find_answer(tx, keyed, returns)
            if first is None:  # retention has come between the two looks
                raise LockTimeout("the key was forgotten at the same moment")
            return first
        answer = await change(ledger, tx, *arguments, **named)
        await keep_answer(tx, keyed, answer)
        return answer

    return await wait_turn(keyed, partial(ledger.write, keyed_change))


async def wait_turn(keyed: RequestKey | None, run: Callable[[], Awaitable[Answer]]) -> Answer:
    """Run something again while the same request is under way, or others hold the rows it needs."""
    for _ in range(WAITS_MAX):
        try:
            return await run()
        except LockTimeout as error:
            held = error
    if keyed is None:
        raise LockTimeout(f"{held}, and has been for seconds; try again") from held
    raise Unavailable(f"the {keyed.action} under this key is still under way; try again") from held


async def recall(ledger: Ledger, keyed: RequestKey | None, returns: type[Answer]) -> Answer | None:
    """Find what a request under this key was answered before; None if there was none."""
    if keyed is None:
        return None
    async with ledger.database.transaction() as tx:
        return await find_answer(tx, keyed, returns)


async def take_key(tx: Transaction, keyed: RequestKey) -> bool:
    """Take a key for the rest of the transaction; False if it was used before."""
    return await keys.take_key(tx, keyed.scope, keyed.key, request_digest=keyed.digest)


async def find_answer(tx: Transaction, keyed: RequestKey, returns: type[Answer]) -> Answer | None:
    """Find what the key's first request was answered; KeyReused if that was a different one."""
    used = await keys.find_key(tx, keyed.scope, keyed.key)
    if used is None:
        return None
    if used.request_digest != keyed.digest:
        raise KeyReused(keyed.key, request=keyed.action)
    assert used.answer is not None, "a key was taken and no answer kept"
    return msgspec.json.decode(used.answer, type=returns)


async def keep_answer(tx: Transaction, keyed: RequestKey, answer: Any) -> None:
    """Store what was answered under a key that this transaction has taken."""
    text = msgspec.json.encode(answer).decode()
    await keys.keep_answer(tx, keyed.scope, keyed.key, answer=text)
