"""The audit knows who may hold slots, how many there are, and what may wait behind a limit."""

from collections.abc import Iterator

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.shares import ShareRule
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.operations.sharing.rules import set_share_rule
from holdfast.operations.usage_limits.put import put_limit
from holdfast.store.database import Database
from tests.clock import Clock
from tests.operations.damage import Damage, a_scene, find_planted, reported
from tests.world import World

# Of key `k`, task 1.0 runs and 2.0 waits; of key `l`, task 3.0 runs. Task 4.0 waits in a share.
BUCKET = "(select bucket_id from limit_buckets where value = 'k')"
DAMAGES = [
    Damage(
        "limit_exceeded",
        "one of k",
        f"update leases set held = array[{BUCKET}], created_at = now() where job_id = 3",
    ),
    Damage("held_without_slots", "1.0.0", "update leases set slots = null where job_id = 1"),
    Damage("slot_of_no_limit", "1.0.0", "update leases set held = '{999}' where job_id = 1"),
    Damage(
        "too_many_limits",
        "1.0.0",
        f"update leases set held = array_fill({BUCKET}, array[5]), slots = 0 where job_id = 1",
    ),
    Damage("gated_row_differs", "2.0", "update gated set urgency = -7 where job_id = 2"),
    Damage("gated_row_differs", "2.0", "update gated set slots = 3 where job_id = 2"),
    Damage(
        "gated_row_without_task",
        "99.0",
        "insert into gated (job_id, task_index, queue, urgency, eligible_at, bucket_id, gated_at)"
        f" values (99, 0, 'q', 0, now(), {BUCKET}, now())",
    ),
    Damage("gated_in_an_idle_share", "4.0", "update shares set idle_at = now()"),
    Damage(
        "gated_row_beside_a_lease",
        "2.0",
        "insert into leases (job_id, task_index, attempt, worker_id, lease_token, created_at,"
        " expires_at, duration) select job_id, task_index, attempt, 'w1', gen_random_uuid(), now(),"
        " now(), '1 minute' from tasks where job_id = 2",
        also=(("lease_without_open_task", "2.0.0"),),
    ),
]


async def play_scene(ledger: Ledger, clock: Clock) -> None:
    """Leave a task that runs and one that waits behind it, one of another key, and a share."""
    world = World(ledger, clock)
    limit = UsageLimit(scope="key", kind="concurrency", most=1)
    await put_limit(ledger, "one", limit, actor="ann")
    await set_share_rule(ledger, "shared", ShareRule("owner"), actor="ann")
    for key in ("k", "k", "l"):
        await world.submit(concurrency_key=key)
    assert len(await world.claim() + await world.claim()) == 2
    await world.submit(queue="shared")


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
    found = await find_planted(scene_url, damage)
    assert (damage.invariant, damage.subject) in found
    assert found == {(damage.invariant, damage.subject), *damage.also}
