"""Dead letters come back as new jobs, each once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
import pytest

from holdfast.errors import IllegalMove, Invalid, TooLarge
from holdfast.ledger.keys import request_key
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Limits
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.dead_letters import dead_letter_task
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.submitting import replay as operation
from holdfast.operations.submitting import resubmission
from holdfast.operations.submitting.replay import Manner, Replay, replay
from holdfast.store.database import Database, Transaction
from tests.audits import assert_audit_is_silent
from tests.chunks import shrink_chunks
from tests.datasets import Library
from tests.operations.letters import dead_inputs, found
from tests.world import World

CANARY = Manner(canary=1)


class CountedDatabase(Database):
    """Counts its transactions, and the statements in them."""

    transactions = 0
    statements = 0

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        self.transactions += 1
        async with super().transaction() as tx:
            with tx.connection.query_logger(self._count):
                yield tx

    def _count(self, _: object) -> None:
        self.statements += 1


async def test_replaying_inputs_runs_only_the_dead_ones_again(ledger: Ledger, world: World) -> None:
    job_id = await dead_inputs(world, 4, 2, priority=3, idempotency_key="k", correlation_id="c")
    dead = [TaskId(job_id, 0), TaskId(job_id, 1)]
    [done] = await replay(ledger, dead, actor="ann")
    assert (done.replay_of, done.task_ids) == (job_id, tuple(dead))
    assert done.job_id is not None
    claims = await world.claim(5)
    assert [mine.input for mine in claims] == ["0", "1"]
    job = await world.job(done.job_id)
    assert (job["replay_of"], job["priority"], job["correlation_id"]) == (job_id, 3, "c")
    assert await world.story(job_id, -1) == ["submitted", "started", "dead_lettered", "replayed"]
    assert await found(world) == []
    assert await found(world, open_only=False) == dead


async def test_replicas_belong_together_and_run_again_as_a_whole(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(replicas=3)
    [mine] = await world.claim()
    await world.fail(mine)
    await follow_up_all(ledger)
    [done] = await replay(ledger, [mine.task_id], actor="ann")
    assert [item.task_id.job_id for item in await world.claim(5)] == [done.job_id] * 3
    assert job_id != done.job_id


async def test_a_replay_of_very_many_replicas_is_claimable_whole(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(replicas=10_001)
    await dead_letter_task(ledger, TaskId(job_id, 0), actor="ann")
    await follow_up_all(ledger)
    await world.clock.fetch("delete from holdfast.ready")
    [done] = await replay(ledger, [TaskId(job_id, 0)], actor="ann")
    await follow_up_all(ledger)
    assert done.job_id is not None
    last = await world.claim_by_id(TaskId(done.job_id, 10_000))
    assert last.task_id.task_index == 10_000


async def test_the_rest_starts_when_the_canary_has_succeeded(ledger: Ledger, world: World) -> None:
    split, other = await dead_inputs(world, 3, 3), await dead_inputs(world, 1, 1)
    letters = await found(world)
    planned = await replay(ledger, letters, actor="ann", manner=Manner(canary=1), dry_run=True)
    first, rest, last = await replay(ledger, letters, actor="ann", manner=Manner(canary=1))
    assert [(each.replay_of, len(each.task_ids), each.is_canary) for each in planned] == [
        (split, 1, True), (split, 2, False), (other, 1, False),
    ]  # fmt: skip
    assert [replace(each, job_id=None) for each in (first, rest, last)] == planned
    assert await world.story(split, -1) == ["submitted", "started", "dead_lettered", "replayed"]
    [mine] = await world.claim(9)
    assert mine.task_id == TaskId(first.job_id or 0, 0)
    await follow_up_all(ledger)
    assert await world.claim(9) == []
    await world.succeed(mine)
    await follow_up_all(ledger)
    claims = await world.claim(9)
    jobs = {claim.task_id.job_id for claim in claims}
    assert (len(claims), jobs) == (3, {rest.job_id, last.job_id})
    assert await found(world) == []
    await assert_audit_is_silent(ledger.database)


async def test_a_canary_that_fails_gives_the_other_letters_back(
    ledger: Ledger, world: World
) -> None:
    job_id = await dead_inputs(world, 3, 3, correlation_id="c")
    letters = await found(world)
    first, rest = await replay(ledger, letters, actor="ann", manner=Manner(canary=1))
    await world.fail((await world.claim())[0])
    await follow_up_all(ledger)
    assert first.job_id is not None
    assert rest.job_id is not None
    assert await world.job_state(rest.job_id) == TaskState.KILLED
    assert f"job {first.job_id}" in (await world.job(rest.job_id))["cancel_reason"]
    assert await found(world) == [*letters[1:], TaskId(first.job_id, 0)]
    await assert_audit_is_silent(ledger.database)
    again = await replay(ledger, await found(world), actor="ann")
    assert [(each.replay_of, len(each.task_ids)) for each in again] == [
        (job_id, 2), (first.job_id, 1),
    ]  # fmt: skip
    for each in again:
        assert (await world.job(each.job_id or 0))["correlation_id"] == "c"


async def test_under_one_key_a_canary_is_replayed_once(ledger: Ledger, world: World) -> None:
    await dead_inputs(world, 3, 3)
    letters = await found(world)
    keyed = request_key("replay", "ann", "k", request=1)
    made = [
        await replay(ledger, letters, actor="ann", keyed=keyed, manner=Manner(canary=1))
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert await world.count("jobs") == 3


async def test_a_pace_is_kept_across_jobs_and_begins_when_the_canary_has_succeeded(
    ledger: Ledger, world: World
) -> None:
    many, one = await dead_inputs(world, 3, 3), await dead_inputs(world, 1, 1)
    letters = await found(world)
    with pytest.raises(Invalid, match="rate: is 0 tasks per second"):
        await replay(ledger, letters, actor="ann", manner=Manner(rate=0.0))
    manner = Manner(canary=1, rate=0.01)
    made = await replay(ledger, letters, actor="ann", manner=manner)
    assert [(each.replay_of, each.start_delay, each.start_rate) for each in made] == [
        (many, 0.0, None), (many, 0.0, 0.01), (one, 200.0, None),
    ]  # fmt: skip
    await world.clock.advance(1000.0)
    await world.succeed((await world.claim(9))[0])
    started = []
    for _ in range(3):
        await follow_up_all(ledger)
        started.append([claim.task_id.job_id for claim in await world.claim(9)])
        await world.clock.advance(100.0)
    _, rest, last = [each.job_id for each in made]
    assert started == [[rest], [rest], [last]]
    await assert_audit_is_silent(ledger.database)


async def test_a_job_that_would_open_two_versions_is_not_divided(
    ledger: Ledger, world: World
) -> None:
    library = Library(world)
    await library.create(versions=0)
    await dead_inputs(world, 3, 3, outputs=[{"dataset": "events", "version": "new"}])
    letters = await found(world)
    assert len(await replay(ledger, letters, actor="ann", dry_run=True, manner=CANARY)) == 2
    await library.cut_over(1)
    before = await world.dump()
    with pytest.raises(Invalid, match="canary: would open two new versions of dataset events"):
        await replay(ledger, letters, actor="ann", manner=CANARY)
    assert await world.dump() == before


async def test_one_letter_is_replayed_with_another_input(ledger: Ledger, world: World) -> None:
    job_id = await dead_inputs(world, 2, 2)
    letter = TaskId(job_id, 1)
    manner = Manner(edited='{"order": 7}')
    [made] = await replay(ledger, [letter], actor="ann", manner=manner)
    assert made.input_edited
    [mine] = await world.claim(5)
    assert mine.input == '{"order": 7}'
    [kept] = [each for each in await world.dead_letters(open_only=False) if each.id == letter]
    assert (kept.input, kept.input_edited) == ("1", True)
    [event] = await world.clock.fetch(
        "select actor, payload from holdfast.events where type = 'replayed' and job_id = $1", job_id
    )
    assert event["actor"] == "ann"
    assert msgspec.json.decode(event["payload"]) == {
        "job_id": str(made.job_id),
        "input_edited": str(letter),
    }
    await assert_audit_is_silent(ledger.database)


async def test_an_edited_input_is_checked_like_that_of_a_submission(
    ledger: Ledger, world: World
) -> None:
    job_id = await dead_inputs(world, 2, 2)
    replicas = await world.submit(replicas=2)
    await dead_letter_task(ledger, TaskId(replicas, 0), actor="ann")
    both = [TaskId(job_id, 0), TaskId(job_id, 1)]
    before = await world.dump()
    for ids, text, says in (
        (both, "1", "goes with one dead letter, not 2"),
        (both[:1], "{", "is not JSON"),
        (both[:1], '"' + "x" * (1 << 20) + '"', "over the limit"),
        (both[:1], '"\\u0000"', "NUL"),
        ([TaskId(replicas, 0)], "1", "has replicas, which have no input"),
    ):
        for dry_run in (True, False):
            with pytest.raises(Invalid, match=says) as refused:
                await replay(ledger, ids, actor="ann", dry_run=dry_run, manner=Manner(edited=text))
            assert refused.value.field == "input"
    assert await world.dump() == before


async def limit_inserts(world: World, tasks_max: int) -> None:
    """Refuse every statement that stores more tasks than that."""
    await world.clock.fetch(
        "create function public.refuse_many() returns trigger language plpgsql as 'begin "
        f"if (select count(*) from stored) > {tasks_max} then raise ''too many at once''; end if; "
        "return null; end'"
    )
    await world.clock.fetch(
        "create trigger few after insert on holdfast.tasks referencing new table as stored "
        "for each statement execute function public.refuse_many()"
    )


async def test_more_letters_than_a_chunk_are_replayed_in_chunks_and_once_per_key(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many, replicas = (
        await dead_inputs(world, 4, 4),
        await dead_inputs(world, 25, 25),
        await world.submit(replicas=12),
    )
    await dead_letter_task(ledger, TaskId(replicas, 0), actor="ann")
    await follow_up_all(ledger)
    await world.clock.fetch("delete from holdfast.ready")
    letters = await found(world)
    assert len(letters) == 30
    shrink_chunks(monkeypatch, 10)
    monkeypatch.setattr(operation, "PAGE_TASKS_MAX", 7)
    await limit_inserts(world, 10)
    keyed = request_key("replay", "ann", "k", request=1)
    made, again = await asyncio.gather(
        *(replay(ledger, letters, actor="ann", keyed=keyed) for _ in range(2))
    )
    assert again == made
    assert [item.replay_of for item in made] == [few, many, replicas]
    shown = await world.clock.fetch("select from holdfast.jobs where submitted_at is not null")
    assert len(shown) == 6
    assert await found(world) == []
    await follow_up_all(ledger)
    inputs = [claim.input for claim in await world.claim(50)]
    expected = [str(n) for n in range(4)] + [str(n) for n in range(25)] + [None] * 12
    assert inputs == expected
    await assert_audit_is_silent(ledger.database)


async def test_more_input_than_a_submission_may_have_is_not_replayed_at_once(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await dead_inputs(world, 25, 25)
    letters = [TaskId(job_id, index) for index in range(25)]
    monkeypatch.setattr(resubmission, "INPUTS_BYTES_MAX", 39)
    before = await world.dump()
    for dry_run in (True, False):
        with pytest.raises(TooLarge, match="inputs: 40 bytes is over the limit of 39 bytes"):
            await replay(ledger, letters, actor="ann", dry_run=dry_run)
    assert await world.dump() == before
    [made] = await replay(ledger, letters[:-1], actor="ann")
    assert len(made.task_ids) == 24


async def test_more_replicas_than_a_job_may_have_are_not_replayed_at_once(
    ledger: Ledger, world: World, database: Database
) -> None:
    jobs = [await world.submit(replicas=3) for _ in range(2)]
    letters = [TaskId(job_id, 0) for job_id in jobs]
    for letter in letters:
        await dead_letter_task(ledger, letter, actor="ann")
    with pytest.raises(TooLarge, match="task_ids: 6 tasks is over the limit of 5 tasks"):
        await replay(Ledger(database, Limits(tasks_max=5)), letters, actor="ann")


async def test_a_replay_waits_for_what_the_first_time_had_not_come(
    ledger: Ledger, world: World
) -> None:
    met, used, open_, vain = [await world.submit(queue=name) for name in ("m", "u", "o", "v")]
    for name in ("m", "u"):
        await world.succeed((await world.claim(queue=name))[0], "1")
    results = [{"path": ["args", 0], "job": str(used)}]
    entrypoint = {"function": "app:work", "args": [None], "results": results}
    ended = [str(met), str(used), {"job": str(open_), "condition": "ended"}]
    early = await world.submit(entrypoint=entrypoint, depends_on=ended)
    lost = await world.submit(depends_on=[str(open_), str(vain)])
    for job_id in (early, lost):
        await dead_letter_task(ledger, TaskId(job_id, 0), actor="ann")
    await world.fail((await world.claim(queue="v"))[0], "PermanentError")
    await follow_up_all(ledger)
    first, second = await replay(ledger, [TaskId(early, 0), TaskId(lost, 0)], actor="ann")
    bonds = await world.clock.fetch(
        "select depends_on, condition, holds from holdfast.dependencies "
        "where job_id = any ($1::bigint[]) order by job_id, depends_on",
        [first.job_id, second.job_id],
    )
    assert [tuple(bond) for bond in bonds] == [
        (used, "succeeded", True),
        (open_, "ended", None),
        (open_, "succeeded", None),
        (vain, "succeeded", False),
    ]
    assert await world.claim() == []
    await world.fail((await world.claim(queue="o"))[0], "PermanentError")
    await follow_up_all(ledger)
    assert [claim.task_id.job_id for claim in await world.claim(5)] == [first.job_id]


async def test_letters_of_several_jobs_become_a_new_job_each(ledger: Ledger, world: World) -> None:
    first = await dead_inputs(world, 1, 1)
    second = await dead_inputs(world, 1, 1)
    done = await replay(ledger, [TaskId(second, 0), TaskId(first, 0)], actor="ann")
    assert [item.replay_of for item in done] == [first, second]
    assert len({item.job_id for item in done}) == 2


async def test_letters_of_more_jobs_take_no_more_statements_nor_transactions(
    world: World, database_url: str
) -> None:
    taken = []
    for jobs in (2, 9):
        queue = f"of-{jobs}"
        letters = [TaskId(await dead_inputs(world, 1, 1, queue=queue), 0) for _ in range(jobs)]
        async with CountedDatabase(database_url) as counted:
            made = await replay(Ledger(counted), letters, actor="ann")
        assert [item.task_ids for item in made] == [(letter,) for letter in letters]
        taken.append((counted.transactions, counted.statements))
    few, many = taken
    assert many == few


async def test_a_dry_run_says_what_would_happen_and_does_nothing(
    ledger: Ledger, world: World
) -> None:
    job_id = await dead_inputs(world, 1, 1)
    before = await world.dump()
    planned = await replay(ledger, [TaskId(job_id, 0)], actor="ann", dry_run=True)
    assert planned == [Replay(job_id, (TaskId(job_id, 0),), None)]
    assert await world.dump() == before


async def test_two_operators_replaying_one_letter_make_one_job(
    ledger: Ledger, world: World
) -> None:
    job_id = await dead_inputs(world, 1, 1)
    answers = await asyncio.gather(
        *(replay(ledger, [TaskId(job_id, 0)], actor=name) for name in ("ann", "bob", "eve")),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, list) for answer in answers) == 1
    assert sum(isinstance(answer, IllegalMove) for answer in answers) == 2
    assert await world.count("jobs") == 2
