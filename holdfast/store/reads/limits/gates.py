"""What limits hold back: which tasks, behind which buckets, and who holds their slots."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.work.ids import TaskId
from holdfast.rules.limits.gates import AHEAD_MAX, Gate
from holdfast.rules.limits.usage import BucketState, find_room
from holdfast.store.database import Transaction
from holdfast.store.reads.limits.usage_limits import list_holders
from holdfast.store.statements import load_statements

_GATES = load_statements("reads/limits/gates")
HOLDERS_SHOWN_MAX = 3
QUEUE_GATES_MAX = 10_000
# Counted so far, without regard to queues; of more, a sample of pages tells.
GATED_COUNTED_MAX = 1000
GATED_SAMPLE_PAGES_MAX = 100


async def list_gates(
    tx: Transaction,
    job_id: int,
    task_indexes: Sequence[int],
    *,
    now: datetime,
    counts_ahead: bool = False,
) -> dict[int, Gate]:
    """List what limits hold back of a job's tasks, by index; how many are ahead, if asked for."""
    rows = await tx.fetch(
        _GATES["list_gates"],
        job_id=job_id,
        task_indexes=list(task_indexes),
        now=now,
        count_max=AHEAD_MAX if counts_ahead else 0,
    )
    gates = {row[0]: _read(row[1:], counts_ahead=counts_ahead) for row in rows}
    named = await _name_holders(tx, list(gates.values()))
    return dict(zip(gates, named, strict=True))


async def find_queue_gate(tx: Transaction, queue: str, *, now: datetime) -> Gate | None:
    """Find a limit of a whole queue that lets nothing more start now, and who holds its slots."""
    gates = list((await find_queue_gates(tx, [queue], now=now)).values())
    named = await _name_holders(tx, gates)
    return named[0] if named else None


async def find_queue_gates(
    tx: Transaction, queues: Sequence[str], *, now: datetime
) -> dict[str, Gate]:
    """Find limits of whole queues that let nothing more start now, one for each queue."""
    rows = await tx.fetch(
        _GATES["list_queue_gates"], queues=list(queues), now=now, gates_max=QUEUE_GATES_MAX
    )
    found: dict[str, Gate] = {}
    for queue, name, scope, kind, most, period, burst, bucket_id, *state in rows:
        limit = UsageLimit(scope=scope, kind=kind, most=most, period=period, burst=burst)
        gate = Gate(name, limit, bucket_id, queue, BucketState(*state))
        if find_room(limit, gate.state, now).free < 1.0:
            found.setdefault(queue, gate)
    return found


async def count_gated(tx: Transaction) -> tuple[dict[str, int], bool]:
    """Count by queue what limits hold back; of very much, from a sample: then it is an estimate."""
    rows = await tx.fetch(_GATES["count_gated"], count_max=GATED_COUNTED_MAX)
    counts = {row[0]: row[1] for row in rows}
    if not rows or not rows[0][2]:
        return counts, False
    measured = await tx.fetch_one(_GATES["measure_gated"])
    assert measured is not None
    share = min(GATED_SAMPLE_PAGES_MAX / max(measured[0], 1), 1.0)
    sampled = await tx.fetch(_GATES["sample_gated"], percent=100 * share)
    return counts | {
        row[0]: max(round(row[1] / share), counts.get(row[0], 0)) for row in sampled
    }, True


def _read(row: Any, *, counts_ahead: bool) -> Gate:
    name, scope, kind, most, period, burst, bucket_id, value, *rest = row
    *state, slots, ahead, ahead_slots = rest
    return Gate(
        name,
        UsageLimit(scope=scope, kind=kind, most=most, period=period, burst=burst),
        bucket_id,
        value,
        BucketState(*state),
        slots=slots,
        ahead=ahead if counts_ahead else None,
        ahead_slots=ahead_slots,
    )


async def _name_holders(tx: Transaction, gates: Sequence[Gate]) -> list[Gate]:
    ids = sorted({gate.bucket_id for gate in gates if gate.bucket_id is not None})
    if not ids:
        return list(gates)
    found = await list_holders(tx, ids, holders_max=HOLDERS_SHOWN_MAX)
    holders = {
        bucket_id: tuple(TaskId(row.job_id, row.task_index) for row in rows)
        for bucket_id, rows in found.items()
    }
    return [gate._replace(holders=holders.get(gate.bucket_id or 0, ())) for gate in gates]
