"""The table of checkpoints: what an attempt leaves for the next one of its task."""

from typing import NamedTuple

from holdfast.model.work.fence import Fence
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import fence_values

_ATTEMPTS = load_statements("work/attempts")


class Checkpoint(NamedTuple):
    """The attempt that has saved a checkpoint, a JSON text; both None if nothing was saved."""

    attempt: int | None
    text: str | None


async def save_checkpoint(tx: Transaction, fence: Fence, text: str) -> bool:
    """Store a checkpoint in the place of the last one; False if the fence holds no lease."""
    row = await tx.fetch_one(_ATTEMPTS["save_checkpoint"], **fence_values(fence), checkpoint=text)
    return row is not None


async def load_checkpoint(tx: Transaction, fence: Fence) -> Checkpoint | None:
    """Read a task's checkpoint; None if the fence holds no lease."""
    row = await tx.fetch_one(_ATTEMPTS["load_checkpoint"], **fence_values(fence))
    return None if row is None else Checkpoint._make(row)
