"""What is read to resume a graph, and which replays are kept as continuations."""

import asyncpg
import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.operations.dead_letters import discard
from holdfast.operations.submitting.replay import replay
from holdfast.operations.submitting.rerun import rerun
from holdfast.store.tables.order.continuations import (
    hold_streams,
    insert_continuations,
    list_replays,
    lock_open_letters,
    lock_streams,
    read_resumable,
    walk_broken,
)
from holdfast.store.tables.upkeep.partitions import delete_rows_of_jobs
from tests.operations.letters import dead_inputs
from tests.world import World


async def test_a_replay_of_all_that_did_not_succeed_is_a_continuation(
    ledger: Ledger, world: World
) -> None:
    fields = {"max_attempts": 1}
    job_id = await dead_inputs(world, 4, 2, **fields)
    waiting = await world.submit(depends_on=[str(job_id)])
    await world.run_chores()
    async with ledger.database.transaction() as tx:
        assert sorted(await walk_broken(tx, [waiting], count_max=9)) == [job_id, waiting]
        assert len(await walk_broken(tx, [waiting], count_max=1)) == 1
        letters = await lock_open_letters(tx, [job_id, waiting])
        assert letters == [TaskId(job_id, 0), TaskId(job_id, 1)]
        seen = (await read_resumable(tx, [job_id, 999]))[job_id]
        assert (seen.num_tasks, seen.succeeded, seen.continues) == (4, 2, None)
        assert await lock_streams(tx, [job_id]) == {job_id: seen.seq}
        for table in ("jobs", "dead_letters"):
            with pytest.raises(asyncpg.LockNotAvailableError):
                await world.clock.fetch(
                    f"select from holdfast.{table} where job_id = $1 for update nowait", job_id
                )
    [made] = await replay(ledger, letters, actor="ann")
    assert made.job_id is not None
    last = await rerun(ledger, job_id, actor="ann")
    async with ledger.database.transaction() as tx:
        assert await list_replays(tx, [job_id]) == [(job_id, made.job_id), (job_id, last.job_id)]
        assert (await read_resumable(tx, [made.job_id]))[made.job_id].continues == job_id
        assert (await lock_streams(tx, [job_id]))[job_id] > seen.seq
        assert await hold_streams(tx, [job_id]) == await lock_streams(tx, [job_id])
        assert await delete_rows_of_jobs(tx, [made.job_id], rows_max=9, large_rows_max=9)
        assert (await read_resumable(tx, [made.job_id]))[made.job_id].continues is None


async def test_a_part_or_a_whole_is_none(ledger: Ledger, world: World) -> None:
    job_id = await dead_inputs(world, 4, 2, max_attempts=1)
    [part] = await replay(ledger, [TaskId(job_id, 0)], actor="ann")
    async with ledger.database.transaction() as tx:
        assert await lock_open_letters(tx, [job_id]) == [TaskId(job_id, 1)]
    await discard(ledger, [TaskId(job_id, 1)], actor="ann")
    async with ledger.database.transaction() as tx:
        assert await lock_open_letters(tx, [job_id]) == []
    none_good = await dead_inputs(world, 1, 1, max_attempts=1, queue="other")
    [whole] = await replay(ledger, [TaskId(none_good, 0)], actor="ann")
    assert part.job_id is not None
    assert whole.job_id is not None
    async with ledger.database.transaction() as tx:
        await insert_continuations(tx, [part.job_id, whole.job_id])
        found = await read_resumable(tx, [part.job_id, whole.job_id])
    assert [job.continues for job in found.values()] == [None, None]


@pytest.mark.parametrize(
    ("damage", "is_continued"),
    [
        ("set event_at = event_at where job_id = $1", True),
        ("set running = 1, dead_lettered = 1 where job_id = $1", False),
        ("set fan_out = false where job_id = $1", False),
    ],
    ids=["sound", "still stopping", "replicas"],
)
async def test_what_is_continued_has_inputs_and_has_come_to_rest(
    ledger: Ledger, world: World, damage: str, is_continued: bool
) -> None:
    job_id = await dead_inputs(world, 4, 2, max_attempts=1)
    letters = [TaskId(job_id, 0), TaskId(job_id, 1)]
    [made] = await replay(ledger, letters, actor="ann")
    assert made.job_id is not None
    await world.clock.fetch("delete from holdfast.continuations")
    await world.clock.fetch("set session_replication_role = replica")
    await world.clock.fetch(f"update holdfast.jobs {damage}", job_id)
    async with ledger.database.transaction() as tx:
        await insert_continuations(tx, [made.job_id])
        [found] = (await read_resumable(tx, [made.job_id])).values()
        assert (found.continues == job_id) is is_continued
        assert (await read_resumable(tx, [job_id]))[job_id].live == int("running" in damage)
    await world.clock.fetch(
        "update holdfast.jobs set submitted_at = null where job_id = $1", job_id
    )
    async with ledger.database.transaction() as tx:
        assert await read_resumable(tx, [job_id]) == {}, "a submission that is still arriving"
