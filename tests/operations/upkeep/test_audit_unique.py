"""The audit knows who should hold the key of a unique job, and what should expire."""

from collections.abc import Iterator

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.store.database import Database
from tests.clock import Clock
from tests.operations.damage import Damage, a_scene, find_planted, reported
from tests.world import World

# Job 1 runs, job 2 waits and job 3 has succeeded; all of them are unique. Job 4 expires.
DAMAGES = [
    Damage("unique_key_without_job", "9", "insert into unique_jobs values ('x', 9)"),
    Damage("unique_key_kept_too_long", "3", "insert into unique_jobs values ('x', 3)"),
    Damage("unique_job_without_key", "1", "delete from unique_jobs where job_id = 1"),
    Damage("unique_job_without_key", "2", "delete from unique_jobs where job_id = 2"),
    Damage(
        "unique_states_differ_from_the_spec",
        "2",
        "update jobs set unique_states = 2 where job_id = 2",
    ),
    Damage("job_without_its_expiry", "4", "delete from expiries"),
    Damage("expiry_without_job", "9", "insert into expiries values (9, now())"),
    Damage("expiry_without_job", "1", "insert into expiries values (1, now())"),
]


async def play_scene(ledger: Ledger, clock: Clock) -> None:
    """Leave three unique jobs: one runs, one waits, one has succeeded; and one that expires."""
    world = World(ledger, clock)
    await world.submit(unique={"values": [1]})
    await world.submit(unique={"values": [2]})
    await world.submit(unique={"values": [3]}, queue="other")
    await world.submit(queue="late", expires=1000.0)
    await world.claim()
    [claim] = await world.claim(queue="other")
    await world.succeed(claim)


@pytest.fixture(scope="module")
def scene_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The database in which the scene has been played."""
    with a_scene(postgres, play_scene) as url:
        yield url


async def test_the_scene_itself_is_sound(scene_url: str) -> None:
    async with Database(scene_url) as database:
        assert await reported(database) == set()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: f"{damage[0]}-{damage[1]}")
async def test_planted_damage_is_named(scene_url: str, damage: Damage) -> None:
    assert await find_planted(scene_url, damage) == {(damage.invariant, damage.subject)}
