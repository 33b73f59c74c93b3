"""The events of a large job are found by their time, without reading all that it has."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.model.work.states import TaskState
from holdfast.store.database import Database, Transaction
from holdfast.store.reads.output import events as events_module
from holdfast.store.reads.output.events import Event, Moment, list_events_of_job
from holdfast.store.statements import Statement
from tests.store.raw import Raw


def names(events: list[Event]) -> list[tuple[int, int, str]]:
    return [(event.job_id, event.task_index, event.type) for event in events]


@pytest.mark.parametrize(
    ("probed_max", "examined_max"), [(1000, 5000), (4, 5000), (1, 5000), (1, 4), (1, 1)]
)
async def test_the_events_of_a_large_job_are_found_by_their_time(
    probed_max: int,
    examined_max: int,
    database: Database,
    lasting: Raw,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pages are the same, however much happens beside it, and if it is too much to look at."""
    monkeypatch.setattr(events_module, "EVENTS_PROBED_MAX", probed_max)
    monkeypatch.setattr(events_module, "EVENTS_EXAMINED_MAX", examined_max)
    job_id, other = await lasting.insert_whole_job(num_tasks=3), await lasting.insert_whole_job()
    for state in (TaskState.ASSIGNED, TaskState.RUNNING):
        await lasting.move(job_id, state)
        await lasting.move(other, state)
    async with database.transaction() as tx:
        whole = await list_events_of_job(tx, job_id, None, after=Moment(), page_size=100)
        found: list[Event] = []
        for _ in range(5):
            after = Moment(found[-1].ts, found[-1].id) if found else Moment()
            found += await list_events_of_job(
                tx, job_id, None, after=after, page_size=2, large_since=whole[0].ts
            )
        starts = await list_events_of_job(
            tx, job_id, ["started"], after=Moment(), page_size=9, large_since=whole[0].ts
        )
        later = whole[-1].ts + timedelta(hours=1)
        none = await list_events_of_job(
            tx, job_id, None, after=Moment(), page_size=9, large_since=later
        )
    assert found == whole
    assert names(starts) == [(job_id, index, "started") for index in range(3)]
    assert none == []  # not even looked for among all of the job's


class Noting(Transaction):
    """A transaction that writes down which statements are run."""

    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx.connection)
        self.names: list[str] = []

    async def fetch(self, statement: Statement, **values: Any) -> list[Any]:
        self.names.append(statement.name)
        return await super().fetch(statement, **values)


async def test_what_others_did_right_before_a_large_job_does_not_have_all_of_it_read(
    database: Database, lasting: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "EVENTS_PROBED_MAX", 3)
    monkeypatch.setattr(events_module, "TIME_STRETCHES_MAX", 4)
    for _ in range(20):
        await lasting.insert_whole_job()
    job_id = await lasting.insert_whole_job(num_tasks=3)
    async with database.transaction() as opened:
        tx = Noting(opened)
        whole = await list_events_of_job(tx, job_id, None, after=Moment(), page_size=100)
        tx.names.clear()
        found = await list_events_of_job(
            tx, job_id, None, after=Moment(), page_size=100, large_since=whole[0].ts
        )
    assert found == whole
    assert "list_events_of_job" not in tx.names


async def test_events_that_are_dated_before_a_large_job_come_first(
    database: Database, lasting: Raw
) -> None:
    """As they are where the clock of the Postgres that took over was behind."""
    job_id, other = await lasting.insert_whole_job(num_tasks=3), await lasting.insert_whole_job()
    await lasting.move(job_id, TaskState.ASSIGNED)
    await lasting.move(other, TaskState.ASSIGNED)
    async with database.transaction() as tx:
        whole = await list_events_of_job(tx, job_id, None, after=Moment(), page_size=100)
        for since in (whole[1].ts, whole[-1].ts + timedelta(milliseconds=1)):
            found: list[Event] = []
            for _ in range(5):
                after = Moment(found[-1].ts, found[-1].id) if found else Moment()
                found += await list_events_of_job(
                    tx, job_id, None, after=after, page_size=2, large_since=since
                )
            assert found == whole
