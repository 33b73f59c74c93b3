"""Events: nothing is missed, nothing comes twice, from wherever one starts."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.upkeep import partitions
from holdfast.store.database import Database
from holdfast.store.reads.output import events as events_module
from holdfast.store.reads.output.events import (
    Cursor,
    Event,
    Follower,
    Moment,
    list_events_of_job,
    list_events_of_task,
)
from holdfast.store.statements import load_statements
from tests.databases import connect
from tests.store.raw import Raw
from tests.world import World

TURNS_MAX = 500


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Raw]:
    """A second connection to the test's database."""
    connection = await connect(database_url)
    try:
        yield Raw(connection)
    finally:
        await connection.close()


async def read_until(database: Database, follower: Follower, count: int) -> list[Event]:
    """Read on until so many events have come and nothing more is there."""
    found: list[Event] = []
    for _ in range(TURNS_MAX):
        async with database.transaction() as tx:
            await follower.start(tx)
            events, is_all = await follower.read(tx)
        found += events
        if is_all and len(found) >= count:
            return found
        # Some transaction of Postgres's own may hold the horizon back for a moment.
        await asyncio.sleep(0.01 if is_all else 0)
    raise AssertionError(f"{len(found)} of {count} events have come")


async def read_all(database: Database, after: Cursor) -> list[Event]:
    """Read on from a cursor until nothing more is there."""
    follower, found = Follower(after), []
    for _ in range(TURNS_MAX):
        async with database.transaction() as tx:
            events, is_all = await follower.read(tx)
        found += events
        if is_all:
            return found
    raise AssertionError(f"more than {len(found)} events have come")


def names(events: list[Event]) -> list[tuple[int, int, str]]:
    return [(event.job_id, event.task_index, event.type) for event in events]


async def test_a_follower_without_a_cursor_starts_at_the_present(
    database: Database, lasting: Raw
) -> None:
    job_id = await lasting.insert_whole_job()
    follower = Follower()
    assert await read_until(database, follower, 0) == []
    await lasting.move(job_id, TaskState.ASSIGNED)
    assert names(await read_until(database, follower, 1)) == [(job_id, 0, "claimed")]


async def test_a_follower_from_the_first_reads_everything_in_order(
    database: Database, lasting: Raw
) -> None:
    for _ in range(5):
        job_id = await lasting.insert_whole_job(num_tasks=3)
        await lasting.move(job_id, TaskState.ASSIGNED)
    found = await read_until(database, Follower(Cursor()), 20)
    assert len(found) == len({event.id for event in found}) == 20
    assert [event.cursor for event in found] == sorted(event.cursor for event in found)
    for place in (0, 7, 19):
        rest = await read_until(database, Follower(found[place].cursor), 19 - place)
        assert rest == found[place + 1 :]


async def test_a_transaction_larger_than_a_page_is_read_in_pages(
    database: Database, lasting: Raw
) -> None:
    count = events_module.PAGE_MAX * 2 + 300
    job_id = await lasting.insert_job(num_tasks=count)
    await lasting.run(
        "insert into holdfast.tasks"
        " (job_id, task_index, placed, eligible_at, submitted_at, moved_at)"
        " select $1, n, false, now(), now(), now() from generate_series(0, $2 - 1) as n",
        job_id,
        count,
    )
    await lasting.move(job_id, TaskState.ASSIGNED)
    for follower in (Follower(Cursor()), Follower(Cursor(), job_id)):
        found = await read_until(database, follower, count + 1)
        assert len(found) == len({event.id for event in found}) == count + 1


async def test_a_late_commit_of_an_older_transaction_is_not_missed(
    database: Database, lasting: Raw, other: Raw
) -> None:
    slow, quick = await lasting.insert_whole_job(), await lasting.insert_whole_job()
    follower = Follower()
    await read_until(database, follower, 0)
    late = lasting.connection.transaction()
    await late.start()
    await lasting.move(slow, TaskState.ASSIGNED)
    await other.move(quick, TaskState.ASSIGNED)
    early = await read_until(database, follower, 0)
    await late.commit()
    found = early + await read_until(database, follower, 2 - len(early))
    assert sorted(names(found)) == [(slow, 0, "claimed"), (quick, 0, "claimed")]


async def test_one_job_is_followed_through_its_past_and_on(
    database: Database, lasting: Raw
) -> None:
    wanted, unwanted = await lasting.insert_whole_job(), await lasting.insert_whole_job()
    follower = Follower(Cursor(), wanted)
    past = await read_until(database, follower, 1)
    await lasting.move(unwanted, TaskState.ASSIGNED)
    await lasting.move(wanted, TaskState.ASSIGNED)
    assert names(past) == [(wanted, -1, "submitted")]
    assert names(await read_until(database, follower, 1)) == [(wanted, 0, "claimed")]


async def test_a_cursor_moves_on_where_there_is_nothing_to_read(
    database: Database, lasting: Raw
) -> None:
    await lasting.insert_whole_job()
    follower = Follower(Cursor(), job_id=999)
    assert await read_until(database, follower, 0) == []
    assert follower.cursor.txid > 0


async def test_a_cursor_from_the_future_waits_for_it(database: Database, lasting: Raw) -> None:
    await lasting.insert_whole_job()
    future = Cursor(2**62, 0)
    follower = Follower(future)
    assert await read_until(database, follower, 0) == []
    assert follower.cursor == future


async def test_the_events_of_a_job_come_in_pages_by_time(database: Database, lasting: Raw) -> None:
    job_id = await lasting.insert_whole_job(num_tasks=3)
    await lasting.insert_whole_job()
    await lasting.move(job_id, TaskState.ASSIGNED)
    await lasting.move(job_id, TaskState.RUNNING)
    async with database.transaction() as tx:
        whole = await list_events_of_job(tx, job_id, None, after=Moment(), page_size=100)
        found: list[Event] = []
        for _ in range(10):
            after = Moment(found[-1].ts, found[-1].id) if found else Moment()
            found += await list_events_of_job(tx, job_id, None, after=after, page_size=2)
        starts = await list_events_of_job(tx, job_id, ["started"], after=Moment(), page_size=100)
        strange = await list_events_of_job(tx, job_id, ["heartbeat"], after=Moment(), page_size=100)
    assert len(whole) == 7
    assert found == whole == sorted(whole, key=lambda event: (event.ts, event.id))
    assert names(starts) == [(job_id, index, "started") for index in range(3)]
    assert strange == []


async def test_the_events_of_a_task_are_its_own(database: Database, lasting: Raw) -> None:
    job_id = await lasting.insert_whole_job(num_tasks=2)
    await lasting.move(job_id, TaskState.ASSIGNED)
    async with database.transaction() as tx:
        found = await list_events_of_task(
            tx, TaskId(job_id, 1), None, after=Moment(), page_size=100
        )
        claims = await list_events_of_task(
            tx, TaskId(job_id, 1), ["started"], after=Moment(), page_size=100
        )
    assert names(found) == [(job_id, 1, "claimed")]
    assert claims == []


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
    database: Database, lasting: Raw, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "PAGE_MAX", page)
    job_id = await lasting.insert_whole_job(num_tasks=3)
    await lasting.move(job_id, TaskState.ASSIGNED)
    await lasting.move(job_id, TaskState.RUNNING)
    events = await read_all(database, Cursor())
    assert len(events) == len({event.id for event in events}) == 7
    assert [event.cursor for event in events] == sorted(event.cursor for event in events)
    for count, event in enumerate(events, 1):
        assert await read_all(database, event.cursor) == events[count:]


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
        whole = await list_events_of_job(tx, job_id, None, after=Moment(), page_size=10)
        own, second = [
            await list_events_of_task(tx, TaskId(job_id, index), None, after=Moment(), page_size=10)
            for index in (-1, 1)
        ]
        first_two = await list_events_of_job(tx, job_id, None, after=Moment(), page_size=2)
        nothing = await list_events_of_job(tx, 999, None, after=Moment(), page_size=10)
    claims = [(job_id, 0, "claimed"), (job_id, 1, "claimed")]
    assert sorted(names(whole)) == [(job_id, -1, "submitted"), *claims]
    assert names(own) == [(job_id, -1, "submitted")]
    assert names(second) == [(job_id, 1, "claimed")]
    assert first_two == whole[:2]
    assert nothing == []


async def half_pruned(world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Let retention delete one of two jobs of a range; returns which is gone, and which is not.

    The events of both stay until the range is dropped.
    """
    gone, kept = await world.submit(), await world.submit()
    for claim in await world.claim(2):
        await world.succeed(claim)
    await world.clock.fetch("select setval('holdfast.job_ids', 10001)")
    await world.clock.advance(90 * 86_400)
    monkeypatch.setattr(partitions, "BATCHES_MAX", 1)
    monkeypatch.setattr(partitions, "BATCH_JOBS_MAX", 1)
    assert await partitions.prune_partition(world.ledger, timedelta(days=30)) == 1
    assert [row[0] for row in await world.clock.fetch("select job_id from holdfast.jobs")] == [kept]
    return gone, kept


async def test_a_follower_gets_past_jobs_that_retention_has_deleted(
    database: Database, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, kept = await half_pruned(world, monkeypatch)
    monkeypatch.setattr(events_module, "PAGE_MAX", 2)
    async with database.transaction() as tx:
        expected = await list_events_of_job(tx, kept, None, after=Moment(), page_size=100)
    assert len(expected) > 2
    for job_id in (None, kept):
        events = await read_until(database, Follower(Cursor(), job_id), 0)
        assert sorted(names(events)) == sorted(names(expected))
    assert await read_until(database, Follower(Cursor(), gone), 0) == []


@pytest.mark.parametrize(
    "name",
    [
        "list_events_of_job",
        "list_events_of_task",
        "read_events_between",
        "read_events_of_job_between",
    ],
)
async def test_an_events_columns_come_in_the_order_of_its_fields(raw: Raw, name: str) -> None:
    prepared = await raw.connection.prepare(load_statements("reads/output/events")[name].text)
    assert [column.name for column in prepared.get_attributes()] == list(Event._fields)
