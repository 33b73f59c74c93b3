"""The audit of compensations: silent on a healthy ledger, and it names what is planted."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.store.database import Database
from tests.clock import Clock
from tests.journeys.test_saga import a_saga
from tests.operations.damage import Damage, a_scene, find_planted, reported
from tests.world import World


async def play_scene(ledger: Ledger, clock: Clock) -> None:
    """Leave one ledger in which every kind of undo stands.

    Of the graph of jobs 1 to 3 the last has failed; jobs 4, 5 and 6 have undone them. Of the graph
    of jobs 7 to 9 the last has failed, too: job 10 is about to undo it, and the others wait. Job 11
    succeeded.
    """
    for is_undone in (True, False):
        saga = await a_saga(World(ledger, clock), a=[], b=["a"], c=["b"])
        await saga.succeed("a", "b")
        await saga.fail("c")
        if is_undone:
            await saga.undo_all()
    assert await saga.open_undos() == ["c"]
    world = World(ledger, clock)
    job_id = await world.submit(compensation={"function": "app:undo"}, queue="other")
    [claim] = await world.claim(queue="other")
    await world.succeed(claim)
    assert job_id == 11


AN_UNDO = "insert into undos (job_id, graph_id, cause_job_id, requested_at) values "

DAMAGES = [
    Damage("undo_missing", "7", "delete from undos where job_id = 7"),
    Damage("undo_missing", "9", "delete from undos where job_id = 9",
           (("compensation_without_undo", "10"), ("undo_left_behind", "7"),
            ("undo_left_behind", "8"))),
    Damage("undo_without_reason", "11", f"{AN_UNDO} (11, 11, 9, now())",
           (("undo_left_behind", "11"),)),
    Damage("undo_without_reason", "3", "delete from attempts where job_id = 3",
           (("ending_event_without_attempt", "3.0.0"), ("failure_count_differs", "3.0"),
            ("dead_letter_differs", "3.0"))),
    Damage("undo_left_behind", "7", "update undos set ended_at = now(), succeeded = false "
           "where job_id = 9", (("undo_left_behind", "8"),
                                ("undo_differs_from_its_compensation", "9"))),
    Damage("compensation_missing", "3",
           "update undos set compensation_job_id = 99 where job_id = 3",
           (("compensation_without_undo", "4"),)),
    Damage("compensation_without_undo", "11",
           "update jobs set compensates_job_id = 8 where job_id = 11"),
    Damage("undo_differs_from_its_compensation", "2",
           "update undos set ended_at = null, succeeded = null where job_id = 2",
           (("compensated_event_differs", "2"), ("undone_out_of_order", "1"))),
    Damage("compensated_event_differs", "2",
           "delete from events where job_id = 2 and type = 'compensated'; "
           "update jobs set seq = seq - 1, event_type = 'succeeded', event_at = finished_at "
           "where job_id = 2"),
    Damage("undone_out_of_order", "1",
           "update events set id = id + 1000 where job_id = 5 and seq = 2 and task_index = -1"),
]  # fmt: skip


@pytest.fixture(scope="module")
def scene(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A database in which the scene has been played."""
    with a_scene(postgres, play_scene) as url:
        yield url


async def test_a_healthy_ledger_is_silent(scene: str) -> None:
    async with Database(scene) as database:
        assert not await reported(database)


async def drop_range(world: World, first: int, end: int) -> None:
    """Take a range of jobs away, as retention does."""
    await world.clock.fetch("select holdfast.drop_partition($1)", first)
    for table in ("dead_letters", "dependencies", "undos", "jobs"):
        await world.clock.fetch(
            f"delete from holdfast.{table} where job_id >= $1 and job_id < $2", first, end
        )


@pytest.mark.parametrize("gone", range(4))
async def test_what_retention_has_taken_is_not_missed(
    gone: int, world: World, ledger: Ledger
) -> None:
    # Each in a range of its own: what has succeeded, the job between, the cause, all that undid.
    starts = [1, 10_001, 20_001, 30_001, 40_001]
    for first, end in pairwise(starts[1:]):
        await world.clock.fetch("select holdfast.add_partition($1, $2)", first, end)
    ledger.partitions_end = starts[-1]
    await world.clock.fetch("alter sequence holdfast.job_ids increment 10000")
    saga = await a_saga(world, a=[], b=["a"], c=["b"])
    await world.clock.fetch("alter sequence holdfast.job_ids increment 1")
    await world.clock.fetch("select setval('holdfast.job_ids', 30000)")
    assert list(saga.names) == [1, 10_001, 20_001]
    await saga.succeed("a", "b")
    await saga.fail("c")
    assert await saga.undo_all() == ["c", "b", "a"]
    assert not await reported(ledger.database)
    await drop_range(world, starts[gone], starts[gone + 1])
    assert not await reported(ledger.database)


@pytest.mark.parametrize(
    "damage", DAMAGES, ids=lambda damage: f"{damage.invariant}-{damage.subject}"
)
async def test_planted_damage_is_named(scene: str, damage: Damage) -> None:
    found = await find_planted(scene, damage)
    assert (damage.invariant, damage.subject) in found
    assert found == {(damage.invariant, damage.subject), *damage.also}
