"""What a server counts for the charts, and that it is neither lost nor counted twice."""

from datetime import timedelta

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.outcomes import PutOff
from holdfast.operations.signals import wait_for_signal
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from holdfast.services.measuring.metrics import Metrics
from holdfast.services.measuring.samples import Samples
from holdfast.services.runtime import Options, Runtime, open_runtime
from holdfast.services.waking.doorbell import Doorbells
from holdfast.services.waking.wake_ups import WakeUps
from holdfast.store.database import Database, LockTimeout
from holdfast.store.reads.upkeep.samples import (
    Step,
    count_ends_by_worker,
    count_failures_by_type,
    read_steps,
)
from holdfast.store.tables.upkeep.samples import Counts, WorkerEnds
from tests.steps import LONGEST_STEP_SECONDS, to_the_start_of_a_step
from tests.world import World, a_stored_job, fence_of

SPEC = {"entrypoint": {"function": "app:work"}, "queue": "q"}


async def read(database: Database) -> list[Step]:
    """Read every step that is known, of the longest kind."""
    async with database.transaction() as tx:
        since = await tx.now() - timedelta(days=1)
        steps = await read_steps(tx, since, step_seconds=LONGEST_STEP_SECONDS)
    return list(steps.values())


async def read_types(database: Database) -> list[tuple[str, int, int]]:
    async with database.transaction() as tx:
        since = await tx.now() - timedelta(hours=1)
        return await count_failures_by_type(tx, since, failures_min=0)


async def test_a_small_story_is_counted_right(
    quiet: Runtime, world: World, database: Database
) -> None:
    await world.watch()
    await to_the_start_of_a_step(world)
    await world.watch()
    spec = parse_spec(SPEC | {"type": "report", "max_retries_failure": 1})
    await quiet.writers.submit(Submission(spec, parse_inputs([1, 2, 3, 4])))
    await world.clock.advance(3)
    fine, failing, unfit, cancelled = await world.claim(4)
    await world.start(fine)
    await world.succeed(fine)
    await world.start(failing)
    await world.fail(failing)
    # One that fails before its code runs is an attempt that failed, too.
    await world.complete(unfit, "failed", error="boom", error_class="PermanentError", stage="input")
    await world.cancel_task(cancelled.task_id)
    await quiet.samples.write()
    # The end that was a dead letter is not counted as a failure a second time.
    counts = Counts(submitted=4, succeeded=1, failed=1, killed=1, dead_lettered=1, retried=1)
    waits = [4 if place == 9 else 0 for place in range(17)]  # from 2.5 to 5 s
    assert await read(database) == [Step(counts, waits, 0, 0)]
    assert await read_types(database) == [("report", 3, 2)]
    async with database.transaction() as tx:
        since = await tx.now() - timedelta(hours=1)
        ends = await count_ends_by_worker(tx, since)
        assert ends == {"w1": WorkerEnds(succeeded=1, failed=2, killed=1)}
        assert await count_ends_by_worker(tx, since, ["w1"]) == ends
        assert await count_ends_by_worker(tx, since, ["w2"]) == {}
    # What was written is not written again.
    await quiet.samples.write()
    assert await read(database) == [Step(counts, waits, 0, 0)]
    assert await read_types(database) == [("report", 3, 2)]


async def test_a_pause_is_neither_an_end_nor_a_failure_of_its_worker(
    quiet: Runtime, world: World, database: Database
) -> None:
    await to_the_start_of_a_step(world)
    spec = parse_spec(SPEC | {"type": "report"})
    await quiet.writers.submit(Submission(spec, parse_inputs([1, 2, 3, 4])))
    waiting, put_off, handed_back, fine = await world.claim(4)
    for claim in (waiting, put_off, handed_back, fine):
        await world.start(claim)
    await wait_for_signal(world.ledger, fence_of(waiting), name="approval", number=1, timeout=None)
    assert (await world.complete(waiting, "waiting")).accepted
    later = PutOff(600_000, free=True)
    await world.complete(put_off, "failed", error_class="RetryAfter", put_off=later)
    await world.complete(handed_back, "handed_back")
    await world.succeed(fine)
    await quiet.samples.write()
    [step] = await read(database)
    assert step.counts == Counts(submitted=4, succeeded=1, worker_failed=1, retried=1)
    async with database.transaction() as tx:
        since = await tx.now() - timedelta(hours=1)
        assert await count_ends_by_worker(tx, since) == {"w1": WorkerEnds(succeeded=1)}


async def test_two_servers_add_up(world: World, database: Database, database_url: str) -> None:
    await to_the_start_of_a_step(world)
    async with Database(database_url) as other_database:
        servers = [
            Runtime(Ledger(each), each, WakeUps(Doorbells())) for each in (database, other_database)
        ]
        for server in servers:
            await server.writers.submit(Submission(parse_spec(SPEC), parse_inputs([1, 2])))
        for server in servers:
            await server.samples.write()
            await server.writers.stop()
    [step] = await read(database)
    assert (step.counts, step.depth) == (Counts(submitted=4), 4)
    assert await world.count("samples") == 2 * 4


async def test_what_cannot_be_written_is_written_the_next_time(
    ledger: Ledger, world: World, database: Database
) -> None:
    samples = Samples(ledger, Metrics(ledger))
    samples.count(News(stored_jobs=[a_stored_job(3)]))
    samples.count(News(waits=[(1, 0.0)], failures=[(1, False)]))
    async with database.transaction() as tx:
        await tx.connection.execute("lock table holdfast.samples in share mode")
        with pytest.raises(LockTimeout):
            await samples.write()
        samples.count(News(stored_jobs=[a_stored_job(4)]))
        await samples.close()  # holds up nobody who wants to end
        assert await world.count("samples") == 0
    await samples.write()
    [step] = await read(database)
    assert (step.counts.submitted, sum(step.waits)) == (7, 1)
    assert await read_types(database) == [("other", 1, 1)]


async def test_a_server_that_ends_writes_down_the_last_of_it_and_the_next_goes_on(
    world: World, database: Database, database_url: str
) -> None:
    await to_the_start_of_a_step(world)
    for count in (2, 3):
        async with open_runtime(Options(database_url)) as runtime:
            await runtime.writers.submit(
                Submission(parse_spec(SPEC), parse_inputs(list(range(count))))
            )
    [step] = await read(database)
    assert (step.counts.submitted, step.depth) == (5, 5)
