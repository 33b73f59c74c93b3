"""Policies: every change is kept and numbered, and holds for whatever is submitted after it."""

import asyncio

import pytest

from holdfast.errors import Invalid, Refused
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.policies import PolicyDefaults, PolicyLimits, TypePolicy
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.operations.policies import (
    find_policy,
    list_changes,
    list_types,
    set_policy,
    unset_policy,
)
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.replay import replay
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.upkeep.audit import audit
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.operations.damage import Damage
from tests.world import World

THREE = TypePolicy(PolicyDefaults(max_retries_failure=3))
FIVE = TypePolicy(PolicyDefaults(max_retries_failure=5))
DAMAGES = [
    Damage("policy_is_its_last_change", "", "update holdfast.policies set policy = '{}'"),
    Damage("policy_is_its_last_change", "", "delete from holdfast.policies"),
    Damage("policy_changes_have_no_gap", "", "update holdfast.policy_clock set version = 7"),
]


def a_job(**fields: object) -> Submission:
    return Submission(parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"} | fields))


async def retries(world: World, job_id: int) -> int:
    """Read what is stored."""
    query = "select (spec ->> 'max_retries_failure')::int from holdfast.jobs where job_id = $1"
    [row] = await world.clock.fetch(query, job_id)
    return int(row[0])


async def test_every_change_is_kept_with_who_made_it(ledger: Ledger, world: World) -> None:
    first = await set_policy(ledger, "work", THREE, actor="ann")
    assert await set_policy(ledger, "work", THREE, actor="bob") == first
    second = await set_policy(ledger, "work", FIVE, actor="bob")
    assert (first.version, second.version, second.updated_by) == (1, 2, "bob")
    assert await find_policy(ledger, "work") == second
    assert await unset_policy(ledger, "work", actor="eve")
    assert not await unset_policy(ledger, "work", actor="eve")
    assert await find_policy(ledger, "work") is None
    changes = await list_changes(ledger, "work")
    assert [(c.version, c.before, c.after, c.actor) for c in changes] == [
        (3, FIVE, None, "eve"),
        (2, THREE, FIVE, "bob"),
        (1, None, THREE, "ann"),
    ]
    assert await list_changes(ledger, "work", below=2, count_max=1) == changes[2:]
    await assert_audit_is_silent(ledger.database)


async def test_a_change_holds_for_the_next_job_whichever_server_takes_it(
    ledger: Ledger, database_url: str, world: World
) -> None:
    async with Database(database_url) as database:
        other = Ledger(database)
        ids = [(await submit_one(other, a_job())).job_id]
        for policy in (THREE, FIVE):
            await set_policy(ledger, "work", policy, actor="ann")
            ids.append((await submit_one(other, a_job())).job_id)
        ids.append((await submit_one(other, a_job(max_retries_failure=1))).job_id)
        [batched] = await submit_batch(other, [a_job()])
        await set_policy(ledger, "work", THREE, actor="ann")
        [again] = await submit_batch(other, [a_job()])
        await unset_policy(ledger, "work", actor="ann")
        large = await submit_one(other, a_job(replicas=10_001))
        ids += [batched.job_id, again.job_id, large.job_id]
    assert [await retries(world, job_id) for job_id in ids] == [0, 3, 5, 1, 5, 3, 0]


async def test_a_raised_limit_holds_at_once_where_the_old_one_was_known(
    ledger: Ledger, database_url: str, world: World
) -> None:
    tight, wide = (TypePolicy(limits=PolicyLimits(max_retries_failure=n)) for n in (1, 9))
    async with Database(database_url) as database:
        other = Ledger(database)
        await set_policy(ledger, "work", tight, actor="ann")
        for submit in (lambda job: submit_one(other, job), lambda job: submit_batch(other, [job])):
            with pytest.raises(Invalid, match="at most 1"):
                await submit(a_job(max_retries_failure=2))
        before = await world.dump()
        assert before["jobs"] == []
        # Nothing was taken in that would have told the other server of the change.
        await set_policy(ledger, "work", wide, actor="ann")
        await submit_one(other, a_job(max_retries_failure=2))
        await submit_batch(other, [a_job(max_retries_failure=9)])


async def test_a_stored_job_keeps_what_it_was_given(ledger: Ledger, world: World) -> None:
    await set_policy(ledger, "work", FIVE, actor="ann")
    job_id = await world.submit()
    await set_policy(
        ledger, "work", TypePolicy(limits=PolicyLimits(max_retries_failure=0)), actor="ann"
    )
    assert await retries(world, job_id) == 5
    [mine] = await world.claim()
    await world.fail(mine, "PermanentError")
    [made] = await replay(ledger, [TaskId(job_id, 0)], actor="ann")
    assert made.job_id is not None
    assert await retries(world, made.job_id) == 5


async def test_who_decides_by_what_is_no_longer_so_is_refused(ledger: Ledger, world: World) -> None:
    await set_policy(ledger, "work", THREE, actor="ann", if_version=0)
    before = await world.clock.fetch("select * from holdfast.policies")
    with pytest.raises(Refused, match="is at version 1, not 0; read it"):
        await set_policy(ledger, "work", FIVE, actor="bob", if_version=0)
    assert await world.clock.fetch("select * from holdfast.policies") == before
    # The same once more, because the answer got lost.
    assert (await set_policy(ledger, "work", THREE, actor="ann", if_version=0)).version == 1


async def test_changes_at_once_are_numbered_without_a_gap(
    ledger: Ledger, database_url: str
) -> None:
    async with Database(database_url) as database:
        policies = [TypePolicy(PolicyDefaults(max_retries_failure=n)) for n in range(8)]
        ledgers = [ledger, Ledger(database)] * 4
        await asyncio.gather(
            *(
                set_policy(mine, f"type {n % 3}", policy, actor="ann")
                for n, (mine, policy) in enumerate(zip(ledgers, policies, strict=True))
            )
        )
    versions = [c.version for n in range(3) for c in await list_changes(ledger, f"type {n}")]
    assert sorted(versions) == list(range(1, 9))
    await assert_audit_is_silent(ledger.database)


async def test_types_are_listed_with_and_without_policies(ledger: Ledger, world: World) -> None:
    for name in ("b", "ä", "B"):
        await world.submit(type=name)
        await world.submit(type=name)
    await set_policy(ledger, "c", THREE, actor="ann")
    await set_policy(ledger, "b", FIVE, actor="ann")
    found = await list_types(ledger)
    assert [(name, stored and stored.policy) for name, stored in found] == [
        ("B", None),
        ("b", FIVE),
        ("c", THREE),
        ("ä", None),
    ]
    assert await list_types(ledger, after="b", count_max=1) == found[2:3]
    with pytest.raises(Invalid, match="count_max"):
        await list_types(ledger, count_max=0)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.sql)
async def test_the_audit_finds_what_was_changed_without_a_change(
    ledger: Ledger, world: World, damage: Damage
) -> None:
    await set_policy(ledger, "work", THREE, actor="ann")
    await world.clock.fetch(damage.sql)
    found = [finding async for finding in audit(ledger.database)]
    assert [finding.invariant for finding in found] == [damage.invariant]
