"""Taking in jobs: whole or not at all, once per key, and large ones unseen until they are whole."""

import asyncio
from typing import Any

import pytest

from holdfast.errors import IllegalMove, Invalid, KeyReused, NotFound, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.ids import TaskId
from holdfast.model.spec import Limits, Submission
from holdfast.model.states import TaskState
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.ending.follow_up import follow_up_all
from holdfast.operations.submitting.arrivals import Submitted
from holdfast.operations.submitting.submit import submit, submit_batch, submit_one
from holdfast.rules.submission import parse_inputs, parse_spec
from holdfast.store.database import Database
from tests.world import World

LARGE = 25_000


def a_submission(inputs: list[Any] | None = None, **fields: Any) -> Submission:
    """Describe a job for queue `q`; `parent_job_id` is a link, the rest belongs to the spec."""
    parent = fields.pop("parent_job_id", None)
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"} | fields)
    texts = None if inputs is None else parse_inputs(inputs)
    return Submission(spec, texts, parent_job_id=parent)


async def test_one_job_is_pending_with_its_defaults_stored(world: World) -> None:
    job_id = await world.submit()
    job = await world.job(job_id)
    assert (job["state"], job["num_tasks"], job["pending"]) == (TaskState.PENDING, 1, 1)
    assert (job["owner"], job["type"], job["name"]) == ("anonymous", "work", "work")
    assert await world.story(job_id, -1) == ["submitted"]
    assert await world.story(job_id) == []
    [claim] = await world.claim()
    policy = claim.job.policy
    assert (policy.lease, policy.max_retries_preemption, policy.on_exhausted) == (
        30.0, 5, "dead_letter",
    )  # fmt: skip


async def test_replicas_and_inputs_make_as_many_tasks(world: World) -> None:
    replicas = await world.submit(replicas=3)
    inputs = await world.submit(inputs=["a", {"b": 1}])
    claims = await world.claim(5)
    assert [claim.task_id for claim in claims] == [
        TaskId(replicas, 0), TaskId(replicas, 1), TaskId(replicas, 2),
        TaskId(inputs, 0), TaskId(inputs, 1),
    ]  # fmt: skip
    assert [claim.input for claim in claims] == [None, None, None, '"a"', '{"b":1}']


async def test_many_jobs_in_one_call_get_ids_in_their_order(ledger: Ledger) -> None:
    answers = await submit(ledger, [a_submission(name=f"n{i}") for i in range(5)])
    job_ids = [answer.job_id for answer in answers if isinstance(answer, Submitted)]
    assert job_ids == sorted(job_ids)
    assert len(job_ids) == 5


async def test_more_tasks_than_one_transaction_holds_arrive_in_several(
    ledger: Ledger, world: World
) -> None:
    answers = await submit(ledger, [a_submission(replicas=6_000) for _ in range(3)])
    assert all(isinstance(answer, Submitted) and answer.is_new for answer in answers)
    assert await world.count("ready") == 18_000


async def test_a_bad_job_is_refused_alone(ledger: Ledger, world: World) -> None:
    good, bad, large = await submit(
        ledger,
        [a_submission(), a_submission(lease=5.0), a_submission(inputs=["x" * (1 << 20)])],
    )
    assert isinstance(good, Submitted)
    assert isinstance(bad, Invalid)
    assert bad.field == "lease"
    assert isinstance(large, TooLarge)
    assert large.field == "inputs[0]"
    assert await world.count("jobs") == 1


async def test_an_empty_list_of_jobs_is_answered_with_one(ledger: Ledger) -> None:
    assert await submit(ledger, []) == []


@pytest.mark.parametrize("in_chunks", [False, True])
async def test_a_job_whose_parent_is_missing_is_refused_alone(
    ledger: Ledger, in_chunks: bool
) -> None:
    orphan = a_submission(replicas=10_001 if in_chunks else 1, parent_job_id=999)
    first, refused, last = await submit(ledger, [a_submission(), orphan, a_submission()])
    assert isinstance(first, Submitted)
    assert isinstance(refused, NotFound)
    assert isinstance(last, Submitted)


async def test_a_job_whose_parent_has_ended_is_refused_alone(ledger: Ledger, world: World) -> None:
    parent = await world.submit()
    await world.cancel_job(parent)
    good, refused = await submit(ledger, [a_submission(), a_submission(parent_job_id=parent)])
    assert isinstance(good, Submitted)
    assert isinstance(refused, IllegalMove)


async def test_a_child_of_a_job_that_is_being_cancelled_is_refused(
    ledger: Ledger, world: World
) -> None:
    parent = await world.submit()
    await cancel_job(ledger, parent, "soft", actor="operator")
    with pytest.raises(IllegalMove):
        await world.submit_child(parent)


async def test_a_batch_is_stored_whole(ledger: Ledger, world: World) -> None:
    answers = await submit_batch(ledger, [a_submission(), a_submission(inputs=[1, 2])])
    assert [answer.is_new for answer in answers] == [True, True]
    assert len(await world.claim(5)) == 3


async def test_a_batch_with_one_bad_job_stores_nothing(ledger: Ledger, world: World) -> None:
    await submit_one(ledger, a_submission(idempotency_key="k"))
    before = await world.dump()
    for expected, bad in (
        (Invalid, a_submission(lease=1.0)),
        (KeyReused, a_submission(idempotency_key="k", priority=3)),
        (NotFound, a_submission(parent_job_id=99)),
    ):
        with pytest.raises(expected):
            await submit_batch(ledger, [a_submission(), bad, a_submission()])
        assert await world.dump() == before


async def test_a_batch_larger_than_one_transaction_is_refused(database: Database) -> None:
    ledger = Ledger(database, Limits(batch_tasks_max=10))
    with pytest.raises(TooLarge, match="12 tasks is over the limit of 10"):
        await submit_batch(ledger, [a_submission(replicas=6), a_submission(replicas=6)])


async def test_the_same_key_and_spec_return_the_first_job(ledger: Ledger, world: World) -> None:
    first = await submit_one(ledger, a_submission(inputs=[1], idempotency_key="k"))
    before = await world.dump()
    again = await submit_one(ledger, a_submission(inputs=[1], idempotency_key="k"))
    assert (again.job_id, first.is_new, again.is_new) == (first.job_id, True, False)
    assert await world.dump() == before


@pytest.mark.parametrize("other", [{"inputs": [2]}, {"inputs": [1], "priority": 1}])
async def test_the_same_key_with_another_spec_is_an_error(
    ledger: Ledger, world: World, other: dict[str, Any]
) -> None:
    first = await submit_one(ledger, a_submission(inputs=[1], idempotency_key="k"))
    before = await world.dump()
    with pytest.raises(KeyReused) as refused:
        await submit_one(ledger, a_submission(**other, idempotency_key="k"))
    assert (refused.value.key, refused.value.job_id) == ("k", str(first.job_id))
    assert await world.dump() == before


async def test_keys_belong_to_their_owner(ledger: Ledger) -> None:
    mine = await submit_one(ledger, a_submission(owner="ann", idempotency_key="k"))
    yours = await submit_one(ledger, a_submission(owner="bob", idempotency_key="k"))
    assert mine.job_id != yours.job_id


async def test_a_key_twice_in_one_call_is_one_job(ledger: Ledger) -> None:
    first, again = await submit(ledger, [a_submission(idempotency_key="k")] * 2)
    assert isinstance(first, Submitted)
    assert again == Submitted(first.job_id, is_new=False)


async def test_two_connections_racing_with_one_key_make_one_job(
    ledger: Ledger, database_url: str, world: World
) -> None:
    async with Database(database_url) as other:
        ledgers = [ledger, Ledger(other)] * 4
        answers = await asyncio.gather(
            *(submit_one(mine, a_submission(idempotency_key="k")) for mine in ledgers)
        )
    assert len({answer.job_id for answer in answers}) == 1
    assert sum(answer.is_new for answer in answers) == 1
    assert await world.count("jobs") == 1


async def test_a_large_job_is_hidden_until_its_last_chunk(ledger: Ledger, world: World) -> None:
    arriving = asyncio.create_task(submit_one(ledger, a_submission(replicas=LARGE)))
    await _wait_for_a_chunk(world)
    [row] = await world.clock.fetch("select job_id, submitted_at from holdfast.jobs")
    if row["submitted_at"] is None:
        assert await world.story(row["job_id"], -1) == []
        assert await world.claim(10) == []
    job_id = (await arriving).job_id
    assert await world.story(job_id, -1) == ["submitted"]
    await follow_up_all(ledger)
    assert await world.count("ready") == LARGE
    [first] = await world.claim(1)
    last = await world.claim_by_id(TaskId(job_id, LARGE - 1))
    assert (first.task_id.task_index, last.task_id.task_index) == (0, LARGE - 1)


async def test_a_large_job_with_a_start_time_waits_whole(ledger: Ledger, world: World) -> None:
    [row] = await world.clock.fetch("select extract(epoch from holdfast.now())::float8 + 60")
    await submit_one(ledger, a_submission(replicas=10_001, not_before=row[0]))
    await follow_up_all(ledger)
    assert (await world.count("ready"), await world.count("waiting")) == (0, 10_001)


async def test_a_repeat_starts_an_abandoned_large_job_over(ledger: Ledger, world: World) -> None:
    submission = a_submission(replicas=LARGE, idempotency_key="k")
    await _abandon(ledger, world, submission)
    [hidden] = await world.clock.fetch("select job_id from holdfast.jobs")
    again = await submit_one(ledger, submission)
    assert again.is_new
    assert again.job_id != hidden[0]
    assert [await world.count("jobs"), await world.count("tasks")] == [1, LARGE]
    repeated = await submit_one(ledger, submission)
    assert repeated == Submitted(again.job_id, is_new=False)


async def test_an_abandoned_large_job_keeps_its_key_from_another_spec(
    ledger: Ledger, world: World
) -> None:
    await _abandon(ledger, world, a_submission(replicas=LARGE, idempotency_key="k"))
    with pytest.raises(KeyReused):
        await submit_one(ledger, a_submission(replicas=LARGE + 1, idempotency_key="k"))


async def test_a_large_child_does_not_outlive_a_parent_that_ended_while_it_arrived(
    ledger: Ledger, world: World
) -> None:
    parent = await world.submit()
    child = a_submission(replicas=LARGE, parent_job_id=parent)
    arriving = asyncio.create_task(submit(ledger, [child]))
    await _wait_for_a_chunk(world)
    await world.cancel_job(parent)
    [answer] = await arriving
    await follow_up_all(ledger)
    if isinstance(answer, Submitted):
        assert await world.job_state(answer.job_id) == TaskState.KILLED
    else:
        assert isinstance(answer, IllegalMove)


BAD_VALUES: list[tuple[str, dict[str, Any]]] = [
    ("name", {"name": "a\x00b"}),
    ("labels.k", {"labels": {"k": "\x00"}}),
    ("environment.k", {"environment": {"k": "\ud800"}}),
    ("entrypoint", {"entrypoint": {"shell": "echo \x00"}}),
    ("entrypoint", {"entrypoint": {"shell": "echo \ud800"}}),
    ("entrypoint", {"entrypoint": {"function": "a:b", "kwargs": {"x": "\ud800"}}}),
    ("queue", {"queue": ""}),
    ("queue", {"queue": "a b"}),
    ("priority", {"priority": 10**9}),
    ("timeout", {"timeout": float("nan")}),
    ("inputs[1]", {"inputs": ["fine", "a\x00b"]}),
    ("inputs", {"inputs": []}),
    ("replicas", {"inputs": [1], "replicas": 2}),
    ("replicas", {"replicas": 10**8}),
]


async def test_bad_values_name_their_field_and_store_nothing(world: World) -> None:
    before = await world.dump()
    for field, fields in BAD_VALUES:
        with pytest.raises(Invalid) as refused:
            await world.submit(**fields)
        assert refused.value.field == field
    assert await world.dump() == before


async def test_an_input_that_is_no_sound_json_is_refused(ledger: Ledger, world: World) -> None:
    for text in ("[" * 50_000 + "]" * 50_000, "[1", "", "\ud800", '"\\ud800"'):
        with pytest.raises(Invalid) as refused:
            await submit_one(ledger, Submission(a_submission().spec, (text,)))
        assert refused.value.field == "inputs[0]"
    assert await world.count("jobs") == 0


async def _wait_for_a_chunk(world: World) -> None:
    """Let the submission that arrives in the background get some of its tasks in."""
    while not await world.clock.fetch(
        "select from holdfast.tasks join holdfast.jobs using (job_id) "
        "where num_tasks > 10000 limit 1"
    ):
        pass


async def _abandon(ledger: Ledger, world: World, submission: Submission) -> None:
    """Let a submission die on its way: some of its chunks are in, the last is not."""
    arriving = asyncio.create_task(submit_one(ledger, submission))
    await _wait_for_a_chunk(world)
    arriving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await arriving
    [row] = await world.clock.fetch("select submitted_at from holdfast.jobs")
    assert row["submitted_at"] is None
