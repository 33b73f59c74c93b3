"""Schedules are fired by hand: now, or for what has passed; each instant still has one job."""

import asyncio
from typing import Any

import pytest

from holdfast.errors import Invalid, NotFound, Refused, TooLarge
from holdfast.ledger.keys import request_key
from holdfast.operations.schedules.by_hand import Backfilled, backfill, run_now
from holdfast.operations.schedules.change import pause_schedule
from holdfast.rules.schedules import overlap
from tests.audits import assert_audit_is_silent
from tests.timetable import HOUR, MINUTE, Timetable, a_template, at
from tests.world import World

MIDNIGHT = at("2030-01-01T00:00")


async def test_a_paused_schedule_runs_now_if_somebody_says_so(
    timetable: Timetable, world: World
) -> None:
    await timetable.set(cron="0 3 * * *")
    await pause_schedule(timetable.ledger, "s", actor="ann")
    keyed = request_key("run_schedule", "ann", "k", request="s")
    first = await run_now(timetable.ledger, "s", actor="ann", keyed=keyed)
    assert await run_now(timetable.ledger, "s", actor="ann", keyed=keyed) == first
    [firing] = await timetable.firings()
    assert (firing.kind, firing.job_id) == ("manual", first)
    with pytest.raises(Refused, match=f"job {first} of an earlier firing has not ended; wait"):
        await run_now(timetable.ledger, "s", actor="ann")
    await timetable.finish(first)
    assert await run_now(timetable.ledger, "s", actor="ann") != first
    with pytest.raises(NotFound):
        await run_now(timetable.ledger, "other", actor="ann")
    await assert_audit_is_silent(world.ledger.database)


async def test_a_run_beside_another_waits_for_it_or_stops_it(
    timetable: Timetable, world: World
) -> None:
    await timetable.set(cron="0 3 * * *", overlap="cancel")
    first = await run_now(timetable.ledger, "s", actor="ann")
    second = await run_now(timetable.ledger, "s", actor="ann")
    assert (await world.job(first))["cancel_mode"] == "soft"
    await world.run_chores()
    await timetable.finish(second)
    await assert_audit_is_silent(world.ledger.database)


async def test_a_range_is_filled_once_and_in_order(timetable: Timetable, world: World) -> None:
    await timetable.set(cron="0 * * * *")
    await timetable.go_to(MIDNIGHT + 5.5 * HOUR)
    await timetable.fire()
    [(first, last, _)] = await timetable.missed()
    told = await backfill(timetable.ledger, "s", first, last=last, actor="ann", dry_run=True)
    assert (told, await timetable.firings()) == (Backfilled(5, 0, []), [])
    made = await backfill(timetable.ledger, "s", first, last=last, actor="ann")
    assert (made.instants, made.already, len(made.job_ids)) == (5, 0, 5)
    again = await backfill(timetable.ledger, "s", first - HOUR, last=last, actor="ann")
    assert (again.instants, again.already, len(again.job_ids)) == (6, 5, 1)
    firings = await timetable.firings()
    assert [f.instant for f in firings] == [MIDNIGHT + n * HOUR for n in range(6)]
    assert {f.kind for f in firings} == {"backfill"}
    for job_id in [*made.job_ids, *again.job_ids]:  # each after the one before it
        await timetable.finish(job_id)
    await assert_audit_is_silent(world.ledger.database)


async def test_side_by_side_all_of_a_range_can_run_at_once(
    timetable: Timetable, world: World
) -> None:
    await timetable.set(cron="* * * * *")
    await timetable.go_to(MIDNIGHT + 4 * HOUR)
    made = await backfill(
        timetable.ledger, "s", MIDNIGHT, last=MIDNIGHT + 3 * HOUR, actor="ann", overlap="allow"
    )
    assert len(made.job_ids) == 181
    assert len(await world.claim(1000)) == 181
    with pytest.raises(Refused, match="overlap allow"):
        await backfill(timetable.ledger, "s", MIDNIGHT, last=MIDNIGHT + 3.5 * HOUR, actor="ann")


async def test_more_than_may_wait_for_one_another_is_refused_before_any_is_submitted(
    timetable: Timetable, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlap, "OPEN_MAX", 4)
    await timetable.set(cron="* * * * *", overlap="queue")
    await timetable.go_to(MIDNIGHT + 30.5 * MINUTE)
    await run_now(timetable.ledger, "s", actor="ann")

    async def fill(minutes: int, **fields: Any) -> Backfilled:
        last = MIDNIGHT + minutes * MINUTE
        return await backfill(timetable.ledger, "s", MIDNIGHT, last=last, actor="ann", **fields)

    for fields in ({}, {"dry_run": True}):
        with pytest.raises(Refused) as refused:
            await fill(3, **fields)
        assert "until: 4 jobs would wait for one another behind 1" in str(refused.value)
        assert "until 2030-01-01T00:02:00+00:00, or with overlap allow" in str(refused.value)
    assert await world.count("jobs") == 1, "nothing was submitted"
    assert len((await fill(2)).job_ids) == 3
    # What is there already is not submitted again; for more there is no room before one ends.
    assert (await fill(2)).already == 3
    with pytest.raises(Refused, match="wait until one of them has ended, or use overlap allow"):
        await fill(3)
    assert len((await fill(9, overlap="allow")).job_ids) == 7


async def test_what_was_skipped_or_is_just_due_gets_one_job(
    timetable: Timetable, world: World
) -> None:
    await timetable.set(cron="* * * * *")
    for minute in (1, 2):
        await timetable.go_to(MIDNIGHT + minute * MINUTE)
        await timetable.fire()
    assert [f.outcome for f in await timetable.firings()] == ["fired", "skipped"]
    await timetable.go_to(MIDNIGHT + 3 * MINUTE)
    made = await backfill(
        timetable.ledger, "s", MIDNIGHT, last=MIDNIGHT + 3 * MINUTE, actor="ann", overlap="allow"
    )
    assert (made.instants, made.already, len(made.job_ids)) == (4, 1, 3)
    await timetable.fire()
    firings = await timetable.firings()
    assert [f.outcome for f in firings] == ["fired"] * 4
    assert len({f.job_id for f in firings}) == await world.count("jobs") == 4
    await assert_audit_is_silent(world.ledger.database)


async def test_two_who_fill_one_range_make_one_job_of_each_instant(
    timetable: Timetable, world: World
) -> None:
    await timetable.set(cron="* * * * *", overlap="allow")
    await timetable.go_to(MIDNIGHT + 30.5 * MINUTE)
    await asyncio.gather(
        *(
            backfill(timetable.ledger, "s", MIDNIGHT, last=MIDNIGHT + 30 * MINUTE, actor=name)
            for name in ("ann", "bob")
        ),
        return_exceptions=True,
    )
    await backfill(timetable.ledger, "s", MIDNIGHT, last=MIDNIGHT + 30 * MINUTE, actor="ann")
    assert await world.count("jobs") == await world.count("schedule_firings") == 31


async def test_a_range_that_cannot_be_filled_is_refused_by_name(timetable: Timetable) -> None:
    await timetable.set("s", a_template(), every=1.0)
    ledger = timetable.ledger
    with pytest.raises(Invalid, match="has not come") as refused:
        await backfill(ledger, "s", MIDNIGHT, last=MIDNIGHT + HOUR, actor="ann")
    assert refused.value.field == "until"
    with pytest.raises(Invalid, match="turn them round"):
        await backfill(ledger, "s", MIDNIGHT, last=MIDNIGHT - HOUR, actor="ann")
    with pytest.raises(TooLarge, match="give parts"):
        await backfill(ledger, "s", MIDNIGHT - HOUR, last=MIDNIGHT, actor="ann")
    with pytest.raises(Invalid, match="no time zone"):
        await backfill(ledger, "s", MIDNIGHT.replace(tzinfo=None), last=MIDNIGHT, actor="ann")
    assert await timetable.firings() == []
