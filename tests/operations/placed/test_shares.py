"""Placed work is shared: owners get their turns, pass after pass."""

from collections import Counter

from holdfast.model.limits.shares import PLACED, ShareRule
from holdfast.operations.sharing.rules import set_share_rule
from holdfast.store.database import Database
from holdfast.store.reads.limits.shares import list_shared_queues
from holdfast.store.tables.placed.shares import find_placed_rule, list_passes
from tests.audits import assert_audit_is_silent
from tests.placed_world import PlacedWorld


async def owners_placed(cluster: PlacedWorld, passes: int) -> Counter[str]:
    """Place again and again, each time with room for one more task."""
    owners: Counter[str] = Counter()
    for number in range(passes):
        await cluster.add(f"w{number}", cpu=1.0)
        for task_id in await cluster.place():
            owners[(await cluster.job(task_id.job_id))["owner"]] += 1
    return owners


async def test_owners_get_their_weights_one_worker_after_the_other(
    cluster: PlacedWorld, database: Database
) -> None:
    await set_share_rule(cluster.ledger, PLACED, ShareRule("owner", {"ann": 3.0}), actor="eve")
    resources = {"cpu": 1.0}
    await cluster.submit([*range(50)], owner="bob", resources=resources)
    await cluster.submit([*range(50)], owner="ann", resources=resources)
    assert await owners_placed(cluster, 12) == {"ann": 9, "bob": 3}
    await assert_audit_is_silent(database)


async def test_who_waits_in_vain_keeps_his_place(cluster: PlacedWorld) -> None:
    await set_share_rule(cluster.ledger, PLACED, ShareRule(), actor="eve")
    await cluster.submit([*range(9)], owner="ann", resources={"cpu": 1.0})
    await owners_placed(cluster, 1)
    await cluster.submit(owner="bob", resources={"cpu": 1.0})
    await cluster.place()
    order = []
    for number in range(2):
        await cluster.add(f"next{number}", cpu=1.0)
        order += [(await cluster.job(task.job_id))["owner"] for task in await cluster.place()]
    assert order == ["ann", "bob"], "the first of two that are even goes first, but once"


async def test_each_priority_of_a_job_whose_tasks_have_aged_is_moved_on(
    cluster: PlacedWorld, database: Database
) -> None:
    rule = ShareRule("owner", age_step_seconds=10.0, age_max=9)
    await set_share_rule(cluster.ledger, PLACED, rule, actor="eve")
    await cluster.add("first", cpu=1.0)
    fields = {"max_retries_failure": 1, "resources": {"cpu": 1.0}}
    job_id = await cluster.submit([1, 2], owner="ann", **fields)
    failed, worker = await cluster.placed(job_id)
    await cluster.pass_time(25)
    assert await cluster.place() == {}
    before = await read_passes(database)
    worker.fail(failed)
    await cluster.beat()
    await cluster.pass_time(1)
    await cluster.add("second", cpu=1.0)
    assert before.keys() == {0, 2}
    assert len(await cluster.place()) == 2, "one that has aged, and one that is tried again"
    after = await read_passes(database)
    assert {priority: at - before[priority] for priority, at in after.items()} == {0: 1, 2: 1}


async def test_what_runs_of_placed_tasks_with_keys_of_their_own_is_one_share(
    cluster: PlacedWorld, database: Database
) -> None:
    await set_share_rule(cluster.ledger, PLACED, ShareRule("key"), actor="eve")
    call = {"function": "app:work", "args": ["acme"]}
    fields = {"entrypoint": call, "concurrency_key": {"input": ""}, "resources": {"cpu": 1.0}}
    await cluster.submit(["a", "b"], **fields)
    await cluster.add("w", cpu=1.0)
    assert len(await cluster.place()) == 1
    async with database.transaction() as tx:
        [placed] = await list_shared_queues(tx)
    assert [(each.value, each.running, each.waiting) for each in placed.shares] == [("", 1, 1)]


async def read_passes(database: Database) -> dict[int, float]:
    """Read how far the shares have come, by priority."""
    async with database.transaction() as tx:
        rule = await find_placed_rule(tx)
        assert rule is not None
        return {turn[0]: at for turn, at, _ in await list_passes(tx, rule.rule_id, shares_max=9)}


async def test_placed_tasks_age(cluster: PlacedWorld) -> None:
    rule = ShareRule("nothing", age_step_seconds=10.0, age_max=2)
    await set_share_rule(cluster.ledger, PLACED, rule, actor="eve")
    old = await cluster.submit(resources={"cpu": 1.0})
    await cluster.clock.advance(25)
    top = await cluster.submit(priority=3, resources={"cpu": 1.0})
    low = await cluster.submit(priority=1, resources={"cpu": 1.0})
    order = []
    for number in range(3):
        await cluster.add(f"w{number}", cpu=1.0)
        order += [task_id.job_id for task_id in await cluster.place()]
    assert order == [top, old, low]
