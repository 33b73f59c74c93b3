"""Turns through their function: what the columns of an empty one say, and what tokens are."""

from holdfast.store.database import Database
from holdfast.store.tables.work.attempts import Success
from holdfast.store.tables.work.ready import FIRST_PLACE
from holdfast.store.tables.work.turns import Asking, take_turn
from tests.world import World, fence_of

ASKING = Asking("w1", 3, None, None, start=True)


async def test_tokens_are_random_uuids_and_all_different(database: Database, world: World) -> None:
    await world.submit(replicas=5)
    turn = await take_turn(
        database,
        [],
        [ASKING, ASKING],
        places={"q": FIRST_PLACE},
        is_bounded=False,
        notes_places=False,
    )
    assert turn.requests == [1, 1, 1, 2, 2]
    tokens = turn.tokens or []
    assert len(set(tokens)) == 5
    assert {(token.version, token.variant) for token in tokens} == {(4, "specified in RFC 4122")}


async def test_the_first_task_of_each_queue_is_noted_where_it_is_asked_for(
    database: Database, world: World
) -> None:
    late = await world.submit(queue="a", replicas=2)
    early = await world.submit(queue="b", priority=7)
    places = dict.fromkeys(("a", "b", "empty"), FIRST_PLACE)
    turn = await take_turn(
        database, [], [ASKING], places=places, is_bounded=False, notes_places=True
    )
    assert (turn.found_queues, turn.found_job_ids) == (["a", "b"], [late, early])
    assert turn.found_urgencies == [0, -7]


async def test_ends_alone_claim_nothing(database: Database, world: World) -> None:
    await world.submit(replicas=2)
    [mine] = await world.claim()
    await world.start(mine)
    turn = await take_turn(
        database,
        [Success(fence_of(mine), None)],
        [],
        places={},
        is_bounded=False,
        notes_places=False,
    )
    assert (turn.ended, turn.ended_workers) == ([1], ["w1"])
    assert (turn.requests, turn.is_repeated, turn.ended_job_ids) == (None, False, None)
    assert await world.count("ready") == 1
