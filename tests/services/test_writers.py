"""The writers of a server: gathered, answered after the commit, and renewals on their own way."""

import asyncio
from functools import partial
from uuid import uuid4

import asyncpg
import pytest

from holdfast.errors import Invalid, LeaseConflict, Stopping
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.fence import Fence
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.complete import Completed, Completion
from holdfast.operations.renew import Renewed
from holdfast.operations.report import Recorded, Report
from holdfast.operations.submitting.store import CHUNK_TASKS_MAX
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from holdfast.services.writers import WRITES_AT_ONCE, Writers
from tests.chunks import shrink_chunks
from tests.conftest import run_sql
from tests.waiting import eventually
from tests.world import World, fence_of

SPEC = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"})


async def test_a_task_goes_all_the_way(ledger: Ledger, world: World) -> None:
    writers = Writers(ledger)
    submitted = await writers.submit(Submission(SPEC))
    assert submitted.is_new
    [mine] = await writers.claim(ClaimRequest("w1", ("q",)))
    fence = fence_of(mine)
    assert mine.task_id.job_id == submitted.job_id
    assert await writers.report([Report(fence, TaskState.RUNNING)]) == [
        Recorded(mine.task_id, is_news=True)
    ]
    [renewed] = await writers.renew([fence])
    assert isinstance(renewed, Renewed)
    assert await writers.complete([Completion(fence, "succeeded")]) == [
        Completed(mine.task_id, accepted=True)
    ]
    assert await world.job_state(submitted.job_id) == TaskState.SUCCEEDED


async def test_concurrent_submissions_share_transactions(ledger: Ledger, world: World) -> None:
    writers = Writers(ledger)
    calls = [writers.submit(Submission(SPEC)) for _ in range(50)]
    submitted = await asyncio.gather(*calls)
    assert len({one.job_id for one in submitted}) == 50
    rows = await world.clock.fetch("select distinct xmin::text from holdfast.jobs")
    assert len(rows) <= 10


async def test_a_refusal_is_raised_for_the_one_who_asked(ledger: Ledger, world: World) -> None:
    writers = Writers(ledger)
    bad = Submission(parse_spec({"entrypoint": {"function": "nonsense"}}))
    good, refused, conflict, empty = await asyncio.gather(
        writers.submit(Submission(SPEC)),
        writers.submit(bad),
        writers.claim(ClaimRequest("w1", task_id=(await _stranger(world)).task_id)),
        writers.claim(ClaimRequest("w1", ("nothing here",))),
        return_exceptions=True,
    )
    assert not isinstance(good, BaseException)
    assert isinstance(refused, Invalid)
    assert isinstance(conflict, LeaseConflict)
    assert empty == []


async def _stranger(world: World) -> Fence:
    return Fence((await _claimed(world)).task_id, 0, uuid4())


async def _claimed(world: World) -> Fence:
    await world.submit()
    [claim] = await world.claim()
    return fence_of(claim)


async def test_one_stale_lease_does_not_touch_the_others(ledger: Ledger, world: World) -> None:
    writers = Writers(ledger)
    mine = await _claimed(world)
    stranger = await _stranger(world)
    for answers in (
        await writers.renew([mine, stranger]),
        await writers.report([Report(f, TaskState.RUNNING) for f in (mine, stranger)]),
        await writers.complete([Completion(f, "succeeded") for f in (mine, stranger)]),
    ):
        assert [isinstance(answer, LeaseConflict) for answer in answers] == [False, True]


# Not a lock, which would be given up soon: a write that takes as long as the test wants.
HELD_UP = """
create table public.gate ();
create function public.wait_at_gate() returns trigger language plpgsql as $$
begin
    while not exists (select from public.gate) loop perform pg_sleep(0.01); end loop;
    return null;
end $$;
create trigger a_gate before update on holdfast.tasks execute function public.wait_at_gate()
"""
SLEEPERS = (
    "select count(*) from pg_stat_activity "
    "where datname = current_database() and wait_event = 'PgSleep'"
)


async def test_renewals_go_on_while_every_write_is_held_up(
    ledger: Ledger, world: World, database_url: str
) -> None:
    writers = Writers(ledger)
    held = [await _claimed(world) for _ in range(WRITES_AT_ONCE + 1)]
    free = await _claimed(world)
    await run_sql(database_url, HELD_UP)
    calls = []
    for place, fence in enumerate(held):
        calls.append(asyncio.create_task(writers.complete([Completion(fence, "succeeded")])))
        at_gate = min(place + 1, WRITES_AT_ONCE)
        await eventually(partial(_count, world, SLEEPERS, at_gate))
    async with asyncio.timeout(30):
        [renewed] = await writers.renew([free])
    assert isinstance(renewed, Renewed)
    assert not any(call.done() for call in calls)
    await run_sql(database_url, "insert into public.gate default values")
    for call in calls:
        [answer] = await call
        assert isinstance(answer, Completed)


async def _count(world: World, query: str, wanted: int) -> bool:
    [row] = await world.clock.fetch(query)
    return int(row[0]) >= wanted


async def test_a_large_submission_does_not_hold_up_small_ones(ledger: Ledger, world: World) -> None:
    writers = Writers(ledger)
    inputs = parse_inputs(list(range(CHUNK_TASKS_MAX * 2 + 1)))
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "large"})
    large = asyncio.create_task(writers.submit(Submission(spec, inputs)))
    hidden = "select count(*) from holdfast.jobs where submitted_at is null"
    await eventually(lambda: _count(world, hidden, 1))
    small = await writers.submit(Submission(SPEC))
    assert small.is_new
    assert not large.done()
    submitted = await large
    job = await world.job(submitted.job_id)
    assert job["num_tasks"] == len(inputs)


async def test_what_is_stored_is_not_stored_again_when_its_neighbour_has_to_wait(
    ledger: Ledger, world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_chunks(monkeypatch, 3)
    writers = Writers(ledger)
    held = await world.submit()
    waits = parse_spec(
        {"entrypoint": {"function": "app:work"}, "queue": "q", "depends_on": [str(held)]}
    )
    holder = await asyncpg.connect(database_url)
    async with holder.transaction():
        await holder.execute("select from holdfast.jobs where job_id = $1 for update", held)
        first, second = (
            asyncio.create_task(writers.submit(Submission(spec, parse_inputs([1, 2]))))
            for spec in (SPEC, waits)
        )
        stored = await first
        assert not second.done()
    await holder.close()
    assert {held, stored.job_id, (await second).job_id} == {
        row[0] for row in await world.clock.fetch("select job_id from holdfast.jobs")
    }


async def test_stopping_answers_what_waits_and_takes_no_more(ledger: Ledger, world: World) -> None:
    writers = Writers(ledger)
    mine = await _claimed(world)
    under_way = asyncio.create_task(writers.complete([Completion(mine, "succeeded")]))
    await asyncio.sleep(0)
    await writers.stop()
    assert under_way.done()
    assert await under_way == [Completed(mine.task_id, accepted=True)]
    for call in (
        writers.submit(Submission(SPEC)),
        writers.claim(ClaimRequest("w1", ("q",))),
        writers.renew([mine]),
        writers.report([Report(mine, TaskState.RUNNING)]),
        writers.complete([Completion(mine, "succeeded")]),
    ):
        with pytest.raises(Stopping):
            await call
