"""Tasks of queues that no worker there could ever run: they name more than any of them has."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from holdfast.model.workers.resources import Capacity, Resources
from holdfast.rules.placement.too_large import describe_need, explain_too_large
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_TOO_LARGE = load_statements("reads/workers/too_large")
# What no worker can take stays at the head, where claims that look for what fits pass it over.
HEAD_MAX = 1000
TASKS_MAX = 20_000
_decode_need = msgspec.json.Decoder(Resources).decode
_decode_capacity = msgspec.json.Decoder(Capacity).decode


class LargeTasks(NamedTuple):
    """Tasks of one job in line: what each asks for, why no worker has it, and since when."""

    queue: str
    job_id: int
    tasks: int
    since: datetime
    asks_for: str
    why: str


async def list_too_large(
    tx: Transaction, capacities: Mapping[str, Sequence[str | None]]
) -> list[LargeTasks]:
    """List what stands at the heads of queues and fits no worker; the longest wait is first.

    `capacities` are those of a queue's workers, JSON texts; with None among them all fits there.
    """
    bounded = {queue: decoded for queue, texts in capacities.items() if (decoded := _decode(texts))}
    if not bounded:
        return []
    rows = await tx.fetch(
        _TOO_LARGE["list_sized_heads"],
        queues=sorted(bounded),
        head_max=HEAD_MAX,
        tasks_max=TASKS_MAX,
    )
    found = []
    for queue, job_id, tasks, since, text in rows:
        need = _decode_need(text)
        why = explain_too_large(need, bounded[queue])
        if why is not None:
            found.append(LargeTasks(queue, job_id, tasks, since, describe_need(need), why))
    return found


async def explain_job_too_large(
    tx: Transaction, job_id: int, capacities: Sequence[str | None]
) -> str | None:
    """Say why the tasks of a job fit no worker of their queue; None if they do, or may."""
    bounded = _decode(capacities)
    if not bounded:
        return None
    row = await tx.fetch_one(_TOO_LARGE["read_resources"], job_id=job_id)
    return None if row is None else explain_too_large(_decode_need(row[0]), bounded)


def _decode(texts: Sequence[str | None]) -> list[Capacity]:
    """Read what workers have; nothing, if one of them takes whatever comes."""
    known = [_decode_capacity(text) for text in texts if text is not None]
    return known if len(known) == len(texts) else []
