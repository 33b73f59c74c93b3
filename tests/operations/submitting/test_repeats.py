"""Repeats are known by what they say; whatever else comes under a key is told apart."""

from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.policies import PolicyDefaults, TypePolicy
from holdfast.model.submitting.spec import Submission
from holdfast.operations.policies import set_policy
from holdfast.operations.submitting import repeats
from holdfast.operations.submitting.admit import admit
from holdfast.operations.submitting.repeats import find_first
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import complete_submission, parse_spec
from holdfast.store.tables.work.jobs import KeyedJob
from tests.world import World

KEYED = {"entrypoint": {"function": "app:work"}, "queue": "q", "idempotency_key": "k"}


def a_submission(*inputs: str, **fields: Any) -> Submission:
    return Submission(parse_spec(KEYED | fields), inputs or None)


async def compare(ledger: Ledger, *submissions: Submission) -> list[KeyedJob | None]:
    """Find out what came before submissions, as if they were about to be stored."""
    jobs = await admit(ledger, [complete_submission(s, ledger.limits) for s in submissions])
    async with ledger.database.transaction() as tx:
        first = await find_first(tx, jobs)
    return [first.get(job.job_id) for job in jobs]


async def test_what_says_the_same_is_a_repeat_however_it_is_written(ledger: Ledger) -> None:
    fields = {"labels": {"a": "1", "bb": "2"}, "timeout": 45}
    first = await submit_one(ledger, a_submission('{"n": 1, "to": "\u00e4"}', "2.50", **fields))
    other = {"labels": {"bb": "2", "a": "1"}, "timeout": 45.0}
    again = a_submission('{"to":"\\u00e4","n":1.0}', "2.5", **other)
    assert await compare(ledger, again) == [KeyedJob(first.job_id, shown=True, is_same=True)]


async def test_whatever_else_comes_under_the_key_is_told_apart(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "COMPARED_MAX", 2)
    first = await submit_one(ledger, a_submission("1", "2", "3"))
    found = await compare(
        ledger,
        a_submission("1", "2", "3"),
        a_submission("1", "2", "4"),
        a_submission("1", "3", "2"),
        a_submission("1", "2"),
        a_submission("1", "2", "3", "3"),
        a_submission(),
        a_submission("1", "2", "3", priority=1),
        a_submission("1", "2", "3", owner="another"),
        a_submission("1", "2", "3"),
    )
    same, different = (
        KeyedJob(first.job_id, shown=True, is_same=is_same) for is_same in (True, False)
    )
    assert found == [same, *[different] * 6, None, same]


async def test_a_repeat_says_what_was_said_before_a_policy_filled_it_in(ledger: Ledger) -> None:
    policy = TypePolicy(PolicyDefaults(max_retries_failure=3))
    await set_policy(ledger, "work", policy, actor="ann")
    first = await submit_one(ledger, a_submission())
    [same, other] = await compare(ledger, a_submission(), a_submission(max_retries_failure=3))
    assert same == KeyedJob(first.job_id, shown=True, is_same=True)
    assert other == KeyedJob(first.job_id, shown=True, is_same=False)


async def test_of_a_hidden_job_the_inputs_that_are_there_are_compared(
    ledger: Ledger, world: World
) -> None:
    first = await submit_one(ledger, a_submission("1", "2"))
    await world.clock.fetch(
        "with past as (select set_config('session_replication_role', 'replica', true)) "
        "update holdfast.jobs set submitted_at = null from past"
    )
    given = [a_submission(*inputs) for inputs in (("1", "2"), ("1", "3"), ("1",))]
    found = await compare(ledger, *given)
    same, other = (
        KeyedJob(first.job_id, shown=False, is_same=is_same) for is_same in (True, False)
    )
    assert found == [same, other, other]
    await world.clock.fetch("delete from holdfast.tasks where task_index = 1")
    assert await compare(ledger, *given) == [same, same, other]


async def test_without_a_key_nothing_is_kept_of_what_was_asked(
    ledger: Ledger, world: World
) -> None:
    await set_policy(ledger, "work", TypePolicy(PolicyDefaults(max_retries_failure=3)), actor="ann")
    plain = await submit_one(ledger, a_submission(idempotency_key=None))
    keyed = await submit_one(ledger, a_submission())
    assert (await world.job(plain.job_id))["asked_hash"] is None
    assert (await world.job(keyed.job_id))["asked_hash"] is not None
