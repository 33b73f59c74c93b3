"""A usual turn of workers, by one call: what it does, what it leaves to others, what undoes it."""

from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import JobState, TaskState
from holdfast.operations.claiming.claim import Claim, read_claims
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.claiming.turn import TurnTaken, take_turns
from holdfast.operations.queues import pause_queue
from holdfast.operations.register import Registration, register
from holdfast.store.database import JobChanged, KeyTaken, LockTimeout
from holdfast.store.tables.work.attempts import Success
from tests.audits import assert_audit_is_silent
from tests.databases import connect
from tests.world import World, fence_of

NEXT = ClaimRequest("w1", ("q",), 2, idempotency_key="k", start=True)


@pytest.fixture
def told(ledger: Ledger) -> list[News]:
    """All that the ledger's transactions have to tell."""
    news: list[News] = []
    ledger.on_commit = news.append
    return news


def given(turn: TurnTaken, requests: int = 1) -> list[list[Claim]]:
    """Read what each of those who asked was given."""
    answers = [answer for answer in read_claims(turn, requests) if answer is not None]
    assert len(answers) == requests
    return answers


def success(mine: Claim, result: str | None = None) -> Success:
    """Say that an attempt has ended well."""
    return Success(fence_of(mine), result)


async def test_ends_and_claims_are_written_and_told_together(
    ledger: Ledger, world: World, told: list[News]
) -> None:
    job_id = await world.submit(["a", "b", "c"], timeout=60, lease=45)
    old = await world.submit()
    [first] = given(await take_turns(ledger, [], [NEXT]))
    assert [mine.task_id for mine in first] == [TaskId(job_id, 0), TaskId(job_id, 1)]
    assert [mine.input for mine in first] == ['"a"', '"b"']
    assert all(mine.started and mine.lease_token.version == 4 for mine in first)
    lease: Any = await world.lease(first[0].task_id)
    assert lease["expires_at"] == first[0].lease_expires_at
    assert (lease["run_deadline_at"] - lease["created_at"]).total_seconds() == 60
    assert first[0].lease_remaining.total_seconds() == 45
    told.clear()
    turn = await take_turns(
        ledger,
        [success(first[1], "2"), success(first[0], "1")],
        [NEXT._replace(idempotency_key="l"), NEXT._replace(worker_id="w2")],
    )
    assert turn.recorded == [True, True]
    assert [[mine.task_id for mine in answer] for answer in given(turn, 2)] == [
        [TaskId(job_id, 2), TaskId(old, 0)],
        [],
    ]
    [news] = told
    assert news.moves == {
        (TaskState.RUNNING, TaskState.SUCCEEDED): 2,
        (TaskState.PENDING, TaskState.ASSIGNED): 2,
        (TaskState.ASSIGNED, TaskState.RUNNING): 2,
    }
    assert news.ends == {("w1", TaskState.SUCCEEDED): 2}
    assert [job for job, _ in news.runs] == [job_id, job_id]
    assert sorted(job for job, _ in news.waits) == [job_id, old]
    assert all(seconds >= 0 for _, seconds in [*news.runs, *news.waits])
    results = await world.clock.fetch("select result::text from holdfast.tasks order by 1")
    assert [row[0] for row in results if row[0]] == ["1", "2"]
    assert await world.story(job_id, 0) == ["claimed", "started", "succeeded"]
    assert await world.story(job_id, -1) == ["submitted", "started"]
    await assert_audit_is_silent(ledger.database)


async def test_the_last_success_ends_the_job_and_what_follows_is_left_to_others(
    ledger: Ledger, world: World, told: list[News]
) -> None:
    job_id = await world.submit()
    await world.submit(depends_on=[str(job_id)])
    [[mine]] = given(await take_turns(ledger, [], [NEXT]))
    await take_turns(ledger, [success(mine)], [])
    assert (told[-1].ended_jobs, told[-1].has_follow_ups) == ([job_id], True)
    assert await world.job_state(job_id) == JobState.SUCCEEDED
    rows = await world.clock.fetch("select kind, job_id from holdfast.outbox")
    assert [tuple(row) for row in rows] == [("release", job_id)]
    await assert_audit_is_silent(ledger.database)


async def test_tasks_are_given_by_priority_and_age_across_queues(
    ledger: Ledger, world: World
) -> None:
    low = await world.submit(queue="a", replicas=3)
    high = await world.submit(queue="b", priority=5)
    last = await world.submit(queue="b", replicas=2)
    await pause_queue(ledger, "closed", actor="me")
    await world.submit(queue="closed", priority=9)
    queues = ("a", "b", "closed", "empty")
    asked = [ClaimRequest("w1", queues, 2), ClaimRequest("w2", queues, 9)]
    mine, theirs = given(await take_turns(ledger, [], asked), 2)
    assert [claim.task_id for claim in mine] == [TaskId(high, 0), TaskId(low, 0)]
    assert [claim.task_id.job_id for claim in theirs] == [low, low, last, last]
    assert not any(claim.started for claim in [*mine, *theirs])


@pytest.mark.parametrize(
    ("fields", "starts"),
    [
        ({}, True),
        ({"entrypoint": {"command": ["true"]}}, False),
        ({"entrypoint": {"shell": "true"}}, False),
    ],
)
async def test_what_a_free_worker_runs_at_once_is_started_as_it_is_claimed(
    ledger: Ledger, world: World, fields: dict[str, Any], starts: bool
) -> None:
    job_id = await world.submit(**fields)
    turn = await take_turns(ledger, [], [NEXT])
    [[mine]] = given(turn)
    assert turn.specs[job_id].spec.starts_at_once == starts
    assert mine.started == starts
    wanted = TaskState.RUNNING if starts else TaskState.ASSIGNED
    assert (await world.task(mine.task_id)).state == wanted


async def test_what_has_cost_a_worker_is_not_started_as_it_is_claimed(
    ledger: Ledger, world: World
) -> None:
    await world.submit(backoff={"base": 0.0})
    [first] = await world.claim()
    await world.complete(first, "worker_failed")
    await world.run_chores()
    [[again]] = given(await take_turns(ledger, [], [NEXT]))
    assert (again.attempt, again.preemption_count, again.started) == (1, 1, False)


async def test_what_holds_no_running_lease_is_left_and_nothing_happens_to_it(
    ledger: Ledger, world: World
) -> None:
    await world.submit(replicas=3)
    mine, other, unstarted = await world.claim(3)
    await world.start(mine)
    await world.start(other)
    forged = Success(fence_of(mine)._replace(lease_token=other.lease_token), None)
    late = Success(fence_of(mine)._replace(attempt=1), None)
    before = await world.dump()
    turn = await take_turns(ledger, [forged, late, success(unstarted)], [])
    assert turn.recorded == [False] * 3
    assert await world.dump() == before
    twice = await take_turns(ledger, [success(other), success(other), success(unstarted)], [])
    assert sorted(twice.recorded) == [False, False, True]
    await assert_audit_is_silent(ledger.database)


async def is_left_in_line(ledger: Ledger, world: World, *requests: ClaimRequest) -> bool:
    """Claim, and see that nothing is given, that all have to ask again, and nothing is changed."""
    before = await world.dump()
    answers = read_claims(await take_turns(ledger, [], requests), len(requests))
    return answers == [None] * len(requests) and await world.dump() == before


async def test_a_worker_that_was_replaced_is_given_nothing(ledger: Ledger, world: World) -> None:
    await world.submit()
    await register(ledger, Registration("w1", "name", "host"))
    await register(ledger, Registration("w3", "name", "host", replaces="w1"))
    assert await is_left_in_line(ledger, world, NEXT._replace(worker_id="w2"), NEXT)


async def test_tasks_that_name_resources_are_left_to_whoever_measures(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    await world.submit(resources={"cpu": 1})
    assert await is_left_in_line(ledger, world, NEXT._replace(book="b"))
    [mine] = given(await take_turns(ledger, [], [NEXT]))
    assert len(mine) == 2


async def test_stale_tasks_are_dropped_and_whoever_got_nothing_looks_again(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(replicas=2)
    await world.clock.fetch(
        "update holdfast.jobs set cancel_mode = 'soft', seq = seq + 1, "
        "event_type = 'cancel_requested' where job_id = $1",
        job_id,
    )
    assert read_claims(await take_turns(ledger, [], [NEXT]), 1) == [None]
    assert await world.count("ready") == 0
    assert given(await take_turns(ledger, [], [NEXT])) == [[]]


async def test_a_claim_under_a_key_that_was_used_finds_nothing_new(
    ledger: Ledger, world: World
) -> None:
    await world.submit(replicas=3)
    await take_turns(ledger, [], [NEXT])
    with pytest.raises(KeyTaken):
        await take_turns(ledger, [], [NEXT])
    assert (await world.count("leases"), await world.count("ready")) == (2, 1)
    await take_turns(ledger, [], [NEXT._replace(idempotency_key="l")])
    # Nothing is left for it, but there may be something that it was given the first time.
    assert await is_left_in_line(ledger, world, NEXT)


async def test_a_job_that_is_cancelled_meanwhile_undoes_the_turn(
    ledger: Ledger, world: World, database_url: str
) -> None:
    done = await world.submit()
    [mine] = await world.claim()
    await world.start(mine)
    await world.submit()
    connection = await connect(database_url)
    # As if it came between the look at the job and its count.
    await connection.execute(
        "create function holdfast.cancel_all() returns trigger language plpgsql as $$ begin "
        "update holdfast.jobs set cancel_mode = 'hard', seq = seq + 1, "
        "event_type = 'cancel_requested' where finished_at is null; return null; end $$; "
        "create trigger cancel_all after insert on holdfast.leases "
        "for each statement execute function holdfast.cancel_all()"
    )
    await connection.close()
    before = await world.dump()
    with pytest.raises(JobChanged):
        await take_turns(ledger, [success(mine)], [NEXT])
    assert await world.dump() == before
    assert await world.job_state(done) == JobState.RUNNING


async def test_a_row_that_somebody_holds_undoes_the_turn_after_a_moment(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(replicas=2)
    [mine] = await world.claim()
    await world.start(mine)
    before = await world.dump()
    async with ledger.database.transaction() as tx:
        await tx.connection.execute(
            "select from holdfast.jobs where job_id = $1 for update", job_id
        )
        with pytest.raises(LockTimeout):
            await take_turns(ledger, [success(mine)], [NEXT])
    assert await world.dump() == before


async def test_of_several_queues_who_is_given_nothing_since_others_hold_it_looks_again(
    ledger: Ledger, world: World
) -> None:
    held = await world.submit(queue="a", priority=5)
    other = await world.submit(queue="b")
    request = ClaimRequest("w1", ("a", "b"))
    async with ledger.database.transaction() as tx:
        await tx.connection.execute("select from holdfast.tasks where job_id = $1 for update", held)
        assert read_claims(await take_turns(ledger, [], [request]), 1) == [None]
    [[mine]] = given(await take_turns(ledger, [], [request]))
    assert mine.task_id.job_id == held
    [[mine]] = given(await take_turns(ledger, [], [request]))
    assert mine.task_id.job_id == other
