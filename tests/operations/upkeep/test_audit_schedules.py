"""The audit of schedules: silent about a sound scene, and it names each damage done to it."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.store.database import Database
from tests.clock import Clock
from tests.operations.damage import Damage, a_scene, find_planted, reported
from tests.timetable import HOUR, MINUTE, Timetable, at
from tests.world import World

MIDNIGHT = at("2030-01-01T00:00")
JOB = "(select min(job_id) from schedule_firings where kind = 'scheduled')"
DAMAGES = [
    Damage("firing_without_its_job", "s", f"delete from tasks where job_id = {JOB};"
           f"delete from ready where job_id = {JOB}; delete from events where job_id = {JOB};"
           f"delete from job_states where job_id = {JOB}; delete from jobs where job_id = {JOB}"),
    Damage("firing_differs_from_its_job", "s",
           "update schedule_firings set instant = instant + interval '1 s' "
           "where kind = 'caught_up'"),
    Damage("firing_differs_from_its_job", "t", "update schedules set name = 't'"),
    Damage("firing_closed_too_early", "s",
           f"update schedule_firings set is_open = false where job_id = {JOB}"),
    Damage("next_instant_was_fired", "s",
           "update schedules set next_at = next_at - interval '1 hour'"),
    Damage("missed_instant_was_fired", "s",
           "update schedule_misses set last_instant = last_instant + interval '1 hour'"),
    Damage("misses_overlap", "s",
           "insert into schedule_misses select schedule_id, last_instant, last_instant, 1, "
           "noted_at from schedule_misses"),
]  # fmt: skip


async def play_scene(ledger: Ledger, clock: Clock) -> None:
    """Play a schedule that was late, caught up and is on time again, with one by hand."""
    timetable = Timetable(World(ledger, clock))
    await timetable.go_to(MIDNIGHT + timedelta(seconds=0.5))
    await timetable.set(cron="0 * * * *", catch_up="one", overlap="allow")
    await timetable.go_to(MIDNIGHT + 5 * HOUR + 5 * MINUTE)
    await timetable.fire()
    await timetable.go_to(MIDNIGHT + 6 * HOUR)
    await timetable.fire()


@pytest.fixture(scope="module")
def scene_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The scene, played once for all damages."""
    with a_scene(postgres, play_scene) as url:
        yield url


async def test_the_audit_has_nothing_to_say_of_the_scene(scene_url: str) -> None:
    async with Database(scene_url) as database:
        assert await reported(database) == set()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: f"{damage[0]}-{damage[1]}")
async def test_the_audit_names_what_is_planted(scene_url: str, damage: Damage) -> None:
    found = await find_planted(scene_url, damage)
    assert (damage.invariant, damage.subject) in found
    assert {invariant for invariant, _ in found} <= {damage.invariant, "task_events_missing"}, found
