"""The tables of schedules defend themselves, and what is not due is not read."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from holdfast.model.submitting.schedules import Missed
from holdfast.operations.schedules.change import delete_schedule, pause_schedule
from holdfast.operations.upkeep.prune import Retention, prune
from holdfast.store.database import Database
from holdfast.store.statements import load_statements
from holdfast.store.tables.submitting import schedules
from holdfast.store.tables.submitting.schedules import NewFiring, NewSchedule
from tests.timetable import Timetable, a_template, at
from tests.world import World

MIDNIGHT = at("2030-01-01T00:00")


async def insert(database: Database, name: str, **fields: Any) -> int:
    known = {
        "spec": '{"entrypoint": {"function": "app:work"}}',
        "inputs": None,
        "placed": False,
        "terms": '{"cron": "@daily"}',
        "actor": "ann",
        "next_at": MIDNIGHT,
        "due_at": MIDNIGHT,
    }
    async with database.transaction() as tx:
        assert await schedules.insert_schedule(
            tx, name, NewSchedule(**known | fields), declared_by=None
        )
        found = await schedules.lock_schedule(tx, name)
    assert found is not None
    return found.schedule_id


async def test_an_instant_has_one_job_and_a_job_one_instant(database: Database) -> None:
    number = await insert(database, "s")
    first = NewFiring(number, MIDNIGHT, "scheduled", "fired", 7)
    async with database.transaction() as tx:
        assert await schedules.insert_firings(tx, [first]) == {(number, MIDNIGHT)}
        assert await schedules.insert_firings(tx, [first._replace(job_id=8)]) == set()
        assert await schedules.list_fired(tx, number, [MIDNIGHT]) == {MIDNIGHT}
    twin = first._replace(instant=MIDNIGHT + timedelta(days=1))
    async with database.transaction() as tx:
        with pytest.raises(asyncpg.UniqueViolationError, match="a_job_is_of_one_firing"):
            await schedules.insert_firings(tx, [twin])


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("update schedules set next_at = null", "what_is_due_has_an_instant"),
        ("update schedules set paused_at = now(), paused_by = 'a'",
         "a_schedule_that_rests_is_not_due"),
        ("update schedules set retired_at = now(), due_at = null, next_at = null",
         "only_declared_schedules_retire"),
        ("update schedule_firings set job_id = null, is_open = false",
         "what_was_fired_has_a_job"),
        ("update schedule_firings set outcome = 'lost'", "firings_have_an_outcome"),
        ("update schedule_firings set kind = 'odd'", "firings_are_of_a_kind"),
        ("update schedule_misses set instants = 0", "misses_have_an_order"),
    ],
)  # fmt: skip
async def test_what_must_never_be_is_refused(
    database: Database, world: World, change: str, constraint: str
) -> None:
    number = await insert(database, "s")
    async with database.transaction() as tx:
        firing = NewFiring(number, MIDNIGHT, "scheduled", "fired", 7)
        await schedules.insert_firings(tx, [firing])
        await schedules.insert_misses(tx, [(number, Missed(MIDNIGHT, MIDNIGHT, 1))])
    with pytest.raises(asyncpg.CheckViolationError, match=constraint):
        await world.clock.fetch(change.replace("update ", "update holdfast."))


async def test_what_is_not_due_is_not_read(database: Database, world: World) -> None:
    await world.clock.fetch(
        "insert into holdfast.schedules (name, spec, terms, created_at, created_by, changed_at, "
        "changed_by, next_at, due_at) select 's' || n, '{}', '{}', now(), 'a', now(), 'a', "
        "now() + interval '1 day', now() + interval '1 day' from generate_series(1, 2000) as n"
    )
    statement = load_statements("submitting/schedules")["list_due_schedules"]
    async with database.transaction() as tx:
        rows = await tx.connection.fetch(f"explain analyze {statement.text}", 100)
    plan = "\n".join(row[0] for row in rows)
    assert "schedules_by_due" in plan
    assert "Rows Removed" not in plan, plan


async def test_old_firings_and_misses_go_with_old_jobs(world: World) -> None:
    timetable = Timetable(world)
    await timetable.go_to(MIDNIGHT + timedelta(seconds=0.5))
    await timetable.set(cron="0 * * * *", overlap="skip")
    await timetable.go_to(MIDNIGHT + timedelta(hours=3, minutes=30))
    await timetable.fire()
    await timetable.go_to(MIDNIGHT + timedelta(hours=4))
    await timetable.fire()
    await timetable.go_to(MIDNIGHT + timedelta(hours=5))
    await timetable.fire()
    assert [f.outcome for f in await timetable.firings()] == ["fired", "skipped"]
    await timetable.go_to(MIDNIGHT + timedelta(days=40))
    await prune(world.ledger, Retention(jobs=timedelta(days=30)))
    # The job of the first has not ended: the next firing still has to know of it.
    assert [f.outcome for f in await timetable.firings()] == ["fired"]
    assert await timetable.missed() == []


async def test_the_last_firing_of_a_schedule_that_fires_no_more_goes_with_its_job(
    world: World,
) -> None:
    timetable = Timetable(world)
    await timetable.go_to(MIDNIGHT + timedelta(seconds=0.5))
    for name in ("gone", "paused", "busy"):
        await timetable.set(name, a_template(queue=name), cron="0 1 * * *")
    await timetable.go_to(MIDNIGHT + timedelta(hours=1))
    await timetable.fire()
    await pause_schedule(world.ledger, "paused", actor="ann")
    await pause_schedule(world.ledger, "busy", actor="ann")
    for name in ("gone", "paused"):
        [claim] = await world.claim(queue=name)
        await world.start(claim)
        if name == "paused":  # its job ends long after it was fired
            await timetable.go_to(MIDNIGHT + timedelta(days=20))
        await world.succeed(claim)
    await delete_schedule(world.ledger, "gone", actor="ann")

    async def firings_at(day: int) -> int:
        await timetable.go_to(MIDNIGHT + timedelta(days=day))
        await prune(world.ledger, Retention(jobs=timedelta(days=30)))
        return await world.count("schedule_firings")

    assert await firings_at(29) == 3
    assert await firings_at(40) == 2, "as long as a job is kept, so is what it was for"
    assert await firings_at(60) == 1
    assert [f.outcome for f in await timetable.firings("busy")] == ["fired"]
