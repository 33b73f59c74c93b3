"""What servers count: rows that cannot be are refused, and old ones go."""

from collections import Counter
from datetime import timedelta

import asyncpg
import pytest

from holdfast.rules.quantiles import RANGES
from holdfast.store.database import Database
from holdfast.store.reads.upkeep.samples import count_ends_by_worker
from holdfast.store.tables.upkeep import samples
from holdfast.store.tables.upkeep.samples import Counts, WorkerEnds
from tests.steps import to_the_start_of_a_step
from tests.store.raw import Raw
from tests.world import World

HOUR = 3600
SAMPLE = {
    "step_seconds": "10", "at": "'2026-01-01 00:00:10Z'", "server_id": "'s'", "seen_at": "now()",
    **dict.fromkeys((*Counts._fields, "depth", "running"), "0"),
    "waits": f"array_fill(0::bigint, array[{RANGES}])",
}  # fmt: skip


TYPE_SAMPLE = {
    "at": "'2026-01-01 00:01Z'", "server_id": "'s'", "type": "'t'", "attempts": "2",
    "failures": "2",
    "waits": f"array_fill(0::bigint, array[{RANGES}])",
    "runs": f"array_fill(0::bigint, array[{RANGES}])",
}  # fmt: skip


async def test_what_no_chart_shows_any_more_is_pruned_in_batches(
    world: World, database: Database
) -> None:
    async def prune(batch_max: int = 100) -> int:
        async with database.transaction() as tx:
            return await samples.prune_samples(tx, batch_max=batch_max)

    tally = samples.Tally(types={"mail": samples.TypeTally(1, 0)})
    for server_id in "abc":
        async with database.transaction() as tx:
            await samples.add_sample(tx, server_id, tally, depth=0, running=0)
    await world.clock.advance(HOUR)
    assert await prune() == 0
    await world.clock.advance(2 * HOUR)  # those of 10 s, and the types
    assert [await prune(2) for _ in range(3)] == [4, 2, 0]
    await world.clock.advance(7 * 24 * HOUR)
    assert await prune() == 6
    assert await world.count("samples") == 3, "a week's chart still shows them"
    await world.clock.advance(2 * 24 * HOUR)
    assert await prune() == 3


async def test_what_ended_on_workers_adds_up_and_is_kept_for_two_hours(
    world: World, database: Database
) -> None:
    async def read() -> dict[str, WorkerEnds]:
        async with database.transaction() as tx:
            since = await tx.now() - timedelta(seconds=HOUR)
            return dict(await count_ends_by_worker(tx, since))

    await to_the_start_of_a_step(world)
    numbers = {"succeeded": 1, "failed": 2, "worker_failed": 3, "killed": 4}
    ends = Counter({("w1", outcome): count for outcome, count in numbers.items()})
    ends["w2", "failed"] = 1
    for server_id in "aab":
        async with database.transaction() as tx:
            tally = samples.Tally(ends=ends)
            await samples.add_sample(tx, server_id, tally, depth=0, running=0)
    assert await read() == {"w1": WorkerEnds(3, 6, 9, 12), "w2": WorkerEnds(failed=3)}
    await world.clock.advance(HOUR + 1)
    assert await read() == {}
    for left in (4, 0):
        async with database.transaction() as tx:
            await samples.prune_samples(tx, batch_max=100)
        assert await world.count("worker_samples") == left
        await world.clock.advance(HOUR)


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
        ("type_samples", {"runs": "'{0}'"}, "a_time_falls_into_one_of_seventeen_ranges"),
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
