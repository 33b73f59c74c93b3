"""What an attempt leaves for the next one of its task."""

from typing import NamedTuple

from holdfast.errors import LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.operations.report import Fence, check_fence
from holdfast.rules.submission import check_json
from holdfast.store.statements import load_statements

_ATTEMPTS = load_statements("attempts")


class Checkpoint(NamedTuple):
    """A JSON text, and the attempt that saved it; both None if nothing was saved."""

    text: str | None
    attempt: int | None


async def save_checkpoint(ledger: Ledger, fence: Fence, text: str) -> None:
    """Keep a checkpoint in the place of the last one; only the holder of the lease may."""
    check_fence(fence)
    check_json("checkpoint", text, ledger.limits.input_bytes_max)
    async with ledger.database.transaction() as tx:
        saved = await tx.fetch_one(_ATTEMPTS["save_checkpoint"], **_place(fence), checkpoint=text)
    if saved is None:
        raise LeaseConflict(fence.task_id, "the lease is lost; the checkpoint is not kept")


async def load_checkpoint(ledger: Ledger, fence: Fence) -> Checkpoint:
    """Read what an earlier attempt has saved, or this one."""
    check_fence(fence)
    async with ledger.database.transaction() as tx:
        row = await tx.fetch_one(_ATTEMPTS["load_checkpoint"], **_place(fence))
    if row is None:
        raise LeaseConflict(fence.task_id, "the lease is lost; stop the attempt")
    return Checkpoint(row[1], row[0])


def _place(fence: Fence) -> dict[str, object]:
    return {
        "job_id": fence.task_id.job_id,
        "task_index": fence.task_id.task_index,
        "attempt": fence.attempt,
        "token": fence.lease_token,
    }
