"""Shares as people see them."""

from holdfast.api.explain import pending_reason
from holdfast.model.limits.shares import PLACED, ShareRule
from holdfast.model.work.ids import TaskId
from holdfast.operations.sharing.rules import set_share_rule
from holdfast.store.reads.limits.queues import QueueCondition, count_ahead, list_lines
from holdfast.store.reads.limits.shares import count_in_shares, find_turn, list_shared_queues
from holdfast.store.reads.work.tasks import get_task
from holdfast.store.tables.placed.shares import find_placed_rule, list_shares_of_jobs
from tests.world import World


async def test_what_runs_is_counted_by_owner(world: World) -> None:
    await set_share_rule(world.ledger, "q", ShareRule("owner", {"cat": 2.0}), actor="eve")
    await set_share_rule(world.ledger, PLACED, ShareRule("owner"), actor="eve")
    for owner in ("ann", "ann", "bob"):
        await world.submit(owner=owner)
    await world.submit(owner="eve", queue="other")
    assert len(await world.claim(3)) == 3
    async with world.ledger.database.transaction() as tx:
        placed, shared = await list_shared_queues(tx)
        assert await list_shared_queues(tx, "q") == [shared]
        assert await list_shared_queues(tx, "other") == []
    assert placed.shares == []
    found = {share.value: (share.weight, share.running) for share in shared.shares}
    assert found == {"ann": (1, 2), "bob": (1, 1), "cat": (2, 0)}


async def test_what_runs_counts_for_the_share_in_whose_line_it_stood(world: World) -> None:
    long = "k" * 300
    await set_share_rule(world.ledger, "q", ShareRule("key"), actor="eve")
    await set_share_rule(world.ledger, "owned", ShareRule("owner"), actor="eve")
    inputs = [{"id": "a"}, {"id": "a"}, {"id": long}]
    await world.submit(inputs, concurrency_key={"input": "id"})
    await world.submit(concurrency_key="b")
    await world.submit()
    await world.submit([1, 2], queue="owned", owner="ann")
    async with world.ledger.database.transaction() as tx:
        before = {each.rule.queue: each for each in await list_shared_queues(tx)}
    assert len(await world.claim(5)) == 5
    assert len(await world.claim(2, queue="owned")) == 2
    async with world.ledger.database.transaction() as tx:
        after = {each.rule.queue: each for each in await list_shared_queues(tx)}
    for queue, found in after.items():
        running = {share.value: share.running for share in found.shares}
        assert running == {share.value: share.waiting for share in before[queue].shares}
    assert sorted(share.running for share in after["q"].shares) == [1, 1, 1, 2]


async def test_placed_work_waits_in_the_share_that_it_is_placed_for(world: World) -> None:
    await set_share_rule(world.ledger, PLACED, ShareRule("key"), actor="eve")
    call = {"function": "app:work", "args": [{"id": "a", "long": "k" * 300}]}
    for key in ({"input": "id"}, {"input": "long"}, "b", None):
        await world.submit(queue=None, entrypoint=call, concurrency_key=key)
    async with world.ledger.database.transaction() as tx:
        [placed] = await list_shared_queues(tx)
    values = sorted(share.value for share in placed.shares)
    assert values[:3] == ["", "a", "b"]
    assert values[3].startswith("sha256:")


async def test_placed_tasks_with_keys_of_their_own_are_one_share(world: World) -> None:
    """What all of them are called with besides is nobody's key."""
    await set_share_rule(world.ledger, PLACED, ShareRule("key"), actor="eve")
    call = {"function": "app:work", "args": ["acme"]}
    job_id = await world.submit(
        ["a", "b"], queue=None, entrypoint=call, concurrency_key={"input": ""}
    )
    async with world.ledger.database.transaction() as tx:
        [placed] = await list_shared_queues(tx)
        rule = await find_placed_rule(tx)
        assert rule is not None
        [share] = await list_shares_of_jobs(tx, rule.rule_id, [job_id])
    assert [(each.value, each.waiting) for each in placed.shares] == [("", 2)]
    assert share.value == ""


async def test_a_task_in_a_share_says_how_many_come_before_it(world: World) -> None:
    await set_share_rule(world.ledger, "q", ShareRule("owner", {"cat": 2.0}), actor="eve")
    first = await world.submit([*range(50)], owner="ann")
    await world.submit([*range(50)], owner="bob")
    await world.submit([*range(50)], owner="cat")
    late = await world.submit(owner="dan")
    await world.submit([*range(3)], owner="eve", priority=1)
    counts = [(first, 0, 3), (first, 10, 3 + 10 + 10 + 20 + 1), (late, 0, 3)]
    async with world.ledger.database.transaction() as tx:
        for job_id, index, before in counts:
            turn = await find_turn(tx, TaskId(job_id, index), count_max=1000)
            assert turn is not None
            assert (turn.share_by, turn.before) == ("owner", before)
        cut = await find_turn(tx, TaskId(first, 49), count_max=20)
        assert cut is not None
        assert (cut.value, cut.before) == ("ann", 20)
        assert await find_turn(tx, TaskId(first, 999), count_max=20) is None
        [line] = await count_in_shares(tx, count_max=100)
        assert (line.queue, line.count) == ("q", 100)


async def test_queues_and_explanations_know_what_stands_in_shares(world: World) -> None:
    await set_share_rule(world.ledger, "q", ShareRule(), actor="eve")
    job_id = await world.submit([*range(7)], owner="ann")
    async with world.ledger.database.transaction() as tx:
        view = await list_lines(tx)
        job, task = await get_task(tx, TaskId(job_id, 4))
        ahead = await count_ahead(tx, job, task)
    assert (view.at("q").depth, view.at("q").oldest_at is not None) == (7, True)
    condition = QueueCondition(view.now, None, is_served=True)
    reason = pending_reason(job, task, condition, ahead=ahead)
    assert reason is not None
    assert (reason.code, reason.message) == (
        "share", "waiting in queue q for its owner's turn (ann): 4 before it"
    )  # fmt: skip
