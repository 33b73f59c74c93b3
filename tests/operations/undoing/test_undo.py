"""What is noted to be undone, and what is told once it has been."""

import asyncio
from datetime import timedelta

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.submitting.replay import replay
from holdfast.operations.undoing.undo import note_undos
from holdfast.operations.upkeep.partitions import prune_partition
from holdfast.store.database import Database
from tests.journeys.test_saga import a_saga, alone
from tests.world import World


async def noted(world: World) -> list[tuple[int, int, int]]:
    """List what is to be undone: job, graph, cause."""
    rows = await world.clock.fetch(
        "select job_id, graph_id, cause_job_id from holdfast.undos order by job_id"
    )
    return [tuple(row) for row in rows]


async def test_each_job_is_noted_once_with_the_first_that_failed(world: World) -> None:
    saga = await a_saga(world, root=[], left=["root"], right=["root"], last=["left", "right"])
    await saga.succeed("root")
    left, right = await saga.run("left"), await saga.run("right")
    await world.fail(left, "PermanentError")
    await world.fail(right, "PermanentError")
    await saga.settle()
    # The last never started: there is nothing of its own to undo.
    assert await noted(world) == [(1, 1, 2), (2, 1, 2), (3, 1, 3)]


async def test_noting_waits_for_the_release_and_is_no_step_until_then(world: World) -> None:
    saga = await alone(world)
    running = await saga.run("job")
    await world.cancel_job(1)
    assert await note_undos(world.ledger) == 0
    await world.clock.advance(1)
    assert await note_undos(world.ledger) == 0
    assert await noted(world) == []
    await world.complete(running, "killed")
    await world.clock.advance(1)
    assert await note_undos(world.ledger) == 1
    assert await noted(world) == [(1, 1, 1)]
    assert await note_undos(world.ledger) == 0


async def test_a_graph_without_compensations_leaves_nothing_behind(world: World) -> None:
    first = await world.submit()
    await world.submit(depends_on=[str(first)])
    [claim] = await world.claim()
    await world.fail(claim)
    await world.pass_time(1)
    assert await noted(world) == []
    assert not await world.count("outbox")


async def test_two_servers_note_and_undo_once(world: World, database_url: str) -> None:
    sagas = [await a_saga(world, a=[], b=["a"]) for _ in range(4)]
    for saga in sagas:
        await saga.succeed("a")
        await saga.fail("b")
    async with Database(database_url) as other:
        for _ in range(12):
            await world.clock.advance(1)
            await asyncio.gather(follow_up_all(world.ledger), follow_up_all(Ledger(other)))
            for claim in await world.claim(10):
                await world.succeed(claim)
    for saga in sagas:
        saga.names = {job_id: name for saga in sagas for name, job_id in saga.job_ids.items()}
        saga.undone = ["a", "b"] * len(sagas)
        await saga.check("a", "b")


async def test_an_end_that_is_told_again_writes_no_second_event(world: World) -> None:
    saga = await alone(world)
    await saga.fail("job")
    await saga.undo_all()
    await world.clock.fetch(
        "insert into holdfast.outbox (kind, job_id, created_at) values ('undone', 2, now())"
    )
    await follow_up_all(world.ledger)
    await saga.check("job")


async def test_a_part_that_is_replayed_is_not_the_whole(world: World) -> None:
    saga = await alone(world, inputs=[1, 2], on_exhausted="fail")
    for claim in await world.claim(2):
        await world.fail(claim, "PermanentError")
    await saga.settle()
    for claim in await world.claim(2):
        await world.fail(claim, "PermanentError")
    saga.undone.append("job")
    for index in (0, 1):
        await saga.settle()
        await saga.check()
        await replay(world.ledger, [TaskId(2, index)], actor="operator")
        [claim] = await world.claim()
        await world.succeed(claim)
    await saga.settle()
    await saga.check("job")


async def test_what_may_still_have_to_be_undone_outlives_retention(world: World) -> None:
    await world.clock.fetch("select setval('holdfast.job_ids', 9999)")
    saga = await a_saga(world, a=[], b=["a"])  # the last of a range, and the first of the next
    await saga.succeed("a")
    month = timedelta(days=30)
    running = await saga.run("b")
    await world.clock.advance(90 * 86_400)
    assert await prune_partition(world.ledger, month) == 0
    await world.fail(running, "PermanentError")
    await follow_up_all(world.ledger)
    await world.clock.advance(90 * 86_400)
    assert await prune_partition(world.ledger, month) == 0  # it waits for that of b
    assert await saga.undo_all() == ["b", "a"]
    await saga.check("a", "b")
    assert await prune_partition(world.ledger, month) == 1
