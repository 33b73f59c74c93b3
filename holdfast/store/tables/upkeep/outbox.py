"""The outbox: what follows from a change, until its work is done in a transaction of its own."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_OUTBOX = load_statements("upkeep/outbox")
_ORDER = load_statements("order/dependencies")
_UNDO = load_statements("order/undo")


class FollowUp(NamedTuple):
    """Work that is left for later, and where in the job it begins."""

    kind: str
    job_id: int
    next_index: int = 0


class OutboxRow(NamedTuple):
    """Work that waits, and the job, or the graph, that it is about."""

    id: int
    job_id: int


async def insert_outbox(tx: Transaction, follow_ups: Sequence[FollowUp]) -> None:
    """Leave work for later."""
    await tx.fetch(
        _OUTBOX["insert_outbox"],
        kinds=[item.kind for item in follow_ups],
        job_ids=[item.job_id for item in follow_ups],
        next_indexes=[item.next_index for item in follow_ups],
    )


async def list_outbox(tx: Transaction, kinds: Sequence[str], *, batch_max: int) -> list[OutboxRow]:
    """List work of these kinds that is due, the longest due first."""
    rows = await tx.fetch(_OUTBOX["list_outbox"], kinds=kinds, batch_max=batch_max)
    return [OutboxRow(row_id, job_id) for row_id, _, job_id in rows]


async def lock_outbox(tx: Transaction, row_id: int) -> FollowUp | None:
    """Lock one row; None if it is done, or another server is at it."""
    row = await tx.fetch_one(_OUTBOX["lock_outbox"], id=row_id)
    return None if row is None else FollowUp._make(row[1:])


async def take_outbox(
    tx: Transaction, kind: str, *, row_ids: Sequence[int] | None = None, batch_max: int
) -> list[OutboxRow]:
    """Lock work of a kind that is due; what another server is at is left out."""
    rows = await tx.fetch(_OUTBOX["take_outbox"], kind=kind, ids=row_ids, batch_max=batch_max)
    return list(map(OutboxRow._make, rows))


async def advance_outbox(tx: Transaction, row_id: int, next_index: int) -> None:
    """Note how far a locked piece of work has got."""
    await tx.fetch(_OUTBOX["advance_outbox"], id=row_id, next_index=next_index)


async def pace_outbox(tx: Transaction, row_id: int, next_index: int, *, pause: timedelta) -> None:
    """Note how far a locked piece of work has got, and let it go on a while after it was due."""
    await tx.fetch(_OUTBOX["pace_outbox"], id=row_id, next_index=next_index, pause=pause)


async def delete_outbox(tx: Transaction, row_ids: Sequence[int]) -> None:
    """Forget locked work that is done."""
    await tx.fetch(_OUTBOX["delete_outbox"], ids=row_ids)


async def let_outbox_wait(tx: Transaction, row_ids: Sequence[int]) -> None:
    """Look at work again later, the later the longer it has waited."""
    await tx.fetch(_OUTBOX["let_outbox_wait"], ids=row_ids)


async def put_off_outbox(tx: Transaction, row_ids: Sequence[int], delay: timedelta) -> None:
    """Look at work again after a while."""
    await tx.fetch(_OUTBOX["put_off_outbox"], ids=row_ids, delay=delay)


async def take_small_sweeps(tx: Transaction, *, tasks_max: int, batch_max: int) -> list[OutboxRow]:
    """Lock the sweeps of small jobs; those that another server is at are left out."""
    rows = await tx.fetch(_OUTBOX["take_small_sweeps"], tasks_max=tasks_max, batch_max=batch_max)
    return list(map(OutboxRow._make, rows))


async def drop_childless_ends(tx: Transaction, batch_max: int) -> int:
    """Forget about the children of ended jobs that have none; returns how many jobs these were."""
    return len(await tx.fetch(_OUTBOX["drop_childless_ends"], batch_max=batch_max))


async def delete_done_releases(tx: Transaction, row_ids: Sequence[int]) -> None:
    """Forget locked ends of jobs that nobody waits for any more."""
    await tx.fetch(_ORDER["delete_done_releases"], ids=row_ids)


async def put_off_releases(tx: Transaction, dependents: Iterable[int], delay: timedelta) -> None:
    """Look again after a while at the ends of all jobs that these wait for."""
    await tx.fetch(_ORDER["put_off_releases"], job_ids=sorted(dependents), delay=delay)


async def lock_undo_graph(tx: Transaction, graph_id: int) -> list[int]:
    """Lock all rows about what is to be undone in a graph; others wait."""
    return [row[0] for row in await tx.fetch(_UNDO["lock_undo_graph"], graph_id=graph_id)]
