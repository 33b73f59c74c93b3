"""Partitions: there before an id needs one, gone when everything in them is old and over."""

import asyncio
import json
from datetime import timedelta
from functools import partial
from itertools import pairwise

import pytest

from holdfast.errors import Invalid
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.operations.dead_letters import discard
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.ending.complete import Completion, complete
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.upkeep import partitions
from holdfast.operations.upkeep.partitions import (
    add_partitions,
    ensure_partitions,
    keep_partitions_ahead,
    prune_partition,
    summarise_events,
)
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database, LockTimeout
from holdfast.store.statements import load_statements
from tests.audits import assert_audit_is_silent
from tests.waiting import insist
from tests.world import World, fence_of

DAY = 86_400.0
MONTH = timedelta(days=30)


async def ranges(world: World) -> list[tuple[int, int]]:
    """Read the ranges of job ids that have partitions."""
    rows = await world.clock.fetch(
        "select first_job_id, end_job_id from holdfast.partitions order by 1"
    )
    return [tuple(row) for row in rows]


async def use_up_first_partition(world: World) -> None:
    """Let the job ids run on into the second partition."""
    [first, *_] = await ranges(world)
    await world.clock.fetch("select setval('holdfast.job_ids', $1)", first[1])
    await world.submit()


async def test_a_partition_is_there_before_the_first_job(ledger: Ledger, world: World) -> None:
    assert await ranges(world) == [(1, 10_001)]
    await world.submit()
    assert await ranges(world) == [(1, 10_001)]
    assert ledger.partitions_end == 10_001


async def test_an_id_far_ahead_gets_its_partition_at_once(ledger: Ledger, world: World) -> None:
    await ensure_partitions(ledger, 100_000)
    known = await ranges(world)
    assert all(end == first for (_, end), (first, _) in pairwise(known))
    assert known[-1][0] <= 100_000 < known[-1][1]
    assert ledger.partitions_end == known[-1][1]
    await ensure_partitions(ledger, 100_000)
    assert await ranges(world) == known


async def test_a_partition_is_added_once_ids_are_half_way_through_the_newest(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    assert await keep_partitions_ahead(ledger) == 0
    await world.clock.fetch("select setval('holdfast.job_ids', 5001)")
    assert await keep_partitions_ahead(ledger) == 1
    first, second = await ranges(world)
    assert first[1] == second[0]
    assert await keep_partitions_ahead(ledger) == 0


async def test_new_events_are_found_by_index_soon(ledger: Ledger, world: World) -> None:
    await world.submit(inputs=list(range(1000)))
    await follow_up_all(ledger)
    claims = await world.claim(1000)
    await complete(ledger, [Completion(fence_of(mine), "succeeded") for mine in claims])
    pages = "select pg_relation_size('holdfast.events_1') / 8192 / 32"
    [(ranges_of_pages,)] = await world.clock.fetch(pages)
    assert ranges_of_pages >= 1
    assert await summarise_events(ledger) >= 1
    assert await summarise_events(ledger) == 0


async def test_two_makers_of_partitions_do_not_get_into_each_others_way(
    ledger: Ledger, world: World, database_url: str
) -> None:
    async with Database(database_url) as other:
        added = await asyncio.gather(
            *(insist(partial(add_partitions, each, 20_000)) for each in (ledger, Ledger(other)))
        )
    assert sorted(added)[0] == 0
    known = await ranges(world)
    assert len(known) == 1 + sum(added)


async def test_jobs_on_both_sides_of_a_border_live_on(world: World) -> None:
    first = await world.submit()
    await use_up_first_partition(world)
    claims = await world.claim(5)
    assert len(claims) == 2
    for mine in claims:
        assert (await world.succeed(mine)).accepted
    assert claims[0].task_id == TaskId(first, 0)


async def test_an_old_and_settled_range_is_dropped_with_everything_in_it(
    ledger: Ledger, world: World
) -> None:
    old = await world.submit(inputs=[1, 2])
    done, dead = await world.claim(2)
    await world.succeed(done)
    await world.fail(dead)
    await discard(ledger, [dead.task_id], actor="ann")
    await follow_up_all(ledger)
    await use_up_first_partition(world)
    await world.clock.advance(29 * DAY)
    assert await prune_partition(ledger, MONTH) == 0
    await world.clock.advance(2 * DAY)
    assert await prune_partition(ledger, MONTH) == 1
    for table in ("jobs", "tasks", "attempts", "events", "dead_letters", "ready"):
        rows = await world.clock.fetch(f"select from holdfast.{table} where job_id = $1", old)
        assert rows == []
    assert (await ranges(world))[0][0] == 10_001
    assert len(await world.claim()) == 1
    assert await prune_partition(ledger, MONTH) == 0


async def test_a_range_stays_while_its_ids_are_not_used_up(ledger: Ledger, world: World) -> None:
    await world.submit()
    await world.succeed((await world.claim())[0])
    await world.clock.advance(90 * DAY)
    assert await prune_partition(ledger, MONTH) == 0


async def test_a_range_stays_while_a_job_of_it_lives(ledger: Ledger, world: World) -> None:
    live = await world.submit()
    await use_up_first_partition(world)
    await world.clock.advance(90 * DAY)
    assert await prune_partition(ledger, MONTH) == 0
    await world.cancel_job(live)
    assert await prune_partition(ledger, MONTH) == 0
    await world.clock.advance(31 * DAY)
    assert await prune_partition(ledger, MONTH) == 1


async def test_a_range_stays_while_a_dead_letter_waits_for_a_decision(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [dead] = await world.claim()
    await world.fail(dead)
    await follow_up_all(ledger)
    await use_up_first_partition(world)
    await world.clock.advance(90 * DAY)
    assert await prune_partition(ledger, MONTH) == 0
    await discard(ledger, [dead.task_id], actor="ann")
    assert await prune_partition(ledger, MONTH) == 1


async def test_a_range_stays_while_a_lease_of_it_is_ending(ledger: Ledger, world: World) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    await world.cancel_job(job_id)
    await use_up_first_partition(world)
    await world.clock.advance(90 * DAY)
    assert await prune_partition(ledger, MONTH) == 0
    await world.complete(mine, "killed")
    assert await prune_partition(ledger, MONTH) == 1


async def test_a_range_stays_while_something_of_it_waits_in_the_outbox(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(replicas=2, on_exhausted="fail")
    [mine] = await world.claim()
    await world.fail(mine)
    await use_up_first_partition(world)
    await world.clock.advance(90 * DAY)
    assert await prune_partition(ledger, MONTH) == 0
    await follow_up_all(ledger)
    assert not await cancel_job(ledger, job_id, "hard", actor="ann")
    assert await prune_partition(ledger, MONTH) == 1


async def test_a_range_stays_while_somebody_may_ask_for_a_result_of_it(
    ledger: Ledger, world: World
) -> None:
    old = await world.submit()
    await world.succeed((await world.claim())[0])
    await use_up_first_partition(world)
    await world.succeed((await world.claim())[0])
    await world.submit(depends_on=[str(old)])  # met at once, but nobody has run it yet
    await follow_up_all(ledger)
    await world.clock.advance(90 * DAY)
    assert await prune_partition(ledger, MONTH) == 0
    await world.succeed((await world.claim())[0])
    assert await prune_partition(ledger, MONTH) == 1


async def finish_old_jobs(world: World, count: int = 1) -> list[int]:
    """Let jobs succeed of a range that is old by now, and used up."""
    job_ids = [await world.submit() for _ in range(count)]
    for claim in await world.claim(count):
        await world.succeed(claim)
    await use_up_first_partition(world)
    await world.clock.advance(90 * DAY)
    return job_ids


async def test_no_write_waits_for_retention(ledger: Ledger, world: World) -> None:
    await finish_old_jobs(world)
    # Deleting takes longer than any writer waits for a lock.
    await world.clock.fetch(
        "create function public.delete_slowly() returns trigger language plpgsql as "
        "'begin perform pg_sleep(0.7); return null; end'"
    )
    await world.clock.fetch(
        "create trigger slowly before delete on holdfast.logs "
        "for each statement execute function public.delete_slowly()"
    )
    pruning = asyncio.create_task(prune_partition(ledger, MONTH))
    while not pruning.done():
        await world.submit()  # raises LockTimeout after 250 ms
    assert await pruning == 1
    assert (await ranges(world))[0][0] == 10_001


async def test_a_large_range_goes_in_bounded_steps_that_anybody_goes_on_with(
    ledger: Ledger, world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "BATCHES_MAX", 1)
    monkeypatch.setattr(partitions, "BATCH_JOBS_MAX", 2)
    job_ids = await finish_old_jobs(world, 5)
    left = []
    async with Database(database_url) as other:
        for each in (ledger, Ledger(other)) * 2:
            assert await prune_partition(each, MONTH) == 1
            rows = await world.clock.fetch("select job_id from holdfast.jobs order by 1")
            left.append([row[0] for row in rows if row[0] in job_ids])
            await assert_audit_is_silent(ledger.database)
    assert left == [job_ids[2:], job_ids[4:], [], []]
    assert (await ranges(world))[0][0] == 10_001
    assert await prune_partition(ledger, MONTH) == 0


async def test_the_rows_of_one_job_may_take_several_steps(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "BATCHES_MAX", 1)
    monkeypatch.setattr(partitions, "BATCH_LARGE_ROWS_MAX", 2)
    [job_id] = await finish_old_jobs(world)
    await world.clock.fetch(
        "insert into holdfast.logs select $1, 0, 0, n, 'x', now() from generate_series(1, 5) as n",
        job_id,
    )
    counts = []
    while await prune_partition(ledger, MONTH):
        counts.append(await world.count("logs"))
    assert counts == [3, 1, 0, 0]
    assert (await ranges(world))[0][0] == 10_001


async def test_no_step_deletes_more_large_rows_than_a_statement_has_time_for(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "BATCHES_MAX", 1)
    [job_id] = await finish_old_jobs(world)
    await world.clock.fetch(
        "insert into holdfast.logs select $1, 0, 0, n, 'x', now() from generate_series(1, 700) n",
        job_id,
    )
    assert await prune_partition(ledger, MONTH) == 1
    assert await world.count("logs") == 200  # a row may be 1 MiB


async def test_tables_are_dropped_when_nobody_reads_them(ledger: Ledger, world: World) -> None:
    await finish_old_jobs(world)
    async with ledger.database.transaction() as reader:
        await reader.connection.execute("select from holdfast.tasks")
        pruning = asyncio.create_task(prune_partition(ledger, MONTH))
        while not pruning.done():
            await world.submit()  # raises LockTimeout behind one that waits for the reader
        with pytest.raises(LockTimeout):
            await pruning
    assert (await ranges(world))[0][0] == 1
    assert await prune_partition(ledger, MONTH) == 1
    assert (await ranges(world))[0][0] == 10_001


async def test_a_job_that_is_waited_for_stays_although_its_range_is_being_pruned(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "BATCHES_MAX", 0)
    gone, kept = await finish_old_jobs(world, 2)
    assert await prune_partition(ledger, MONTH) == 1  # retired, no more
    monkeypatch.undo()
    await world.submit(depends_on=[str(kept)], queue="later")
    assert await prune_partition(ledger, MONTH) == 0
    rows = await world.clock.fetch("select job_id from holdfast.jobs where job_id <= $1", kept)
    assert [row[0] for row in rows] == [kept]
    await assert_audit_is_silent(ledger.database)
    await world.succeed((await world.claim(queue="later"))[0])
    assert await prune_partition(ledger, MONTH) == 1
    with pytest.raises(Invalid, match="there is no job"):
        await world.submit(depends_on=[str(gone)])


async def test_a_range_that_has_to_wait_does_not_keep_the_next_one(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [kept] = await finish_old_jobs(world)
    await world.succeed((await world.claim())[0])
    second = (await ranges(world))[1]
    await world.clock.fetch("select setval('holdfast.job_ids', $1)", second[1])
    await world.submit(queue="third")
    await world.clock.advance(90 * DAY)
    monkeypatch.setattr(partitions, "BATCHES_MAX", 0)
    assert await prune_partition(ledger, MONTH) == 1  # the first is retired, no more
    monkeypatch.undo()
    await world.submit(depends_on=[str(kept)], queue="later")
    assert await prune_partition(ledger, MONTH) == 1
    assert [first for first, _ in await ranges(world)] == [1, second[1]]
    assert await prune_partition(ledger, MONTH) == 0
    await assert_audit_is_silent(ledger.database)
    await world.succeed((await world.claim(queue="later"))[0])
    assert await prune_partition(ledger, MONTH) == 1
    assert [first for first, _ in await ranges(world)] == [second[1]]


async def test_looking_for_what_may_be_pruned_reads_each_job_of_a_graph_a_few_times_at_most(
    ledger: Ledger, world: World
) -> None:
    count = 100
    jobs = [{"compensation": {"function": "app:undo"}, "depends_on": ["j0"]} for _ in range(count)]
    jobs[0].pop("depends_on")
    fields = {"entrypoint": {"function": "app:work"}, "queue": "q"}
    graph = [
        Submission(parse_spec(fields | job), local_name=f"j{place}")
        for place, job in enumerate(jobs)
    ]
    await submit_batch(ledger, graph)
    for claims in (1, count - 1):
        mine = [Completion(fence_of(claim), "succeeded") for claim in await world.claim(claims)]
        await complete(ledger, mine)
        await follow_up_all(ledger)
    await use_up_first_partition(world)
    await world.clock.advance(90 * DAY)
    assert await _count_reads(ledger.database, "list_prunable_partitions", "jobs") <= 10 * count
    assert await prune_partition(ledger, MONTH) == 1


async def _count_reads(database: Database, name: str, table: str) -> float:
    """Count the rows of a table that a statement looks at."""
    text = load_statements("output/events")[name].text
    async with database.transaction() as tx:
        await tx.connection.execute(f"prepare counted as {text}")
        plan = await tx.connection.fetchval(
            "explain (analyze, format json) execute counted(interval '30 days')"
        )
        await tx.connection.execute("deallocate counted")
    nodes, count = [json.loads(plan)[0]["Plan"]], 0.0
    for node in nodes:  # grows while it is read
        nodes += node.get("Plans", [])
        if node.get("Relation Name") == table:
            seen = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            count += seen * node["Actual Loops"]
        count += node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"]
    assert count > 0, "the statement does not read this table"
    return count
