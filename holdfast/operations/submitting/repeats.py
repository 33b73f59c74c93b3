"""Tell the repeat of a submission from another submission under the same idempotency key.

Nothing is made of a submission for this when it is stored: a repeat, which is rare, is compared
with what is there. It makes no difference how it is written, nor whether either came by SQL.
"""

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.operations.submitting.admit import Admitted
from holdfast.store.database import Transaction
from holdfast.store.tables.work.jobs import KeyedJob, Repeat, find_repeated
from holdfast.store.tables.work.tasks import RepeatedInput, find_other_inputs

COMPARED_MAX = 10_000
COMPARED_BYTES_MAX = 16 << 20


async def find_first(tx: Transaction, jobs: Sequence[Admitted]) -> dict[int, KeyedJob]:
    """Find the jobs that came first under the keys of these, by the ids of these.

    Of a job that is still hidden those inputs are compared that are there.
    """
    repeats = [
        Repeat(
            job.key,
            msgspec.json.encode(job.asked).decode(),
            job.submission.inputs is not None,
            job.num_tasks,
        )
        for job in jobs
    ]
    found = await find_repeated(tx, repeats)
    first = {job.job_id: it for job, it in zip(jobs, found, strict=True) if it is not None}
    alike = [job for job in jobs if job.job_id in first and first[job.job_id].is_same]
    others: set[int] = set()
    for rows in _pack(alike, first):
        others |= await find_other_inputs(tx, rows)
    return first | {job_id: first[job_id]._replace(is_same=False) for job_id in others}


def _pack(jobs: Sequence[Admitted], first: dict[int, KeyedJob]) -> Iterator[list[RepeatedInput]]:
    """Pair inputs with the tasks that they are compared with, within bounds."""
    rows: list[RepeatedInput] = []
    size = 0
    for job in jobs:
        for index, text in enumerate(job.submission.inputs or ()):
            rows.append(RepeatedInput(job.job_id, first[job.job_id].job_id, index, text))
            size += len(text)
            if len(rows) == COMPARED_MAX or size >= COMPARED_BYTES_MAX:
                yield rows
                rows, size = [], 0
    if rows:
        yield rows
