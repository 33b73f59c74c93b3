"""What waited for a replayed job goes on with it, and only that."""

import pytest

from holdfast.errors import TooLarge
from holdfast.ledger.keys import request_key
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Limits
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import JobState
from holdfast.operations.submitting.release import Broken, find_broken, release
from holdfast.operations.submitting.replay import replay
from tests.audits import assert_audit_is_silent
from tests.operations.broken_graphs import broken_graph, states, waits_of, work
from tests.world import World

SUCCEEDED = JobState.SUCCEEDED


async def test_what_waited_goes_on_with_the_replay_once(ledger: Ledger, world: World) -> None:
    extract, table, join, report = await broken_graph(world)
    broken = await find_broken(ledger, [extract, table], to_resume=True)
    assert broken == Broken(frozenset({extract}), (join, report))
    [made] = await replay(ledger, [TaskId(extract, 2)], actor="ann")
    keyed = request_key("replay", "ann", "once", request=[])
    first, again = [
        await release(ledger, [extract, extract], known, actor="ann", keyed=keyed, rebind=False)
        for known in (broken, Broken())
    ]
    assert first == again
    assert [each.replay_of for each in first.resumed] == [join, report]
    assert first.not_resumed == {}
    assert await waits_of(world, first.resumed[0].job_id) == [table, made.job_id]
    assert await find_broken(ledger, [extract], to_resume=True) == Broken(), "they are run again"
    await work(world)
    assert await states(world, *(each.job_id for each in first.resumed)) == [SUCCEEDED] * 2
    await assert_audit_is_silent(ledger.database)


async def test_too_many_to_be_resumed_are_refused_only_if_they_are_to_be(
    ledger: Ledger, world: World
) -> None:
    extract, _, join, _ = await broken_graph(world)
    small = Ledger(ledger.database, limits=Limits(graph_jobs_max=2))
    with pytest.raises(TooLarge, match="resume"):
        await find_broken(small, [extract], to_resume=True)
    assert join in (await find_broken(small, [extract], to_resume=False)).in_vain


async def test_what_needs_more_than_the_replay_waits_and_says_why(
    ledger: Ledger, world: World
) -> None:
    extract = await world.submit(["a", "b", "c"])
    join = await world.submit(depends_on=[str(extract)])
    await work(world, "b", "c")
    broken = await find_broken(ledger, [extract], to_resume=True)
    assert broken.in_vain == (join,)
    await replay(ledger, [TaskId(extract, 1)], actor="ann")
    await work(world)
    released = await release(ledger, [extract], broken, actor="ann", keyed=None, rebind=False)
    assert released.resumed == []
    assert "short of tasks that did not succeed" in released.not_resumed[extract]
    # The rest of them is replayed: now all of it is there, in two replays.
    await replay(ledger, [TaskId(extract, 2)], actor="ann")
    await work(world)
    released = await release(ledger, [extract], broken, actor="ann", keyed=None, rebind=False)
    assert [each.replay_of for each in released.resumed] == [join]
    await work(world)
    assert await states(world, released.resumed[0].job_id) == [SUCCEEDED]


async def test_what_failed_besides_and_was_not_replayed_does_not_run_again(
    ledger: Ledger, world: World
) -> None:
    one, two = await world.submit(), await world.submit()
    join = await world.submit(depends_on=[str(one), str(two)])
    await work(world, one, two)
    broken = await find_broken(ledger, [one], to_resume=True)
    assert broken == Broken(frozenset({one}), (join,))
    await replay(ledger, [TaskId(one, 0)], actor="ann")
    released = await release(ledger, [one], broken, actor="ann", keyed=None, rebind=False)
    assert released.resumed == []
    assert f"job {two}: it is DEAD_LETTERED and not replayed" in released.not_resumed[one]
    assert [letter.job_id for letter in await world.dead_letters()] == [two]
    await replay(ledger, [TaskId(two, 0)], actor="ann")
    released = await release(ledger, [one], broken, actor="ann", keyed=None, rebind=False)
    assert [each.replay_of for each in released.resumed] == [join]
    await work(world)
    assert await states(world, released.resumed[0].job_id) == [SUCCEEDED]
