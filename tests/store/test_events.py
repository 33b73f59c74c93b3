"""Reading events: nothing is missed, nothing comes twice, whatever order things commit in."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from holdfast.model.states import TaskState
from holdfast.store.database import Database
from holdfast.store.events import Cursor, Event, list_events, read_events
from tests.store.raw import Raw


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Raw]:
    """A second connection to the test's database."""
    connection = await asyncpg.connect(database_url)
    try:
        yield Raw(connection)
    finally:
        await connection.close()


async def read_all(
    database: Database, after: Cursor, *, job_id: int | None = None, page: int = 1000
) -> list[Event]:
    """Read page after page until there is nothing more."""
    events: list[Event] = []
    while True:
        async with database.transaction() as tx:
            found = await read_events(tx, after, job_id=job_id, count_max=page)
        if not found:
            return events
        assert len(found) <= page
        events += found
        after = found[-1].cursor


def names(events: list[Event]) -> list[tuple[int, int, str]]:
    return [(event.job_id, event.task_index, event.type) for event in events]


async def test_a_late_commit_of_a_lower_id_is_not_missed(
    database: Database, lasting: Raw, other: Raw
) -> None:
    slow, quick = await lasting.insert_whole_job(), await lasting.insert_whole_job()
    start = await read_all(database, Cursor())
    cursor = start[-1].cursor

    late = lasting.connection.transaction()
    await late.start()
    await lasting.move(slow, TaskState.ASSIGNED)
    await other.move(quick, TaskState.ASSIGNED)
    # A reader of "id > last seen" would now read the quick event and remember its id.
    last_id_seen = await other.value("select max(id) from holdfast.events")
    seen_early = await read_all(database, cursor)
    await late.commit()

    seen = seen_early + await read_all(database, (seen_early or start)[-1].cursor)
    assert sorted(names(seen)) == [(slow, 0, "claimed"), (quick, 0, "claimed")]
    [late_event] = [event for event in seen if event.job_id == slow]
    assert late_event.id < last_id_seen, "otherwise this test would not show anything"


async def test_an_older_transaction_that_writes_last_is_not_missed(
    database: Database, lasting: Raw, other: Raw
) -> None:
    slow, quick = await lasting.insert_whole_job(), await lasting.insert_whole_job()
    start = await read_all(database, Cursor())
    late = lasting.connection.transaction()
    await late.start()
    await lasting.value("select txid_current()")
    await other.move(quick, TaskState.ASSIGNED)
    seen_early = await read_all(database, start[-1].cursor)
    await lasting.move(slow, TaskState.ASSIGNED)
    await late.commit()
    seen = seen_early + await read_all(database, (seen_early or start)[-1].cursor)
    assert sorted(names(seen)) == [(slow, 0, "claimed"), (quick, 0, "claimed")]


@pytest.mark.parametrize("page", [1, 2, 3, 1000])
async def test_a_cursor_resumes_where_it_left_off(
    database: Database, lasting: Raw, page: int
) -> None:
    job_id = await lasting.insert_whole_job(num_tasks=3)
    await lasting.move(job_id, TaskState.ASSIGNED)
    await lasting.move(job_id, TaskState.RUNNING)
    events = await read_all(database, Cursor(), page=page)
    assert len(events) == len({event.id for event in events}) == 7
    assert [event.cursor for event in events] == sorted(event.cursor for event in events)
    for place, event in enumerate(events):
        assert await read_all(database, event.cursor) == events[place + 1 :]


async def test_one_jobs_events_can_be_followed_alone(database: Database, lasting: Raw) -> None:
    wanted, unwanted = await lasting.insert_whole_job(), await lasting.insert_whole_job()
    await lasting.move(unwanted, TaskState.ASSIGNED)
    await lasting.move(wanted, TaskState.ASSIGNED)
    events = await read_all(database, Cursor(), job_id=wanted)
    assert names(events) == [(wanted, -1, "submitted"), (wanted, 0, "claimed")]


async def test_an_event_says_everything_the_specification_asks_for(
    database: Database, lasting: Raw
) -> None:
    job_id = await lasting.insert_job(correlation_id="'c1'", trace_id="'t1'")
    await lasting.insert_task(job_id)
    async with lasting.connection.transaction():
        await lasting.move(job_id, TaskState.ASSIGNED)
        await lasting.move(job_id, TaskState.FAILED, failure_count="1")
        await lasting.move(job_id, TaskState.PENDING, actor="'w1'", cause="'boom'")
    event = (await read_all(database, Cursor()))[-1]
    assert (event.job_id, event.task_index, event.attempt, event.seq) == (job_id, 0, 1, 2)
    assert (event.type, event.actor, event.cause) == ("retried", "w1", "boom")
    assert (event.correlation_id, event.trace_id, event.version) == ("c1", "t1", 1)
    assert event.payload is not None
    assert '"failure_count": 1' in event.payload
    assert event.ts == await lasting.value("select moved_at from holdfast.tasks")


async def test_what_is_not_committed_is_not_read(database: Database, lasting: Raw) -> None:
    job_id = await lasting.insert_whole_job()
    start = await read_all(database, Cursor())
    async with lasting.rolled_back():
        await lasting.move(job_id, TaskState.ASSIGNED)
        assert await read_all(database, start[-1].cursor) == []
    assert await read_all(database, start[-1].cursor) == []


async def test_events_are_listed_for_a_job_its_own_stream_or_one_task(
    database: Database, lasting: Raw
) -> None:
    job_id = await lasting.insert_whole_job(num_tasks=2)
    await lasting.insert_whole_job()
    await lasting.move(job_id, TaskState.ASSIGNED)
    async with database.transaction() as tx:
        whole = await list_events(tx, job_id)
        own = await list_events(tx, job_id, -1)
        second = await list_events(tx, job_id, 1)
        first_two = await list_events(tx, job_id, count_max=2)
        nothing = await list_events(tx, 999)
    claims = [(job_id, 0, "claimed"), (job_id, 1, "claimed")]
    assert sorted(names(whole)) == [(job_id, -1, "submitted"), *claims]
    assert names(own) == [(job_id, -1, "submitted")]
    assert names(second) == [(job_id, 1, "claimed")]
    assert first_two == whole[:2]
    assert nothing == []
