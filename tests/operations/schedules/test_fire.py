"""Each instant fires once: whoever looks, whoever dies, and whatever has become of it since."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import asyncpg
import msgspec
import pytest

from holdfast.errors import Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.server_limits import ServerLimits
from holdfast.operations.schedules.by_hand import run_now
from holdfast.operations.schedules.change import pause_schedule
from holdfast.operations.schedules.fire import fire_due
from holdfast.operations.submitting.admit import admit
from holdfast.rules.schedules.turn import Turn, decide_turn
from holdfast.store.database import Database
from holdfast.store.tables.submitting import schedules
from tests.audits import assert_audit_is_silent
from tests.timetable import HOUR, MINUTE, Timetable, a_template, at
from tests.world import World

FIRE_ADMIT = "holdfast.operations.schedules.fire.admit"
MIDNIGHT = at("2030-01-01T00:00")


async def test_an_instant_that_has_come_is_a_job(timetable: Timetable, world: World) -> None:
    job = a_template(inputs=[1, 2], environment={"A": "1"}, labels={"team": "x"})
    assert await timetable.set("daily", job, cron="0 3 * * *", tz="Europe/Berlin")
    assert await timetable.fire() == 0
    await timetable.go_to(at("2030-01-01T02:00:00.1"))
    assert await timetable.fire() == 1
    assert await timetable.fire() == 0
    [firing] = await timetable.firings("daily")
    assert firing[:3] == (at("2030-01-01T02:00"), "scheduled", "fired")
    assert firing.job_id is not None
    row = await world.job(firing.job_id)
    spec = msgspec.json.decode(row["spec"])
    assert spec["environment"] == {
        "A": "1",
        "HOLDFAST_SCHEDULE": "daily",
        "HOLDFAST_SCHEDULED_AT": "2030-01-01T02:00:00Z",
    }
    assert msgspec.json.decode(row["labels"]) == {"team": "x", "schedule": "daily"}
    assert row["num_tasks"] == 2
    assert len(await world.claim(10)) == 2
    assert (await timetable.row("daily"))["next_at"] == at("2030-01-02T02:00")
    await assert_audit_is_silent(world.ledger.database)


@pytest.mark.parametrize(
    ("catch_up", "fired", "missed"),
    [
        ("skip", [], [(MIDNIGHT + HOUR, MIDNIGHT + 5 * HOUR, 5)]),
        ("one", [5], [(MIDNIGHT + HOUR, MIDNIGHT + 4 * HOUR, 4)]),
        ("all", [3, 4, 5], [(MIDNIGHT + HOUR, MIDNIGHT + 2 * HOUR, 2)]),
    ],
)
async def test_what_nobody_looked_at_is_caught_up_with_or_missed(
    timetable: Timetable, catch_up: str, fired: list[int], missed: list[Any]
) -> None:
    await timetable.set(cron="0 * * * *", catch_up=catch_up, catch_up_max=3, overlap="allow")
    await timetable.go_to(MIDNIGHT + 5.5 * HOUR)
    await timetable.fire()
    found = await timetable.firings()
    assert [(f.instant, f.kind) for f in found] == [
        (MIDNIGHT + hours * HOUR, "caught_up") for hours in fired
    ]
    assert await timetable.missed() == missed
    await timetable.go_to(MIDNIGHT + 6 * HOUR)
    await timetable.fire()
    assert (await timetable.firings())[-1][:2] == (MIDNIGHT + 6 * HOUR, "scheduled")
    await assert_audit_is_silent(timetable.ledger.database)


async def test_who_overlaps_is_skipped(timetable: Timetable, world: World) -> None:
    await timetable.set(cron="* * * * *", overlap="skip")
    for minute in (1, 2):
        await timetable.go_to(MIDNIGHT + minute * MINUTE)
        await timetable.fire()
    first, second = await timetable.firings()
    assert first.job_id is not None
    assert second[2:] == ("skipped", None, f"job {first.job_id} of an earlier firing has not ended")
    await timetable.finish(first.job_id)
    await timetable.go_to(MIDNIGHT + 3 * MINUTE)
    await timetable.fire()
    assert (await timetable.firings())[2].outcome == "fired"
    await assert_audit_is_silent(world.ledger.database)


async def test_who_overlaps_queues_behind_all_before_it(timetable: Timetable, world: World) -> None:
    await timetable.set(cron="* * * * *", overlap="queue")
    for minute in (1, 2, 3):
        await timetable.go_to(MIDNIGHT + minute * MINUTE)
        await timetable.fire()
    first, second, third = [f.job_id for f in await timetable.firings() if f.job_id is not None]
    # One that is taken out of the queue does not let those behind it past those before it.
    await world.cancel_job(second)
    await timetable.finish(first)
    await timetable.finish(third)
    await assert_audit_is_silent(world.ledger.database)


async def test_who_overlaps_has_the_old_one_cancelled_and_runs_after_it(
    timetable: Timetable, world: World
) -> None:
    await timetable.set(cron="* * * * *", overlap="cancel")
    await timetable.go_to(MIDNIGHT + MINUTE)
    await timetable.fire()
    [old] = await world.claim()
    await world.start(old)
    await timetable.go_to(MIDNIGHT + 2 * MINUTE)
    await timetable.fire()
    first, second = [f.job_id for f in await timetable.firings()]
    row = await world.job(first or 0)
    assert (row["cancel_mode"], row["cancel_reason"]) == (
        "soft", "the next firing of its schedule has come",
    )  # fmt: skip
    assert not await world.claim()
    await world.complete(old, "killed")
    await world.run_chores()
    [new] = await world.claim()
    assert new.task_id.job_id == second
    await assert_audit_is_silent(world.ledger.database)


async def test_jitter_puts_off_the_firing_and_not_its_instant(timetable: Timetable) -> None:
    await timetable.set(cron="0 1 * * *", jitter=600.0)
    due = (await timetable.row())["due_at"]
    assert MIDNIGHT + HOUR < due < MIDNIGHT + HOUR + 10 * MINUTE
    await timetable.go_to(due - timedelta(seconds=5))
    assert await timetable.fire() == 0
    await timetable.go_to(due)
    await timetable.fire()
    assert (await timetable.firings())[0].instant == MIDNIGHT + HOUR


async def test_an_end_is_the_last_instant(timetable: Timetable) -> None:
    await timetable.set(cron="0 * * * *", end_at=MIDNIGHT + HOUR)
    await timetable.go_to(MIDNIGHT + HOUR)
    await timetable.fire()
    row = await timetable.row()
    assert (row["next_at"], row["due_at"]) == (None, None)
    assert len(await timetable.firings()) == 1


async def test_a_job_that_is_refused_is_noted_and_the_next_instant_is_another_matter(
    timetable: Timetable, world: World
) -> None:
    await timetable.set("good", cron="* * * * *")
    await timetable.set("bad", cron="* * * * *")
    query = "update holdfast.schedules set spec = spec || '{\"queue\": \"?\"}' where name = 'bad'"
    await world.clock.fetch(query)
    await timetable.go_to(MIDNIGHT + MINUTE)
    await timetable.fire()
    [refused] = await timetable.firings("bad")
    assert refused.outcome == "refused"
    assert "not a queue name" in (refused.problem or "")
    assert [f.outcome for f in await timetable.firings("good")] == ["fired"]
    assert (await timetable.row("bad"))["next_at"] == MIDNIGHT + 2 * MINUTE


async def test_one_that_cannot_be_read_holds_up_nobody(timetable: Timetable, world: World) -> None:
    await timetable.set("good", cron="* * * * *")
    await timetable.set("bad", cron="* * * * *")
    query = "update holdfast.schedules set terms = '{\"cron\": \"no\"}' where name = 'bad'"
    await world.clock.fetch(query)
    await timetable.go_to(MIDNIGHT + MINUTE)
    await timetable.fire()
    assert [f.outcome for f in await timetable.firings("good")] == ["fired"]
    row = await timetable.row("bad")
    assert "wrong number of fields" in row["problem"]
    assert row["due_at"] > MIDNIGHT + 5 * MINUTE


async def break_writing(world: World, *names: str) -> None:
    """Have the database refuse every firing of some schedules."""
    rows = await world.clock.fetch(
        "select schedule_id from holdfast.schedules where name = any ($1)", list(names)
    )
    broken = ", ".join(str(row[0]) for row in rows)
    await world.clock.fetch(
        "alter table holdfast.schedule_firings "
        f"add constraint broken check (schedule_id not in ({broken}))"
    )


async def test_one_that_cannot_be_written_is_put_off_and_said(
    timetable: Timetable, world: World
) -> None:
    for name in ("bad", "good", "better"):
        await timetable.set(name, cron="* * * * *")
    await break_writing(world, "bad")
    await timetable.go_to(MIDNIGHT + MINUTE)
    with pytest.raises(asyncpg.CheckViolationError, match="broken"):
        await fire_due(timetable.ledger)
    for name in ("good", "better"):
        assert [f.outcome for f in await timetable.firings(name)] == ["fired"]
    row = await timetable.row("bad")
    assert 'violates check constraint "broken"' in row["problem"]
    assert "DETAIL" not in row["problem"], "what the row holds is not for everybody"
    assert row["due_at"] > MIDNIGHT + 5 * MINUTE
    assert row["next_at"] == MIDNIGHT + MINUTE
    await world.clock.fetch("alter table holdfast.schedule_firings drop constraint broken")
    await timetable.go_to(row["due_at"])
    await timetable.fire()
    [(first_missed, _, _)] = await timetable.missed("bad")
    assert first_missed == MIDNIGHT + MINUTE
    assert (await timetable.row("bad"))["problem"] is None


async def test_those_that_cannot_be_written_starve_nobody(
    timetable: Timetable, world: World
) -> None:
    for name in ("bad", "worse", "good"):
        await timetable.set(name, cron="* * * * *")
    await break_writing(world, "bad", "worse")
    await world.clock.fetch(
        "update holdfast.schedules set due_at = due_at - interval '1 second' where name <> 'good'"
    )
    await timetable.go_to(MIDNIGHT + MINUTE)
    with pytest.raises(asyncpg.CheckViolationError):
        await fire_due(timetable.ledger, 2)
    assert await fire_due(timetable.ledger, 2) == 1
    assert [f.outcome for f in await timetable.firings("good")] == ["fired"]


async def test_one_whose_job_somebody_holds_is_tried_again_soon(
    timetable: Timetable, world: World, database_url: str
) -> None:
    await timetable.set("held", cron="* * * * *", overlap="cancel")
    await timetable.set("free", cron="* * * * *")
    await timetable.go_to(MIDNIGHT + MINUTE)
    await timetable.fire()
    await timetable.go_to(MIDNIGHT + 2 * MINUTE)
    [first] = await timetable.firings("held")
    async with Database(database_url) as other, other.transaction() as tx:
        query = f"select from holdfast.jobs where job_id = {first.job_id} for update"
        await tx.connection.fetch(query)
        assert await fire_due(timetable.ledger) == 2
    assert len(await timetable.firings("free")) == 2
    row = await timetable.row("held")
    assert row["problem"] is not None
    assert row["due_at"] < MIDNIGHT + 3 * MINUTE
    await timetable.go_to(row["due_at"])
    await timetable.fire()
    assert [f.outcome for f in await timetable.firings("held")] == ["fired", "fired"]
    assert (await timetable.row("held"))["problem"] is None


async def test_what_is_due_is_decided_beside_the_loop_of_the_server(
    timetable: Timetable, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def decide(*given: Any, **named: Any) -> Turn:
        threads.append(threading.get_ident())
        return decide_turn(*given, **named)

    monkeypatch.setattr("holdfast.operations.schedules.fire.decide_turn", decide)
    await timetable.set(cron="* * * * *")
    await timetable.go_to(MIDNIGHT + MINUTE)
    await timetable.fire()
    assert threads
    assert threading.get_ident() not in threads


async def test_an_owner_with_too_much_is_tried_again(timetable: Timetable, world: World) -> None:
    world.ledger.quotas.keep_to(ServerLimits(live_tasks_max=2), lambda _: None)
    await world.submit(replicas=2, owner="ann")
    await timetable.set("full", a_template(owner="ann"), cron="* * * * *")
    await timetable.set("free", a_template(owner="bob"), cron="* * * * *")
    await timetable.go_to(MIDNIGHT + MINUTE)
    await timetable.fire()
    assert [f.outcome for f in await timetable.firings("free")] == ["fired"]
    assert await timetable.firings("full") == []
    row = await timetable.row("full")
    assert "live_tasks_max" in row["problem"]
    assert row["next_at"] == MIDNIGHT + MINUTE
    world.ledger.quotas.keep_to(ServerLimits(), lambda _: None)
    await timetable.go_to(row["due_at"])
    await timetable.fire()
    assert [f.instant for f in await timetable.firings("full")] == [MIDNIGHT + MINUTE]
    assert (await timetable.row("full"))["problem"] is None


async def test_many_who_look_at_once_fire_each_instant_once(
    timetable: Timetable, world: World, database_url: str
) -> None:
    for number in range(30):
        await timetable.set(f"s{number}", cron="0 * * * *", overlap="allow", catch_up="all")
    await timetable.go_to(MIDNIGHT + 4.5 * HOUR)
    async with Database(database_url) as second, Database(database_url) as third:
        ledgers = [timetable.ledger, Ledger(second), Ledger(third)]
        for _ in range(12):
            await asyncio.gather(*(fire_due(ledger, 7) for ledger in ledgers))
    await timetable.fire()
    for number in range(30):
        found = await timetable.firings(f"s{number}")
        assert [f.instant for f in found] == [MIDNIGHT + n * HOUR for n in (1, 2, 3, 4)]
    assert await world.count("jobs") == 120
    await assert_audit_is_silent(world.ledger.database)


async def test_who_dies_before_the_commit_has_fired_nothing(
    timetable: Timetable, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await timetable.set(cron="* * * * *")
    await timetable.go_to(MIDNIGHT + MINUTE)

    async def die(*_: object) -> None:
        raise Unavailable("the server is gone")

    with monkeypatch.context() as patch:
        patch.setattr(schedules, "advance_schedules", die)
        with pytest.raises(Unavailable):
            await fire_due(timetable.ledger)
    assert (await timetable.firings(), await world.count("jobs")) == ([], 0)
    await timetable.fire()
    assert len(await timetable.firings()) == await world.count("jobs") == 1


@pytest.mark.parametrize("change", ["pause", "set", "run"])
async def test_what_was_changed_since_it_was_read_is_decided_again(
    timetable: Timetable, world: World, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    await timetable.set(cron="* * * * *", overlap="skip")
    await timetable.go_to(MIDNIGHT + MINUTE)

    async def change_meanwhile(ledger: Ledger, *given: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(FIRE_ADMIT, admit)
            if change == "pause":
                await pause_schedule(ledger, "s", actor="ann")
            elif change == "run":
                await run_now(ledger, "s", actor="ann")
            else:
                await timetable.set(job=a_template(queue="other"), cron="* * * * *")
        return await admit(ledger, *given)

    monkeypatch.setattr(FIRE_ADMIT, change_meanwhile)
    await fire_due(timetable.ledger)
    monkeypatch.setattr(FIRE_ADMIT, admit)
    assert [f.kind for f in await timetable.firings()] == (["manual"] if change == "run" else [])
    await timetable.fire()
    found = {f.kind: f.outcome for f in await timetable.firings()}
    assert (
        found
        == {
            "pause": {},
            "set": {"scheduled": "fired"},
            "run": {"manual": "fired", "scheduled": "skipped"},
        }[change]
    )
    await assert_audit_is_silent(world.ledger.database)


async def test_an_instant_that_another_server_fires_meanwhile_is_fired_once(
    timetable: Timetable, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await timetable.set(cron="* * * * *", overlap="allow")
    await timetable.go_to(MIDNIGHT + MINUTE)

    async def fire_meanwhile(ledger: Ledger, *given: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(FIRE_ADMIT, admit)
            await fire_due(ledger)
        return await admit(ledger, *given)

    monkeypatch.setattr(FIRE_ADMIT, fire_meanwhile)
    await fire_due(timetable.ledger)
    assert len(await timetable.firings()) == await world.count("jobs") == 1
    await assert_audit_is_silent(world.ledger.database)


async def test_a_unique_job_that_is_there_is_not_submitted_again(
    timetable: Timetable, world: World
) -> None:
    await timetable.set(job=a_template(unique={}), cron="* * * * *", overlap="allow")
    for minute in (1, 2):
        await timetable.go_to(MIDNIGHT + minute * MINUTE)
        await timetable.fire()
    first, second = await timetable.firings()
    assert second[2:] == ("skipped", None, f"job {first.job_id} has its unique key")
    assert await world.count("jobs") == 1
    await assert_audit_is_silent(world.ledger.database)


async def test_large_jobs_are_fired_in_several_transactions(
    timetable: Timetable, world: World
) -> None:
    for number in range(3):
        await timetable.set(f"s{number}", a_template(replicas=6000), cron="* * * * *")
    await timetable.go_to(MIDNIGHT + MINUTE)
    await timetable.fire()
    assert await world.count("jobs") == 3
    assert await world.count("tasks") == 18_000
