"""The tables of triggers: jobs that a cut-over starts, and the runs it has asked for."""

from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.datasets.versions import Version

_TRIGGERS = load_statements("datasets/triggers")


class NewTrigger(NamedTuple):
    """A trigger of a dataset; spec and inputs are JSON texts."""

    dataset: str
    name: str
    spec: str
    inputs: str | None
    actor: str


async def put_trigger(tx: Transaction, trigger: NewTrigger) -> bool:
    """Store a trigger in the place of the one of its name; says whether it is new."""
    row = await tx.fetch_one(_TRIGGERS["put_trigger"], **trigger._asdict())
    assert row is not None, "a trigger is new or there"
    is_new: bool = row[0]
    return is_new


async def count_triggers(tx: Transaction, dataset: str, *, besides: str) -> int:
    """Count the triggers of a dataset, without the name given."""
    row = await tx.fetch_one(_TRIGGERS["count_triggers"], dataset=dataset, name=besides)
    assert row is not None, "a count has a row"
    count: int = row[0]
    return count


async def delete_trigger(tx: Transaction, dataset: str, name: str) -> bool:
    """Delete a trigger and what it was asked for and has not begun; False if there was none."""
    return await tx.fetch_one(_TRIGGERS["delete_trigger"], dataset=dataset, name=name) is not None


async def request_runs(tx: Transaction, version: Version, *, now: datetime) -> int:
    """Ask for a run of each trigger, once per version; returns how many are new."""
    rows = await tx.fetch(
        _TRIGGERS["request_runs"], dataset=version.dataset, version=version.number, now=now
    )
    return len(rows)


class TriggerRun(NamedTuple):
    """One run of a trigger: for which version."""

    dataset: str
    trigger: str
    version: int


class DueRun(NamedTuple):
    """A run that is to be started; spec and inputs are JSON texts."""

    run: TriggerRun
    spec: str
    inputs: str | None


async def list_due_runs(tx: Transaction, batch_max: int) -> list[DueRun]:
    """List runs that have been asked for and not begun."""
    rows = await tx.fetch(_TRIGGERS["list_due_runs"], batch_max=batch_max)
    return [DueRun(TriggerRun._make(row[:3]), row[3], row[4]) for row in rows]


async def note_run(tx: Transaction, run: TriggerRun, *, job_id: int) -> None:
    """Note the job that a run has become."""
    await tx.fetch(_TRIGGERS["note_run"], **run._asdict(), job_id=job_id)


async def put_off_run(tx: Transaction, run: TriggerRun, *, problem: str, delay: timedelta) -> None:
    """Note why a run could not begin; it is tried again after a while."""
    await tx.fetch(_TRIGGERS["put_off_run"], **run._asdict(), problem=problem, delay=delay)
