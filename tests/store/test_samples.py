"""What servers have counted, added up step by step; and what is under way, on a real ledger."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import asyncpg
import pytest

from holdfast.model.ids import TaskId
from holdfast.model.states import TaskState
from holdfast.operations.register import Registration, drain, leave, register
from holdfast.rules.quantiles import RANGES
from holdfast.store import samples
from holdfast.store.database import Database
from holdfast.store.samples import (
    STEPS,
    Counts,
    MissingWorker,
    Step,
    Tally,
    choose_step,
    list_steps,
)
from holdfast.wire.overview import WINDOW_SECONDS_MAX
from tests.cluster import Cluster
from tests.steps import to_the_start_of_a_step
from tests.store.raw import Raw
from tests.world import World

HOUR = 3600


def a_tally(waits: dict[int, int] | None = None, **counts: int) -> Tally:
    """Count so many of each, and so many waits in each range."""
    return Tally(
        counts=list(Counts(**counts)),
        waits=[(waits or {}).get(place, 0) for place in range(RANGES)],
    )


async def add(
    database: Database, server_id: str, tally: Tally, depth: int = 0, running: int = 0
) -> None:
    async with database.transaction() as tx:
        await samples.add_sample(tx, server_id, tally, depth=depth, running=running)


async def read(database: Database, window_seconds: int = HOUR) -> list[Step | None]:
    """Read the steps of a window; None where nothing is known."""
    async with database.transaction() as tx:
        begins = list_steps(await tx.now(), window_seconds)
        step = choose_step(window_seconds)
        known = await samples.read_steps(tx, begins[0], step_seconds=step)
    assert set(known) <= set(begins)
    return [known.get(at) for at in begins]


@pytest.mark.parametrize(
    ("window", "step", "count"),
    [
        (600, 10, 60),
        (3600, 10, 360),
        (3601, 60, 61),
        (86_400, 300, 288),
        (7 * 86_400, 1800, 336),
    ],
)
def test_a_window_is_shown_in_no_more_steps_than_a_chart_has_room_for(
    window: int, step: int, count: int
) -> None:
    now = datetime(2026, 5, 4, 3, 2, 7, tzinfo=UTC)
    steps = list_steps(now, window)
    assert (choose_step(window), len(steps)) == (step, count)
    assert steps[-1] <= now < steps[-1] + timedelta(seconds=step)
    assert {after - before for before, after in pairwise(steps)} == {timedelta(seconds=step)}
    assert all(at.timestamp() % step == 0 for at in steps)


async def test_servers_add_up_and_the_newest_knows_the_depth(
    world: World, database: Database
) -> None:
    await to_the_start_of_a_step(world)
    some = {name: place for place, name in enumerate(Counts._fields, 1)}
    await add(database, "a", a_tally({0: 1, 3: 5}, **some), depth=9, running=1)
    await add(database, "a", a_tally({0: 1}, **some), depth=8, running=2)
    await add(database, "b", a_tally({16: 2}, **some), depth=3, running=5)
    counts = Counts(*(3 * count for count in some.values()))
    waits = [2, 0, 0, 5, *[0] * 12, 2]
    for window in (600, 6 * HOUR, 24 * HOUR, 7 * 24 * HOUR):
        steps = await read(database, window)
        assert steps[-1] == Step(counts, waits, 3, 5), window
        assert steps[:-1] == [None] * (len(steps) - 1), "nothing is known of what was before"


async def test_a_step_without_rows_is_unknown_and_one_without_moves_is_zero(
    world: World, database: Database
) -> None:
    await to_the_start_of_a_step(world)
    await add(database, "a", a_tally(succeeded=1))
    await world.clock.advance(20)
    await add(database, "a", a_tally())
    steps = await read(database)
    known = [None if step is None else step.counts.succeeded for step in steps]
    assert known[-4:] == [None, 1, None, 0]
    # Of longer steps these are one.
    long = await read(database, 24 * HOUR)
    assert long[-1] is not None
    assert long[-1].counts.succeeded == 1


async def test_failures_are_counted_by_type_as_far_back_as_is_asked(
    world: World, database: Database
) -> None:
    await to_the_start_of_a_step(world)
    await add(database, "a", Tally(types={"old": [9, 9]}))
    await world.clock.advance(120)
    await add(database, "a", Tally(types={"mail": [10, 2], "fine": [50, 0]}))
    await add(database, "a", Tally(types={"mail": [10, 1]}))
    await add(database, "b", Tally(types={"mail": [5, 4]}))
    async with database.transaction() as tx:
        since = await tx.now() - timedelta(seconds=60)
        found = await samples.count_failures_by_type(tx, since, failures_min=5)
        assert found == [("mail", 25, 7)]
        before = since - timedelta(seconds=120)
        everything = await samples.count_failures_by_type(tx, before, failures_min=0)
    assert everything == [("old", 9, 9), ("mail", 25, 7), ("fine", 50, 0)]


async def test_what_no_chart_shows_any_more_is_pruned_in_batches(
    world: World, database: Database
) -> None:
    async def prune(batch_max: int = 100) -> int:
        async with database.transaction() as tx:
            return await samples.prune_samples(tx, batch_max=batch_max)

    for server_id in "abc":
        await add(database, server_id, Tally(types={"mail": [1, 0]}))
    await world.clock.advance(HOUR)
    assert await prune() == 0
    await world.clock.advance(2 * HOUR)  # those of 10 s, and the types
    assert [await prune(2) for _ in range(3)] == [4, 2, 0]
    await world.clock.advance(7 * 24 * HOUR)
    assert await prune() == 6
    assert await world.count("samples") == 3, "a week's chart still shows them"
    await world.clock.advance(2 * 24 * HOUR)
    assert await prune() == 3


SAMPLE = {
    "step_seconds": "10", "at": "'2026-01-01 00:00:10Z'", "server_id": "'s'", "seen_at": "now()",
    **dict.fromkeys((*Counts._fields, "depth", "running"), "0"),
    "waits": f"array_fill(0::bigint, array[{RANGES}])",
}  # fmt: skip
TYPE_SAMPLE = {
    "at": "'2026-01-01 00:01Z'", "server_id": "'s'", "type": "'t'", "attempts": "2", "failures": "2"
}  # fmt: skip


@pytest.mark.parametrize(
    ("table", "changed", "broken"),
    [
        ("samples", {}, None),
        ("samples", {"at": "'2026-01-01 00:00:11Z'"}, "a_sample_stands_where_its_step_begins"),
        ("samples", {"step_seconds": "-10"}, "a_step_has_a_length"),
        ("samples", {"waits": "'{0}'"}, "a_wait_falls_into_one_of_seventeen_ranges"),
        ("samples", {"failed": "-1"}, "samples_are_not_negative"),
        (
            "samples",
            {"waits": f"array_fill(-1::bigint, array[{RANGES}])"},
            "samples_are_not_negative",
        ),
        ("type_samples", {}, None),
        ("type_samples", {"failures": "3"}, "an_attempt_fails_once"),
        ("type_samples", {"at": "'2026-01-01 00:01:10Z'"}, "a_type_is_sampled_by_the_minute"),
    ],
)
async def test_a_row_that_cannot_be_is_refused(
    raw: Raw, table: str, changed: dict[str, str], broken: str | None
) -> None:
    row = (SAMPLE if table == "samples" else TYPE_SAMPLE) | changed
    insert = f"insert into holdfast.{table} ({', '.join(row)}) values ({', '.join(row.values())})"
    if broken is None:
        await raw.connection.execute(insert)
    else:
        with pytest.raises(asyncpg.CheckViolationError, match=broken):
            await raw.connection.execute(insert)


async def live(database: Database) -> samples.Live:
    async with database.transaction() as tx:
        return await samples.count_live(tx)


async def test_live_tasks_are_counted_by_where_they_stand(world: World, database: Database) -> None:
    assert await live(database) == samples.Live(0, 0, 0, 0, 0, False)
    await world.submit([1, 2, 3, 4, 5, 6, 7], max_retries_failure=1)
    await world.submit(queue=None, replicas=2)  # the line of placed work counts too
    first, second, third, fourth, fifth = await world.claim(5)
    await world.start(first)
    await world.start(second)
    await world.report(third, TaskState.BUILDING)
    await world.start(fourth)
    await world.fail(fourth)
    await world.cancel_task(fifth.task_id)  # its process may live on, but it has ended
    assert await live(database) == samples.Live(4, 1, 0, 1, 2, False)
    [_] = await world.claim()
    assert await live(database) == samples.Live(3, 1, 1, 1, 2, False)


async def test_what_is_many_is_estimated_from_a_sample(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await world.submit(list(range(600)))
    await world.clock.fetch(
        "insert into holdfast.waiting select $1, generate_series(600, 999), holdfast.now()", job_id
    )
    claims = await world.claim(160)
    for claim in claims[:50]:
        await world.start(claim)
    for claim in claims[100:]:
        await world.cancel_task(claim.task_id)  # what is ending takes no place in the sample
    monkeypatch.setattr(samples, "COUNTED_MAX", 100)
    monkeypatch.setattr(samples, "OPEN_COUNTED_MAX", 40)
    found = await live(database)
    # All pages are looked at, there being few; of the attempts a part, which is scaled.
    assert (found.ready, found.waiting, found.is_estimate) == (440, 400, True)
    assert found.assigned + found.running == 100
    assert found.assigned > 0 < found.running


async def bury(world: World) -> TaskId:
    job_id = await world.submit([1])
    claim = await world.claim_by_id(TaskId(job_id, 0))
    await world.start(claim)
    await world.fail(claim, "PermanentError")
    return claim.task_id


async def test_open_dead_letters_are_counted_by_reason_up_to_a_bound(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled, *_ = [await bury(world) for _ in range(4)]
    await world.clock.fetch(
        "update holdfast.dead_letters set discarded_at = holdfast.now(), discarded_by = 'eve' "
        "where job_id = $1",
        settled.job_id,
    )

    async def count() -> dict[str, int]:
        async with database.transaction() as tx:
            return await samples.count_open_letters(tx)

    assert sum((await count()).values()) == 3
    monkeypatch.setattr(samples, "LETTERS_COUNTED_MAX", 2)
    assert sum((await count()).values()) == 2


async def test_a_queue_is_served_by_whoever_lives_and_takes_more(
    world: World, database: Database
) -> None:
    await register(world.ledger, Registration("silent", "w", "h", ("old",)))
    await world.clock.advance(31)
    await register(world.ledger, Registration("w1", "w", "h", ("a", "b")))
    await register(world.ledger, Registration("w2", "w", "h", ("b", "c")))
    await register(world.ledger, Registration("w3", "w", "h", ("d",)))
    await drain(world.ledger, "w3", actor="eve")
    await register(world.ledger, Registration("w4", "w", "h", ("c",), replaces="w2"))
    async with database.transaction() as tx:
        served = await samples.list_served_queues(tx, await tx.now())
    assert served == {"a", "b", "c"}


async def test_whoever_is_lost_or_silent_is_missed_unless_it_left_with_empty_hands(
    world: World, database: Database
) -> None:
    async def missing() -> list[Any]:
        async with database.snapshot() as tx:
            now = await tx.now()
            return await samples.list_missing_workers(tx, now, recent=timedelta(hours=1))

    cluster = Cluster(world)
    await cluster.add("dead", "leaving")
    for _ in range(3):
        await cluster.miss("dead")
    await leave(world.ledger, "leaving", "s" * 32)
    await register(world.ledger, Registration("silent", "w", "h"))
    await register(world.ledger, Registration("holding", "w", "h"))
    await register(world.ledger, Registration("old", "w", "h"))
    await register(world.ledger, Registration("new", "w", "h", replaces="old"))
    await world.submit([1, 2])
    await world.claim(2, worker="holding")
    assert [(one.worker_id, one.leases) for one in await missing()] == [("dead", 0)]
    await world.clock.advance(31)
    holding, dead = await missing()
    assert holding == MissingWorker("holding", False, None, 2)
    assert (dead.worker_id, dead.is_lost) == ("dead", True)
    assert dead.lost_cause.startswith("3 heartbeats in a row failed")
    await world.clock.advance(HOUR)
    assert [one.worker_id for one in await missing()] == ["holding"]


def test_there_is_a_step_for_the_longest_window() -> None:
    assert STEPS[-1] * samples.STEPS_MAX >= WINDOW_SECONDS_MAX
