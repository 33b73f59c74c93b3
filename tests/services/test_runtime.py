"""A server without its HTTP face: what it announces, how it stops, and several side by side."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.errors import Invalid, Stopping, Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.complete import Completion
from holdfast.operations.submitting.store import CHUNK_TASKS_MAX
from holdfast.operations.upkeep.partitions import keep_partitions_ahead
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from holdfast.services import runtime as runtime_module
from holdfast.services.runtime import WRITE_CONNECTIONS, Options, Runtime, open_runtime
from holdfast.services.waking.doorbell import Bell, Doorbells
from holdfast.services.waking.wake_ups import TASKS_PER_HINT_MAX, WakeUps
from holdfast.store.database import Database
from holdfast.store.migrate import migrate
from tests.audits import assert_audit_is_silent
from tests.standby import frozen
from tests.waiting import eventually
from tests.world import World, a_stored_job, fence_of

DOOR = Bell("queue", "q")
PATIENCE_SECONDS = 20.0  # far below the minute for which a statement is waited for


def a_job(inputs: int | None = None, **fields: object) -> Submission:
    """Describe a job for the queue `q`."""
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q", **fields})
    return Submission(spec, None if inputs is None else parse_inputs(list(range(inputs))))


class Post:
    """A transport that writes down what it is given, as soon as it is open."""

    only_leftovers = False

    def __init__(self) -> None:
        self.sent: list[tuple[str, list[TaskId]]] = []
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def publish(self, queue: str, task_ids: Sequence[TaskId]) -> None:
        await self.is_open.wait()
        self.sent.append((queue, list(task_ids)))


async def test_a_new_job_rings_for_as_many_as_it_has_tasks(quiet: Runtime) -> None:
    with (
        quiet.doorbells.listen([DOOR], appetite=2) as first,
        quiet.doorbells.listen([DOOR], appetite=2) as second,
        quiet.doorbells.listen([DOOR], appetite=2) as third,
    ):
        await quiet.writers.submit(a_job(inputs=3))
        assert [x.was_rung for x in (first, second, third)] == [True, True, False]


async def test_a_repeat_of_a_submission_and_placed_work_ring_nobody(quiet: Runtime) -> None:
    await quiet.writers.submit(a_job(idempotency_key="k"))
    with quiet.doorbells.listen([DOOR]) as listener:
        assert not (await quiet.writers.submit(a_job(idempotency_key="k"))).is_new
        await quiet.writers.submit(a_job(queue=None))
        assert not listener.was_rung


async def test_of_a_large_job_the_first_tasks_are_named(ledger: Ledger, database: Database) -> None:
    post = Post()
    runtime = Runtime(ledger, database, WakeUps(Doorbells(), [post]))
    runtime.hear(News(stored_jobs=[a_stored_job(CHUNK_TASKS_MAX + 1, ready=CHUNK_TASKS_MAX)]))
    await runtime.wake_ups.close()
    named = [TaskId(1, index) for index in range(TASKS_PER_HINT_MAX)]
    assert post.sent == [("q", named)]


class Wish(NamedTuple):
    """A claim that waits."""

    request: ClaimRequest
    is_over: bool = False


async def test_what_a_poller_is_given_is_not_named_to_others(
    ledger: Ledger, database: Database
) -> None:
    await keep_partitions_ahead(ledger)
    post = Post()
    runtime = Runtime(ledger, database, WakeUps(Doorbells(), [post]))
    wish = Wish(ClaimRequest("w1", ("q",), 2))
    with runtime.doorbells.listen([DOOR], wish=wish) as listener:
        waiting = asyncio.create_task(listener.wait(60))
        await asyncio.sleep(0)
        stored = await runtime.writers.submit(a_job(inputs=4))
        await waiting
    assert [claim.task_id.task_index for claim in listener.given or []] == [0, 1]
    await runtime.wake_ups.close()
    assert post.sent == [("q", [TaskId(stored.job_id, 2), TaskId(stored.job_id, 3)])]


async def test_a_job_that_cannot_be_announced_is_stored_all_the_same(
    ledger: Ledger, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Post):
        @property
        def only_leftovers(self) -> bool:  # type: ignore[override]
            raise ZeroDivisionError("a transport of the user's own")

    runtime = Runtime(ledger, database, WakeUps(Doorbells(), [Broken()]))  # type: ignore[list-item]
    assert (await runtime.writers.submit(a_job())).is_new
    assert "a transport of the user's own" in caplog.text
    await runtime.writers.stop()


async def test_taken_in_tasks_are_counted_once(quiet: Runtime) -> None:
    await quiet.writers.submit(a_job(inputs=3, idempotency_key="k"))
    await quiet.writers.submit(a_job(inputs=3, idempotency_key="k"))
    await quiet.writers.submit(a_job(queue=None))
    assert b"holdfast_submitted_tasks_total 4.0" in await quiet.scrape()


async def test_the_end_of_a_job_rings_everybody_who_waits_for_it(quiet: Runtime) -> None:
    submitted = await quiet.writers.submit(a_job())
    [mine] = await quiet.writers.claim(ClaimRequest("w1", ("q",)))
    bell = Bell("job", str(submitted.job_id))
    with quiet.doorbells.listen([bell]) as one, quiet.doorbells.listen([bell]) as other:
        await quiet.writers.complete([Completion(fence_of(mine), "succeeded")])
        assert one.was_rung
        assert other.was_rung


async def test_a_retry_rings_for_its_task(quiet: Runtime) -> None:
    await quiet.writers.submit(a_job(max_retries_preemption=1))
    [mine] = await quiet.writers.claim(ClaimRequest("w1", ("q",)))
    with quiet.doorbells.listen([DOOR]) as listener:
        await quiet.writers.complete([Completion(fence_of(mine), "handed_back")])
        assert listener.was_rung


async def test_a_scrape_has_counters_and_gauges(quiet: Runtime) -> None:
    await quiet.writers.submit(a_job(inputs=3))
    await quiet.writers.claim(ClaimRequest("w1", ("q",)))
    text = (await quiet.scrape()).decode()
    for line in (
        "holdfast_claims_total 1.0",
        'holdfast_queue_depth{queue="q"} 2.0',
        'holdfast_queue_oldest_age_seconds{queue="q"}',
        'holdfast_workers{health="',
    ):
        assert line in text


async def test_gauges_are_read_once_for_many_scrapes(quiet: Runtime) -> None:
    first = await quiet.scrape()
    await quiet.writers.submit(a_job(inputs=3))
    second = await quiet.scrape()
    assert b"holdfast_queue_depth{" not in first
    assert b"holdfast_queue_depth{" not in second
    assert b"holdfast_submitted_tasks_total 3.0" in second


async def test_what_was_counted_is_told_while_postgres_is_away(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Database(database_url) as database:
        runtime = Runtime(Ledger(database), database, WakeUps(Doorbells()))
        await runtime.writers.submit(a_job())
    assert b"holdfast_submitted_tasks_total 1.0" in await runtime.scrape()
    [record] = [each for each in caplog.records if each.name != "holdfast.outage"]
    assert "the gauges are as old" in record.getMessage()


async def test_an_open_runtime_does_its_chores(database_url: str, world: World) -> None:
    async with open_runtime(Options(database_url)) as runtime:
        submitted = await runtime.writers.submit(
            a_job(max_retries_failure=1, backoff={"base": 0.01})
        )
        [mine] = await runtime.writers.claim(ClaimRequest("w1", ("q",)))
        with runtime.doorbells.listen([DOOR]) as listener:
            await runtime.writers.complete([Completion(fence_of(mine), "failed", error="boom")])
            # The backoff is over soon: it is made ready and rung for by nobody but a chore.
            assert await listener.wait(60)
        [again] = await runtime.writers.claim(ClaimRequest("w1", ("q",)))
        assert again.attempt == 1
        await world.cancel_job(submitted.job_id, "hard")
    assert await world.job_state(submitted.job_id) == TaskState.KILLED


async def test_a_runtime_that_stops_sends_everybody_home_and_takes_nothing(
    database_url: str,
) -> None:
    async with open_runtime(Options(database_url)) as runtime:
        with runtime.doorbells.listen([DOOR]) as listener:
            waiting = asyncio.create_task(listener.wait(3600))
            await asyncio.sleep(0)
            await runtime.stop()
            async with asyncio.timeout(20):
                assert not await waiting
        assert runtime.is_stopping
    with pytest.raises(Stopping):
        await runtime.writers.submit(a_job())


async def test_wake_ups_are_sent_before_the_runtime_is_gone(database_url: str) -> None:
    post = Post()
    post.is_open.clear()
    async with open_runtime(Options(database_url, transports=[post])) as runtime:
        submitted = await runtime.writers.submit(a_job())
        asyncio.get_running_loop().call_later(0.05, post.is_open.set)
    assert post.sent == [("q", [TaskId(submitted.job_id, 0)])]


async def test_a_task_that_was_never_announced_is_published_all_the_same(
    database_url: str, world: World
) -> None:
    post = Post()
    job_id = await world.submit()
    await world.clock.advance(60)
    async with open_runtime(Options(database_url, transports=[post])):
        await eventually(lambda: post.sent)
    assert post.sent == [("q", [TaskId(job_id, 0)])]


async def test_several_on_one_database_share_the_work(
    database_url: str, database: Database, world: World
) -> None:
    options = Options(database_url)
    async with open_runtime(options) as one, open_runtime(options) as other:
        runtimes = (one, other)
        jobs = [(await runtimes[n % 2].writers.submit(a_job(inputs=5))).job_id for n in range(4)]

        async def work(runtime: Runtime, name: str) -> list[TaskId]:
            taken = []
            while claims := await runtime.writers.claim(ClaimRequest(name, ("q",), 3)):
                completions = [Completion(fence_of(mine), "succeeded") for mine in claims]
                await runtime.writers.complete(completions)
                taken += [mine.task_id for mine in claims]
            return taken

        workers = [work(runtimes[n % 2], f"w{n}") for n in range(6)]
        taken = [task_id for tasks in await asyncio.gather(*workers) for task_id in tasks]
    assert sorted(taken) == [TaskId(job_id, index) for job_id in jobs for index in range(5)]
    for job_id in jobs:
        assert await world.job_state(job_id) == TaskState.SUCCEEDED
    await assert_audit_is_silent(database)


async def test_a_stop_does_not_wait_for_a_postgres_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_module, "STOP_SECONDS_MAX", 0.5)
    with EmbeddedPostgres(tmp_path / "a") as postgres:
        postgres.create_database("ledger")
        await migrate(postgres.url("ledger"))
        async with AsyncExitStack() as stopping:
            runtime = await stopping.enter_async_context(
                open_runtime(Options(postgres.url("ledger")))
            )
            await runtime.writers.submit(a_job())
            with frozen(postgres):
                # More than there are connections: some wait for one, some for a new one.
                asking = [asyncio.create_task(ask(runtime)) for _ in range(WRITE_CONNECTIONS + 4)]
                await asyncio.sleep(0)
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await stopping.aclose()
                    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(answer) for answer in answers} == {Unavailable}


async def ask(runtime: Runtime) -> None:
    async with runtime.ledger.database.transaction():
        pass


async def test_a_database_that_is_not_there_is_a_clear_error() -> None:
    with pytest.raises(Unavailable, match=r"cannot connect to Postgres at 127\.0\.0\.1:1: "):
        async with open_runtime(Options("postgresql://127.0.0.1:1/nowhere")):
            pass
    with pytest.raises(Invalid, match="database_url"):
        async with open_runtime(Options("nonsense")):
            pass
