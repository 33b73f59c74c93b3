"""Schedules are set, changed, paused and deleted by people, whose actions are kept."""

from typing import Any

import pytest

from holdfast.errors import Invalid, NotFound, Refused, TooLarge
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.operations.schedules import change as changes
from holdfast.operations.schedules.change import (
    delete_schedule,
    pause_schedule,
    resume_schedule,
    set_schedule,
)
from tests.timetable import HOUR, MINUTE, Timetable, a_template, at
from tests.world import World

MIDNIGHT = at("2030-01-01T00:00")


async def actions(world: World) -> list[tuple[str, str, str]]:
    rows = await world.clock.fetch(
        "select actor, action, subject_kind || ':' || subject from holdfast.actions "
        "order by action_id"
    )
    return [tuple(row) for row in rows]


async def test_a_repeat_changes_nothing(timetable: Timetable, world: World) -> None:
    assert await timetable.set(cron="0 3 * * *")
    before = dict(await timetable.row())
    assert not await timetable.set(cron="0 3 * * *")
    assert dict(await timetable.row()) == before
    assert await actions(world) == [("ann", "set_schedule", "schedule:s")]


async def test_there_is_a_bound_on_how_many_there_are(
    timetable: Timetable, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "SCHEDULES_MAX", 2)
    for name in ("a", "b"):
        await timetable.set(name, cron="0 3 * * *")
    before = await actions(world)
    with pytest.raises(Refused, match="c would be one schedule more than 2"):
        await timetable.set("c", cron="0 3 * * *")
    assert await actions(world) == before
    # What is there can be changed, and one that is gone makes room, whatever its number was.
    await timetable.set("b", cron="0 4 * * *")
    await delete_schedule(timetable.ledger, "a", actor="ann")
    assert await timetable.set("c", cron="0 3 * * *")
    assert await world.count("schedules") == 2


async def test_another_job_keeps_the_times_and_other_times_begin_now(timetable: Timetable) -> None:
    await timetable.set(every=3600.0)
    first = await timetable.row()
    assert first["next_at"] == MIDNIGHT + HOUR
    await timetable.go_to(MIDNIGHT + 30 * MINUTE)
    await timetable.set(job=a_template(queue="other"), every=3600.0)
    second = await timetable.row()
    assert (second["next_at"], second["version"]) == (first["next_at"], 2)
    await timetable.set(job=a_template(queue="other"), every=60.0)
    third = await timetable.row()
    assert third["next_at"] == MIDNIGHT + 31 * MINUTE


async def test_whoever_read_an_older_version_reads_again(timetable: Timetable) -> None:
    async def put(version: int, cron: str) -> bool:
        terms = ScheduleTerms(cron=cron)
        return await set_schedule(
            timetable.ledger, "s", terms, submission=a_template(), actor="bob", if_version=version
        )

    with pytest.raises(Refused, match="version 0, not 3"):
        await put(3, "0 3 * * *")
    assert await put(0, "0 3 * * *")
    assert not await put(1, "0 4 * * *")
    with pytest.raises(Refused, match="version 2, not 1"):
        await put(1, "0 5 * * *")


@pytest.mark.parametrize(
    ("job", "field"),
    [
        ({"queue": "?"}, "queue"),
        ({"idempotency_key": "k"}, "spec.idempotency_key"),
        ({"depends_on": ["a-local-name"]}, "depends_on"),
        ({"replicas": 10_001}, "spec.inputs"),
        ({"retries": 3}, "retries"),
    ],
)
async def test_a_job_that_no_firing_could_submit_is_refused(
    timetable: Timetable, world: World, job: dict[str, Any], field: str
) -> None:
    with pytest.raises((Invalid, TooLarge)) as refused:
        await timetable.set(job=a_template(**job), cron="0 3 * * *")
    assert refused.value.field.startswith(field)
    assert await world.count("schedules") == 0


async def test_a_paused_schedule_misses_nothing_and_goes_on_later(
    timetable: Timetable, world: World
) -> None:
    await timetable.set(cron="0 * * * *", catch_up="all")
    assert await pause_schedule(timetable.ledger, "s", actor="bob")
    assert not await pause_schedule(timetable.ledger, "s", actor="eve")
    await timetable.go_to(MIDNIGHT + 5.5 * HOUR)
    await timetable.fire()
    await timetable.set(job=a_template(queue="other"), cron="30 * * * *")
    assert (await timetable.row())["next_at"] is None
    assert await resume_schedule(timetable.ledger, "s", actor="bob")
    assert not await resume_schedule(timetable.ledger, "s", actor="bob")
    assert (await timetable.row())["next_at"] == MIDNIGHT + 6.5 * HOUR
    assert (await timetable.firings(), await timetable.missed()) == ([], [])
    assert [action for _, action, _ in await actions(world)] == [
        "set_schedule", "pause_schedule", "set_schedule", "resume_schedule",
    ]  # fmt: skip


async def test_a_deleted_schedule_leaves_what_it_has_fired(
    timetable: Timetable, world: World
) -> None:
    await timetable.set(cron="* * * * *")
    await timetable.go_to(MIDNIGHT + MINUTE)
    await timetable.fire()
    assert await delete_schedule(timetable.ledger, "s", actor="bob")
    assert not await delete_schedule(timetable.ledger, "s", actor="bob")
    assert await world.count("schedule_firings") == await world.count("jobs") == 1
    # One of the same name is another one.
    await timetable.set(cron="* * * * *")
    assert await timetable.firings() == []


async def test_what_there_is_not_cannot_be_paused(timetable: Timetable) -> None:
    for change in (pause_schedule, resume_schedule):
        with pytest.raises(NotFound, match="schedule nothing"):
            await change(timetable.ledger, "nothing", actor="ann")
