"""The outbox through its functions."""

from datetime import timedelta

from holdfast.store.database import Transaction
from holdfast.store.tables.upkeep.outbox import (
    FollowUp,
    OutboxRow,
    advance_outbox,
    delete_done_releases,
    delete_outbox,
    drop_childless_ends,
    insert_outbox,
    let_outbox_wait,
    list_outbox,
    lock_outbox,
    lock_undo_graph,
    pace_outbox,
    put_off_outbox,
    put_off_releases,
    take_outbox,
    take_small_sweeps,
)
from tests.world import World


async def test_work_is_left_listed_advanced_and_done(world: World, tx: Transaction) -> None:
    job_id = await world.submit()
    await insert_outbox(tx, [FollowUp("feed", job_id, 7), FollowUp("sweep", job_id)])
    [feed] = await list_outbox(tx, ["feed"], batch_max=9)
    assert feed.job_id == job_id
    assert await lock_outbox(tx, feed.id) == FollowUp("feed", job_id, 7)
    await advance_outbox(tx, feed.id, 9)
    assert await lock_outbox(tx, feed.id) == FollowUp("feed", job_id, 9)
    await pace_outbox(tx, feed.id, 11, pause=timedelta(minutes=1))
    assert await lock_outbox(tx, feed.id) == FollowUp("feed", job_id, 11)
    assert await list_outbox(tx, ["feed"], batch_max=9) == []
    await delete_outbox(tx, [feed.id])
    assert await lock_outbox(tx, feed.id) is None
    [sweep] = await take_small_sweeps(tx, tasks_max=1, batch_max=9)
    assert sweep.job_id == job_id
    await put_off_outbox(tx, [sweep.id], timedelta(minutes=1))
    assert await list_outbox(tx, ["sweep"], batch_max=9) == []


async def test_each_kind_has_its_own_way_out(world: World, tx: Transaction) -> None:
    job_id = await world.submit()
    kinds = ("release", "undo", "undo_graph", "job_ended")
    await insert_outbox(tx, [FollowUp(kind, job_id) for kind in kinds])
    [undo] = await take_outbox(tx, "undo", batch_max=9)
    assert await take_outbox(tx, "undo", row_ids=[undo.id], batch_max=9) == [undo]
    assert await take_outbox(tx, "undo", row_ids=[undo.id + 100], batch_max=9) == []
    assert undo.job_id == job_id
    [graph] = await lock_undo_graph(tx, job_id)
    assert await list_outbox(tx, ["undo_graph"], batch_max=9) == [OutboxRow(graph, job_id)]
    await let_outbox_wait(tx, [graph])
    assert await list_outbox(tx, ["undo_graph"], batch_max=9) == []
    assert await drop_childless_ends(tx, 9) == 1


async def test_the_end_of_a_job_is_followed_up_until_nobody_waits_for_it(
    world: World, tx: Transaction
) -> None:
    first, other = await world.submit(), await world.submit()
    waiting = await world.submit(depends_on=[str(first)])
    await insert_outbox(tx, [FollowUp("release", job_id) for job_id in (first, other)])
    rows = await take_outbox(tx, "release", batch_max=9)
    await delete_done_releases(tx, [row.id for row in rows])
    [left] = await take_outbox(tx, "release", batch_max=9)
    assert left.job_id == first
    await put_off_releases(tx, [waiting, other], timedelta(minutes=1))
    assert await take_outbox(tx, "release", batch_max=9) == []
