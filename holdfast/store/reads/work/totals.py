"""What the tasks of one job add up to: counted from all of them, for whoever asks for it."""

from typing import NamedTuple

from holdfast.store.database import Transaction
from holdfast.store.reads.work.jobs import JobRow
from holdfast.store.statements import load_statements

_TOTALS = load_statements("reads/work/totals")
PORTS_MAX = 1000


class JobTotals(NamedTuple):
    """Sums over tasks and attempts; `ports` and `result` are JSON texts.

    Seconds, milliseconds and bytes are sums; peaks are the largest; `limits` is there if all
    attempts agree; what was cached is so if all of them found it so.
    """

    failure_count: int = 0
    preemption_count: int = 0
    cpu_seconds: float | None = None
    memory_peak_bytes: int | None = None
    processes_max: int | None = None
    limits: str | None = None
    fetch_ms: float | None = None
    unpack_ms: float | None = None
    bytes: int | None = None
    bundle_cached: bool | None = None
    environment_ms: float | None = None
    environment_cached: bool | None = None
    # Of attempts under way, by name; with several tasks by INDEX/NAME.
    ports: str = "{}"
    # Of a job with one task, once that has succeeded.
    result: str | None = None


async def read_totals(tx: Transaction, job: JobRow) -> JobTotals:
    """Add up a job's tasks and their attempts: as many rows are read as there are of these."""
    row = await tx.fetch_one(
        _TOTALS["read_totals"],
        job_id=job.job_id,
        has_one_task=job.num_tasks == 1,
        ports_max=PORTS_MAX,
    )
    assert row is not None
    return JobTotals(*row)
