"""What workers of a queue have for tasks that name resources, and what is taken of it."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from holdfast.model.workers.resources import Capacity, Resources
from holdfast.rules.placement.booked import add_up
from holdfast.rules.placement.snapshot import Shape, WorkerView, shape_of_need
from holdfast.store.database import Transaction
from holdfast.store.reads.workers.workers import SILENT_AFTER
from holdfast.store.statements import load_statements

_SERVING = load_statements("reads/workers/serving")
_TOO_LARGE = load_statements("reads/workers/too_large")
WORKERS_MAX = 1000
LEASES_MAX = 100_000
_decode_need = msgspec.json.Decoder(Resources).decode
_decode_capacity = msgspec.json.Decoder(Capacity).decode


class Serving(NamedTuple):
    """What each task of a job asks for, and the workers of its queue with what they have free."""

    need: Resources
    workers: list[WorkerView]


async def find_need(tx: Transaction, job_id: int) -> Resources | None:
    """Find what each task of a job asks for; None if it names no resources."""
    row = await tx.fetch_one(_TOO_LARGE["read_resources"], job_id=job_id)
    return None if row is None else _decode_need(row[0])


async def list_serving(
    tx: Transaction, queue: str, *, without: str | None = None
) -> list[WorkerView] | None:
    """List the workers of a queue by what they have, but for one; None if one takes all there is.

    Also None if there are too many of them, or of leases, to look at.
    """
    rows = await tx.fetch(
        _SERVING["list_serving_workers"],
        queue=queue,
        without=without,
        silent_after=SILENT_AFTER,
        count_max=WORKERS_MAX + 1,
    )
    if len(rows) > WORKERS_MAX or any(capacity is None for *_, capacity in rows):
        return None
    taken = await tx.fetch(
        _SERVING["list_taken"],
        worker_ids=[worker_id for worker_id, _, _, book, _ in rows if book is None],
        books=[book for _, _, _, book, _ in rows if book is not None],
        count_max=LEASES_MAX,
    )
    if not all(is_whole for _, _, is_whole, _ in taken):
        return None
    used = add_up(_shapes(taken))
    return [
        WorkerView(
            worker_id,
            name,
            host,
            _decode_capacity(capacity),
            {},
            used[book or worker_id],
            ports_free=0,
            unstarted=0,
            accepts=True,
            why_not=None,
            book=book,
        )
        for worker_id, name, host, book, capacity in rows
    ]


def _shapes(taken: list[tuple[str, int, bool, str | None]]) -> Iterator[tuple[str, Shape, int]]:
    """Read what leases take; those of claimed work that names nothing take nothing."""
    for owner, leases, _, text in taken:
        if text is not None:
            yield owner, shape_of_need(_decode_need(text)), leases
