"""What code declares is a schedule while code declares it, and says so by the latest worker."""

import asyncio
from typing import Any

import pytest

from holdfast.errors import Invalid, Refused, TooLarge
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.operations.schedules import declare as declaring
from holdfast.operations.schedules.change import delete_schedule, pause_schedule
from holdfast.operations.schedules.declare import Declaration, Declared, KeptTo, declare
from tests.timetable import HOUR, Timetable, a_template, at
from tests.world import World

MIDNIGHT = at("2030-01-01T00:00")
NAME = "app.jobs:nightly"


def nightly(name: str = NAME, cron: str = "0 3 * * *", **fields: Any) -> Declared:
    job = a_template(entrypoint={"function": name}, **fields)
    return Declared(name, ScheduleTerms(cron=cron), job)


async def say(timetable: Timetable, *declared: Declared, **fields: Any) -> Declaration:
    modules = fields.pop("modules", ["app.jobs"])
    return await declare(timetable.ledger, modules, declared, actor="w1", **fields)


async def test_a_declared_schedule_fires_until_no_code_names_it(
    timetable: Timetable, world: World
) -> None:
    assert await say(timetable, nightly()) == ([NAME], [], {})
    assert await say(timetable, nightly()) == ([], [], {})
    await timetable.go_to(MIDNIGHT + 3 * HOUR)
    await timetable.fire()
    assert [f.outcome for f in await timetable.firings(NAME)] == ["fired"]
    # Another module's worker says nothing of this one.
    assert await say(timetable, modules=["app.other"]) == ([], [], {})
    assert await say(timetable) == ([], [NAME], {})
    assert await say(timetable) == ([], [], {})
    await timetable.go_to(MIDNIGHT + 30 * HOUR)
    assert await timetable.fire() == 0
    # It is kept with what it has fired, and comes back when code names it again.
    assert await say(timetable, nightly()) == ([NAME], [], {})
    assert (await timetable.row(NAME))["next_at"] == MIDNIGHT + 51 * HOUR
    assert len(await timetable.firings(NAME)) == 1
    rows = await world.clock.fetch("select action from holdfast.actions order by action_id")
    assert [row[0] for row in rows] == ["declare_schedule", "retire_schedule", "declare_schedule"]


async def test_a_pause_outlives_the_next_worker(timetable: Timetable) -> None:
    await say(timetable, nightly())
    await pause_schedule(timetable.ledger, NAME, actor="ann")
    assert await say(timetable, nightly(cron="0 4 * * *")) == ([NAME], [], {})
    row = await timetable.row(NAME)
    assert (row["next_at"], row["version"]) == (None, 2)


async def test_what_code_declares_is_changed_there_alone(timetable: Timetable) -> None:
    await say(timetable, nightly())
    with pytest.raises(Refused, match=r"declared in code, by app\.jobs:nightly; change it there"):
        await timetable.set(NAME, cron="0 5 * * *")
    with pytest.raises(Refused, match="take it out there, or pause it"):
        await delete_schedule(timetable.ledger, NAME, actor="ann")
    await say(timetable)
    assert await delete_schedule(timetable.ledger, NAME, actor="ann")
    await timetable.set(NAME, cron="0 5 * * *")
    made = await say(timetable, nightly())
    assert "was set by somebody; delete it" in made.refused[NAME]


async def test_a_worker_for_queues_declares_and_retires_their_jobs_alone(
    timetable: Timetable,
) -> None:
    other = nightly("app.jobs:other", queue="other")
    assert len((await say(timetable, nightly(), other)).changed) == 2
    narrow = KeptTo(queues={"other"})
    made = await say(timetable, nightly(), other, kept_to=narrow)
    assert list(made.refused) == [NAME]
    assert (await say(timetable, kept_to=narrow)).retired == ["app.jobs:other"]
    # Nor does it draw those of others into its queue.
    made = await say(timetable, nightly(queue="other"), kept_to=narrow)
    assert "this token is not for" in made.refused[NAME]
    assert '"queue":"q"' in (await timetable.row(NAME))["spec"].replace(" ", "")


async def test_a_worker_for_owners_declares_and_retires_their_jobs_alone(
    timetable: Timetable,
) -> None:
    others = [nightly("app.jobs:bobs", owner="bob"), nightly("app.jobs:nobodys")]
    assert len((await say(timetable, *others)).changed) == 2
    narrow = KeptTo(owners={"ann"})
    made = await say(timetable, nightly(owner="ann"), *others, kept_to=narrow)
    assert made.changed == [NAME]
    assert [problem.split(":")[0] for problem in made.refused.values()] == ["spec.owner"] * 2
    assert (await say(timetable, kept_to=narrow)).retired == [NAME]


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("spec.entrypoint.args", {"entrypoint": {"function": NAME, "args": [1]}}),
        ("spec.entrypoint.kwargs", {"entrypoint": {"function": NAME, "kwargs": {"a": 1}}}),
        ("spec.inputs", {"inputs": [1]}),
    ],
)
async def test_a_declared_schedule_calls_its_function_without_arguments(
    timetable: Timetable, field: str, fields: dict[str, Any]
) -> None:
    job = a_template(**{"entrypoint": {"function": NAME}} | fields)
    made = await say(timetable, Declared(NAME, ScheduleTerms(cron="@daily"), job))
    assert made.changed == []
    assert made.refused[NAME].startswith(f"{field}: ")


async def test_what_is_wrong_with_one_does_not_keep_out_the_others(timetable: Timetable) -> None:
    foreign = Declared("app.jobs:a", ScheduleTerms(cron="@daily"), a_template())
    made = await say(
        timetable,
        nightly(),
        foreign,
        nightly("app.jobs:b", cron="often"),
        nightly("app.jobs:c", queue="?"),
        nightly("lib:d"),
    )
    assert made.changed == [NAME]
    assert {name: problem.split(":")[0] for name, problem in made.refused.items()} == {
        "app.jobs:a": "spec.entrypoint",
        "app.jobs:b": "cron",
        "app.jobs:c": "queue",
        "lib:d": "modules",
    }


async def test_many_workers_that_start_at_once_declare_one_schedule(
    timetable: Timetable, world: World
) -> None:
    made = await asyncio.gather(*(say(timetable, nightly()) for _ in range(6)))
    assert await world.count("schedules") == 1
    assert sum(len(each.changed) for each in made) == 1
    assert not any(each.refused for each in made), made


async def test_declarations_are_bounded(timetable: Timetable) -> None:
    with pytest.raises(TooLarge):
        await say(timetable, *[nightly()] * (declaring.DECLARED_MAX + 1))
    with pytest.raises(TooLarge):
        await say(timetable, modules=["m"] * (declaring.MODULES_MAX + 1))
    with pytest.raises(Invalid):
        await say(timetable, modules=["\x00"])
