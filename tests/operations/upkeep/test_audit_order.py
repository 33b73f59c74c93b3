"""The audit of jobs that wait for others: silent on a healthy ledger, not on a damaged one."""

from collections.abc import Iterator

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.operations.follow_up import follow_up_all
from holdfast.store.database import Database
from tests.clock import Clock
from tests.operations.damage import Damage, a_scene, find_planted, reported
from tests.world import World


async def play_scene(ledger: Ledger, clock: Clock) -> None:
    """Leave one ledger in which every kind of dependency stands.

    Job 1 succeeded and job 2 failed; job 3 runs. Job 4 was released by job 1, and runs; job 5 was
    killed because of job 2. Job 6 waits for job 3, having had what it wanted of job 1. The end of
    job 7 has not reached job 8 yet.
    """
    world = World(ledger, clock)
    await world.watch()
    for _ in range(3):
        await world.submit(on_exhausted="fail")
    await world.submit(depends_on=["1"])
    await world.submit(depends_on=["1", "2"])
    await world.submit(depends_on=[{"job": "1", "condition": "ended"}, "3"])
    await world.succeed(await world.claim_by_id(TaskId(1, 0)))
    await world.fail(await world.claim_by_id(TaskId(2, 0)))
    await world.start(await world.claim_by_id(TaskId(3, 0)))
    await follow_up_all(ledger)
    await world.start(await world.claim_by_id(TaskId(4, 0)))
    await world.submit()
    await world.submit(depends_on=["7"])
    await world.succeed(await world.claim_by_id(TaskId(7, 0)))


def bond(job_id: int, depends_on: int) -> str:
    """Pick one dependency."""
    return f"where job_id = {job_id} and depends_on = {depends_on}"


IN_LINE = (
    "insert into ready values ('q', 0, (select eligible_at from tasks where job_id = 6), 6, 0)"
)

DAMAGES = [
    Damage("dependency_of_no_job", "99",
           "insert into dependencies values (99, 1, 'ended', now(), true)"),
    Damage("dependency_on_no_job", "8",
           f"update dependencies set depends_on = 0 {bond(8, 7)}"),
    Damage("dependency_forgotten", "8", "delete from outbox where kind = 'release'"),
    Damage("dependency_closed_too_early", "6",
           f"update dependencies set closed_at = now(), holds = false {bond(6, 3)}",
           (("left_to_wait_in_vain", "6"),)),
    Damage("dependency_differs_from_the_end", "5",
           f"update dependencies set condition = 'failed' {bond(5, 2)}"),
    Damage("dependency_differs_from_the_end", "4",
           f"update dependencies set holds = false {bond(4, 1)}",
           (("unmet_count_differs", "4"), ("released_too_early", "4"),
            ("started_before_its_release", "4"), ("left_to_wait_in_vain", "4"))),
    Damage("unmet_count_differs", "6", "update jobs set unmet = 2 where job_id = 6"),
    Damage("unmet_count_differs", "1", "update jobs set unmet = 1 where job_id = 1",
           (("started_before_its_release", "1"),)),
    Damage("released_too_early", "3", "update jobs set released_at = now() where job_id = 3"),
    Damage("started_before_its_release", "4",
           f"update dependencies set closed_at = null, holds = null {bond(4, 1)}; "
           "insert into outbox (kind, job_id, created_at) values ('release', 1, now()); "
           "update jobs set unmet = 1, released_at = null where job_id = 4"),
    Damage("left_to_wait_in_vain", "6",
           f"update dependencies set condition = 'failed', holds = false {bond(6, 1)}; "
           "update jobs set unmet = 2 where job_id = 6"),
    Damage("started_before_another_ended", "4.0",
           "update events set id = 0 where job_id = 4 and task_index = 0 and seq = 0"),
    Damage("in_line_before_its_release", "6.0", IN_LINE),
    Damage("in_line_before_its_release", "6.0",
           "insert into waiting select job_id, task_index, eligible_at from tasks "
           "where job_id = 6"),
    Damage("in_line_before_its_release", "6",
           "insert into outbox (kind, job_id, created_at) values ('feed', 6, now())"),
    Damage("two_of_a_chain_at_once", "3",
           """update jobs set spec = spec || '{"chain": "c"}' where job_id in (3, 4)"""),
]  # fmt: skip


@pytest.fixture(scope="module")
def scene_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A database in which the scene has been played."""
    with a_scene(postgres, play_scene) as url:
        yield url


async def test_the_scene_itself_is_sound(scene_url: str) -> None:
    async with Database(scene_url) as database:
        assert await reported(database) == set()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: f"{damage[0]}-{damage[1]}")
async def test_planted_damage_is_named(scene_url: str, damage: Damage) -> None:
    found = await find_planted(scene_url, damage)
    assert found == {(damage.invariant, damage.subject), *damage.also}
