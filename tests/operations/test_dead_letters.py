"""Dead letters: who goes there, how they are found, and how they come back as new jobs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.errors import IllegalMove, Invalid, NotFound, TooLarge
from holdfast.ledger.keys import request_key
from holdfast.ledger.ledger import Ledger
from holdfast.model.ids import TaskId
from holdfast.model.spec import Limits
from holdfast.model.states import TaskState
from holdfast.operations import dead_letters
from holdfast.operations.dead_letters import Replay, dead_letter_task, discard, replay
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.submitting import resubmission
from holdfast.store.database import Database, Transaction
from tests.audits import assert_audit_is_silent
from tests.chunks import shrink_chunks
from tests.world import World

DEAD = TaskState.DEAD_LETTERED


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


async def dead_inputs(world: World, count: int, dead: int, **fields: Any) -> int:
    """Submit inputs 0, 1, ...; the first few end as dead letters, the rest succeed."""
    job_id = await world.submit(inputs=list(range(count)), **fields)
    for mine in await world.claim(count, queue=fields.get("queue", "q")):
        if mine.task_id.task_index < dead:
            await world.fail(mine)
        else:
            await world.succeed(mine)
    return job_id


async def found(world: World, **wanted: Any) -> list[TaskId]:
    """List the ids of the dead letters that fit."""
    return [letter.id for letter in await world.dead_letters(**wanted)]


async def test_an_operator_dead_letters_a_pending_task(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(on_exhausted="fail")
    await dead_letter_task(ledger, TaskId(job_id, 0), actor="ann", reason="malformed")
    assert await world.story(job_id) == ["dead_lettered"]
    assert await world.job_state(job_id) == DEAD
    [letter] = await world.dead_letters()
    assert (letter.reason_code, letter.attempts) == ("policy_violation", 0)
    assert (letter.last_error, letter.stage) == ("malformed", None)
    assert (await world.job(job_id))["error"] == "malformed"


async def test_an_operator_dead_letters_a_task_that_waits_for_its_retry(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(max_retries_failure=1)
    [mine] = await world.claim()
    await world.fail(mine)
    await dead_letter_task(ledger, TaskId(job_id, 0), actor="ann", reason="malformed")
    assert await world.count("waiting") == 0
    [letter] = await world.dead_letters()
    assert (letter.attempts, letter.last_error, letter.stage) == (1, "malformed", "exec")


@pytest.mark.parametrize(
    ("state", "stage"), [(TaskState.ASSIGNED, "fetch"), (TaskState.RUNNING, "exec")]
)
async def test_an_operator_dead_letters_an_open_task_with_two_events(
    ledger: Ledger, world: World, state: TaskState, stage: str
) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    if state == TaskState.RUNNING:
        await world.start(mine)
    await dead_letter_task(ledger, mine.task_id, actor="ann", reason="poison")
    assert (await world.story(job_id))[-2:] == ["killed", "dead_lettered"]
    task = await world.task(mine.task_id)
    assert (task.state, task.attempts[0]["state"]) == (DEAD, TaskState.KILLED)
    assert (await world.lease(mine.task_id))["ending"]  # type: ignore[index]
    [letter] = await world.dead_letters()
    assert (letter.last_error, letter.stage) == ("poison", stage)
    assert not (await world.succeed(mine)).accepted
    assert (await world.task(mine.task_id)).state == DEAD


async def test_both_events_of_an_operators_call_carry_the_operator(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit()
    await world.claim()
    await dead_letter_task(ledger, TaskId(job_id, 0), actor="ann")
    rows = await world.clock.fetch(
        "select actor from holdfast.events where type in ('killed', 'dead_lettered') "
        "and task_index >= 0"
    )
    assert [row[0] for row in rows] == ["ann", "ann"]


async def test_a_finished_task_cannot_be_dead_lettered(ledger: Ledger, world: World) -> None:
    done = await world.submit()
    await world.succeed((await world.claim())[0])
    killed = await world.submit()
    await world.cancel_job(killed)
    dead = await dead_inputs(world, 1, 1)
    before = await world.dump()
    for job_id in (done, killed, dead):
        with pytest.raises(IllegalMove):
            await dead_letter_task(ledger, TaskId(job_id, 0), actor="ann")
    with pytest.raises(NotFound):
        await dead_letter_task(ledger, TaskId(done, 1), actor="ann")
    assert await world.dump() == before


async def test_a_dead_replica_ends_its_siblings(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(replicas=2)
    [mine] = await world.claim()
    await dead_letter_task(ledger, TaskId(job_id, 1), actor="ann")
    await follow_up_all(ledger)
    assert await world.job_state(job_id) == DEAD
    assert (await world.task(mine.task_id)).state == TaskState.KILLED


async def test_letters_are_found_by_what_they_are(ledger: Ledger, world: World) -> None:
    first = await dead_inputs(world, 2, 2, type="resize", queue="a")
    second = await dead_inputs(world, 1, 1, type="mail", queue="b")
    [mine] = await _claimed(world, type="mail", queue="c")
    await world.complete(mine, "failed", error_class="ValidationError", stage="input")
    third = mine.task_id
    both = [TaskId(first, 0), TaskId(first, 1)]
    assert await found(world) == [*both, TaskId(second, 0), third]
    assert await found(world, type="resize") == both
    assert await found(world, queue="b") == [TaskId(second, 0)]
    assert await found(world, type="mail", queue="c") == [third]
    assert await found(world, reason_code="validation_failed") == [third]
    assert await found(world, stage="input") == [third]
    assert await found(world, job_id=first) == both
    assert await found(world, job_id=10**6) == []


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
    monkeypatch.setattr(dead_letters, "PAGE_TASKS_MAX", 7)
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


async def test_a_letter_is_replayed_once(ledger: Ledger, world: World) -> None:
    job_id = await dead_inputs(world, 2, 2)
    await replay(ledger, [TaskId(job_id, 0)], actor="ann")
    before = await world.dump()
    with pytest.raises(IllegalMove, match="replayed as job"):
        await replay(ledger, [TaskId(job_id, 1), TaskId(job_id, 0)], actor="ann")
    with pytest.raises(IllegalMove):
        await discard(ledger, [TaskId(job_id, 0)], actor="ann")
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


async def test_a_discarded_letter_stays_readable_and_is_settled(
    ledger: Ledger, world: World
) -> None:
    job_id = await dead_inputs(world, 1, 1)
    await discard(ledger, [TaskId(job_id, 0)], actor="ann")
    assert await found(world) == []
    [letter] = await world.dead_letters(open_only=False)
    assert letter.discarded_at is not None
    for again in (replay, discard):
        with pytest.raises(IllegalMove, match="discarded"):
            await again(ledger, [TaskId(job_id, 0)], actor="ann")


async def test_bad_words_and_unknown_ids_change_nothing(ledger: Ledger, world: World) -> None:
    job_id = await dead_inputs(world, 1, 1)
    task_id = TaskId(job_id, 0)
    before = await world.dump()
    for ids in ([], [task_id, task_id], [task_id] * 10_001):
        with pytest.raises(Invalid, match="task_ids"):
            await replay(ledger, ids, actor="ann")
    for call in (replay, discard):
        with pytest.raises(Invalid, match="actor"):
            await call(ledger, [task_id], actor="\x00")
        with pytest.raises(Invalid, match="task_id"):
            await call(ledger, [TaskId(0, 0)], actor="ann")
        with pytest.raises(NotFound):
            await call(ledger, [task_id, TaskId(job_id, 7)], actor="ann")
    with pytest.raises(Invalid, match="reason"):
        await dead_letter_task(ledger, task_id, actor="ann", reason="\x00")
    with pytest.raises(Invalid, match="task_id"):
        await dead_letter_task(ledger, TaskId(1, -1), actor="ann")
    assert await world.dump() == before


async def _claimed(world: World, **fields: Any) -> Any:
    await world.submit(**fields)
    return await world.claim(queue=fields["queue"])
