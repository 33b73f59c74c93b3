"""The output of a job on a real ledger, in the order in which it came."""

from typing import Any

from holdfast.operations.claiming.claim import Claim
from holdfast.operations.logs import Stretch, append_logs
from holdfast.store.database import Database
from holdfast.store.reads.output import logs
from holdfast.store.reads.output.logs import LogPage
from holdfast.store.reads.work import jobs
from tests.world import World, fence_of


async def say(world: World, claim: Claim, offset: int, content: bytes) -> None:
    """Store some output, and let the time pass that readers keep behind."""
    await append_logs(world.ledger, [Stretch(fence_of(claim), offset, content)])
    await world.clock.advance(2)


async def read_page(database: Database, job_id: int, **how: Any) -> LogPage:
    async with database.transaction() as tx:
        job = await jobs.get_job(tx, job_id)
        return await logs.read_job_log(tx, job, **{"page_size": 100} | how)


async def read_all(database: Database, job_id: int, **how: Any) -> tuple[list[Any], LogPage]:
    """Read on until nothing more is there."""
    found: list[Any] = []
    after = logs.FIRST_STRETCH
    for _ in range(100):
        page = await read_page(database, job_id, after=after, **how)
        found += [(row.position.task_index, row.position.start_offset, row.content)
                  for row in page.stretches]  # fmt: skip
        if page.last == after:
            return found, page
        after = page.last
    raise AssertionError("the log has no end")


async def test_output_of_all_tasks_is_read_in_the_order_it_came(
    world: World, database: Database
) -> None:
    job_id = await world.submit([0, 1])
    first, second = sorted(await world.claim(2), key=lambda claim: claim.task_id)
    await say(world, second, 0, b"b0")
    await say(world, first, 0, b"a0")
    both = [Stretch(fence_of(first), 4, b"a2"), Stretch(fence_of(first), 2, b"a1")]
    await append_logs(world.ledger, both)
    await world.clock.advance(2)
    await say(world, second, 2, b"b1")
    told = [(1, 0, b"b0"), (0, 0, b"a0"), (0, 2, b"a1"), (0, 4, b"a2"), (1, 2, b"b1")]
    for how in ({}, {"page_size": 1}, {"page_size": 2}, {"bytes_max": 1}, {"bytes_max": 5}):
        found, page = await read_all(database, job_id, **how)
        assert (found, page.is_complete) == (told, False), how
    for how in ({}, {"page_size": 1}, {"bytes_max": 1}):
        found, _ = await read_all(database, job_id, task_index=1, **how)
        assert found == [row for row in told if row[0] == 1], how
    await world.succeed(first)
    await world.succeed(second)
    await world.clock.advance(2)
    assert (await read_all(database, job_id))[1].is_complete
    assert not (await read_page(database, job_id, page_size=2)).is_complete
    assert not (await read_page(database, job_id, bytes_max=1)).is_complete


async def test_a_page_holds_as_many_bytes_as_it_may_and_at_least_one_stretch(
    world: World, database: Database
) -> None:
    job_id = await world.submit()
    [claim] = await world.claim()
    for offset in (0, 10, 20):
        await say(world, claim, offset, b"x" * 10)
    sizes = [len((await read_page(database, job_id, bytes_max=n)).stretches) for n in (1, 20, 29)]
    assert sizes == [1, 2, 2]


async def test_a_stretch_that_has_grown_comes_again(world: World, database: Database) -> None:
    job_id = await world.submit()
    [claim] = await world.claim()
    await say(world, claim, 0, b"one")
    read = await read_page(database, job_id)
    await say(world, claim, 0, b"one")
    assert (await read_page(database, job_id, after=read.last)).stretches == []
    await say(world, claim, 0, b"one two")
    [grown] = (await read_page(database, job_id, after=read.last)).stretches
    assert (grown.position.start_offset, grown.content) == (0, b"one two")


async def test_output_that_came_before_its_time_was_kept_is_read_first(
    world: World, database: Database
) -> None:
    job_id = await world.submit([0, 1])
    for claim in await world.claim(2):
        await say(world, claim, 0, b"x")
    await world.clock.fetch(
        "update holdfast.logs set stored_at = 'epoch' where job_id = $1 and task_index = 1", job_id
    )
    found, _ = await read_all(database, job_id)
    assert [row[0] for row in found] == [1, 0]


async def test_a_reader_does_not_pass_what_is_still_being_written(
    world: World, database: Database
) -> None:
    """The second stretch is stored first and commits last; the reader waits for neither."""
    job_id = await world.submit([0, 1])
    slow, quick = await world.claim(2)
    async with database.transaction() as late:
        await late.connection.execute(
            "insert into holdfast.logs (job_id, task_index, attempt, start_offset, content)"
            " values ($1, $2, 0, 0, 'late')", job_id, slow.task_id.task_index
        )  # fmt: skip
        await append_logs(world.ledger, [Stretch(fence_of(quick), 0, b"quick")])
        page = await read_page(database, job_id)
        assert page.stretches == []
    await world.clock.advance(2)
    found = await read_page(database, job_id, after=page.last)
    assert [row.content for row in found.stretches] == [b"late", b"quick"]


async def test_a_reader_does_not_pass_what_takes_long_to_commit(
    world: World, database: Database
) -> None:
    job_id = await world.submit([0, 1])
    slow, quick = await world.claim(2)
    async with database.transaction() as late:
        await late.connection.execute(
            "insert into holdfast.logs (job_id, task_index, attempt, start_offset, content)"
            " values ($1, $2, 0, 0, 'late')", job_id, slow.task_id.task_index
        )  # fmt: skip
        await append_logs(world.ledger, [Stretch(fence_of(quick), 0, b"quick")])
        await world.clock.advance(5)
        page = await read_page(database, job_id)
    found = await read_page(database, job_id, after=page.last)
    contents = [row.content for row in (*page.stretches, *found.stretches)]
    assert contents == [b"late", b"quick"]


async def test_a_job_that_is_over_may_have_more_to_say_until_its_leases_are_gone(
    world: World, database: Database
) -> None:
    job_id = await world.submit()
    [claim] = await world.claim()
    await world.start(claim)
    await world.cancel_job(job_id, "hard")
    await world.clock.advance(2)
    assert (await world.job(job_id))["finished_at"] is not None
    assert not (await read_page(database, job_id)).is_complete
    await say(world, claim, 0, b"last words")
    await world.complete(claim, "killed")
    page = await read_page(database, job_id)
    assert ([row.content for row in page.stretches], page.is_complete) == ([b"last words"], True)
