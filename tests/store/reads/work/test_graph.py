"""What people read of jobs that wait for others, on a real ledger."""

import pytest

from holdfast.errors import NotFound
from holdfast.model.submitting.spec import Submission
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database
from holdfast.store.reads.work.graph import EdgeRow, GraphRows, UnmetRow, list_unmet, read_graph
from tests.world import World


async def graph_of(
    database: Database, job_id: int, *, jobs_max: int = 1000, edges_max: int = 1000
) -> GraphRows:
    async with database.transaction() as tx:
        return await read_graph(tx, job_id, jobs_max=jobs_max, edges_max=edges_max)


async def after(world: World, *job_ids: int) -> int:
    return await world.submit(depends_on=[str(job_id) for job_id in job_ids])


async def test_a_graph_is_what_a_job_depends_on_and_what_depends_on_it(
    world: World, database: Database
) -> None:
    first = await world.submit()
    [claim] = await world.claim()
    await world.succeed(claim)
    other = await world.submit()
    left, right = await after(world, first), await after(world, first, other)
    failed = await world.submit(depends_on=[{"job": str(left), "condition": "failed"}])
    last = await after(world, left, right)
    assert await after(world, right)  # beside the left one, neither above nor below

    found = await graph_of(database, left)
    assert [node.job_id for node in found.nodes] == [first, left, failed, last]
    assert found.edges == [
        EdgeRow(left, first, "succeeded", True),
        EdgeRow(failed, left, "failed", None),
        EdgeRow(last, left, "succeeded", None),
    ]
    assert not found.is_truncated
    whole = await graph_of(database, last)
    assert [node.job_id for node in whole.nodes] == [first, other, left, right, last]
    assert len(whole.edges) == 5
    alone = await graph_of(database, await world.submit())
    assert (len(alone.nodes), alone.edges) == (1, [])
    with pytest.raises(NotFound):
        await graph_of(database, 99_999)


async def test_of_a_large_graph_the_nearest_are_read(world: World, database: Database) -> None:
    chain = [await world.submit()]
    for _ in range(6):
        chain.append(await after(world, chain[-1]))
    found = await graph_of(database, chain[3], jobs_max=3)
    assert [node.job_id for node in found.nodes] == chain[2:5]
    assert [(edge.depends_on, edge.job_id) for edge in found.edges] == [
        (chain[2], chain[3]),
        (chain[3], chain[4]),
    ]
    assert found.is_truncated
    few = await graph_of(database, chain[0], edges_max=2)
    assert (len(few.nodes), len(few.edges), few.is_truncated) == (7, 2, True)
    assert not (await graph_of(database, chain[0], jobs_max=7, edges_max=6)).is_truncated


async def test_what_undoes_a_job_is_shown_beside_it_and_left_out_first(
    world: World, database: Database
) -> None:
    first = await world.submit()
    spec = parse_spec({"entrypoint": {"function": "app:undo"}, "queue": "q"})
    undo = await submit_one(world.ledger, Submission(spec, compensates_job_id=first))
    last = await after(world, first)
    found = await graph_of(database, first)
    assert [node.job_id for node in found.nodes] == [first, undo.job_id, last]
    assert found.nodes[1].compensates_job_id == first
    few = await graph_of(database, first, jobs_max=2)
    assert ([node.job_id for node in few.nodes], few.is_truncated) == ([first, last], True)


async def test_what_is_still_waited_for_is_listed(world: World, database: Database) -> None:
    first, *others = [await world.submit() for _ in range(4)]
    last = await after(world, first, *others)
    [claim] = await world.claim()
    await world.succeed(claim)
    await follow_up_all(world.ledger)
    async with database.transaction() as tx:
        waiting = [UnmetRow(job_id, stands_still=False) for job_id in others]
        assert await list_unmet(tx, last, 20) == waiting
        assert await list_unmet(tx, last, 2) == waiting[:2]
        assert await list_unmet(tx, first, 20) == []
