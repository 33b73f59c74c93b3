"""Taking in jobs: whole or not at all, once per key, a bad one refused alone."""

import asyncio
from typing import Any

import pytest

from holdfast.errors import Invalid, KeyReused, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit, submit_one
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from holdfast.store.database import Database
from tests.world import World


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
    policy = claim.job.terms
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
