"""Shared queues: within a priority, owners get what their weights say, and nobody is left out."""

import random
from collections import Counter
from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.shares import ShareRule
from holdfast.model.work.ids import TaskId
from holdfast.operations.queues import pause_queue
from holdfast.operations.sharing.lines import SORTED_MAX, age, sort_shares
from holdfast.operations.sharing.rules import set_share_rule, unset_share_rule
from holdfast.operations.upkeep.audit import audit
from tests.audits import assert_audit_is_silent
from tests.world import World


async def share(world: World, rule: ShareRule | None = None, queue: str = "q") -> None:
    """Share the queue, and let the rule settle."""
    await set_share_rule(world.ledger, queue, rule or ShareRule(), actor="eve")
    while await sort_shares(world.ledger):
        pass


async def claimed_owners(world: World, count: int, **where: Any) -> list[str]:
    """Claim tasks, and say whose they are, in their order."""
    return [claim.job.spec.owner or "" for claim in await world.claim(count, **where)]


async def assert_sound(world: World) -> None:
    """Look for broken invariants."""
    await assert_audit_is_silent(world.ledger.database)


async def test_one_task_does_not_wait_for_five_thousand(world: World) -> None:
    await share(world)
    await world.submit([*range(5000)], owner="much")
    await world.submit(owner="little")
    assert await world.count("ready") == 0
    assert Counter(await claimed_owners(world, 2)) == {"much": 1, "little": 1}
    await world.submit(owner="little")
    assert "little" in [*await claimed_owners(world, 1), *await claimed_owners(world, 1)]
    assert await claimed_owners(world, 3) == ["much"] * 3
    await assert_sound(world)


@pytest.mark.parametrize("batch", [1, 7, 40])
async def test_weights_decide_how_much_each_gets(world: World, batch: int) -> None:
    await share(world, ShareRule("owner", {"ann": 3.0, "cat": 0.5}))
    for owner in ("ann", "bob", "cat"):
        await world.submit([*range(100)], owner=owner)
    owners: Counter[str] = Counter()
    while owners.total() + batch <= 90:
        owners.update(await claimed_owners(world, batch))
    wanted = {"ann": 3.0, "bob": 1.0, "cat": 0.5}
    for owner, weight in wanted.items():
        assert abs(owners[owner] - owners.total() * weight / 4.5) <= 1.5, owners


async def test_nobody_saves_up_turns_while_he_has_nothing_in_line(world: World) -> None:
    await share(world)
    await world.submit(owner="late")
    assert await claimed_owners(world, 1) == ["late"]
    await world.submit([*range(100)], owner="busy")
    await claimed_owners(world, 50)
    await world.submit([*range(40)], owner="late")
    owners = Counter(await claimed_owners(world, 20))
    assert abs(owners["late"] - owners["busy"]) <= 1


async def test_whoever_submits_one_by_one_gets_no_more_than_his_weight(world: World) -> None:
    await share(world, ShareRule("owner", {"heavy": 3.0}))
    await world.submit([*range(100)], owner="heavy")
    owners: Counter[str] = Counter()
    await world.submit(owner="drip")
    for _ in range(40):
        [owner] = await claimed_owners(world, 1)
        owners[owner] += 1
        if owner == "drip":
            await world.submit(owner="drip")
    assert abs(owners["drip"] - 10) <= 1


async def test_priority_goes_before_any_share(world: World) -> None:
    await share(world)
    await world.submit([*range(3)], owner="ann")
    await world.submit([*range(6)], owner="bob", priority=5)
    assert await claimed_owners(world, 6) == ["bob"] * 6
    await world.submit([*range(2)], owner="bob", priority=5)  # who has had more turns than ann
    assert await claimed_owners(world, 2) == ["bob"] * 2
    assert await claimed_owners(world, 9) == ["ann"] * 3
    assert await claimed_owners(world, 9) == []


async def test_keys_share_too_and_tasks_without_one_are_one_share(world: World) -> None:
    await share(world, ShareRule("key"))
    await world.submit([*range(30)])
    await world.submit([1], owner="b")
    [claim] = await world.claim()
    assert claim.task_id.task_index == 0
    assert await world.count("shares") == 1


async def test_jains_index_under_zipf_owners_is_almost_one(world: World) -> None:
    """Ten owners with Zipf's numbers of tasks, while each of them has some in line."""
    await share(world)
    for rank in range(10):
        await world.submit([*range(600 // (rank + 1))], owner=f"o{rank}")
    owners: Counter[str] = Counter()
    for _ in range(50):
        owners.update(await claimed_owners(world, 10))
    got = [owners[f"o{rank}"] for rank in range(10)]
    assert sum(got) ** 2 / (len(got) * sum(each * each for each in got)) >= 0.99, got


async def test_what_stood_in_line_before_is_sorted_and_returns_when_the_rule_goes(
    world: World, ledger: Ledger
) -> None:
    await world.submit([*range(SORTED_MAX + 100)], owner="much")
    await world.submit(owner="little")
    await set_share_rule(ledger, "q", ShareRule(), actor="eve")
    assert await sort_shares(ledger) == SORTED_MAX
    await sort_shares(ledger)
    assert (await world.count("ready"), await sort_shares(ledger)) == (0, 0)
    await assert_sound(world)
    assert Counter(await claimed_owners(world, 2)) == {"much": 1, "little": 1}
    await unset_share_rule(ledger, "q", actor="eve")
    await world.submit(owner="late")
    while await sort_shares(ledger):
        pass
    assert (await world.count("gated"), await world.count("ready")) == (0, SORTED_MAX + 100)
    assert await claimed_owners(world, 2) == ["much"] * 2
    assert await world.count("share_rules") == 1
    await world.clock.advance(61)
    await sort_shares(ledger)
    assert await world.count("share_rules") == await world.count("shares") == 0
    await assert_sound(world)


async def test_a_retry_returns_to_its_share(world: World) -> None:
    await share(world)
    await world.submit(owner="ann", max_retries_failure=1, backoff={"base": 1.0})
    [mine] = await world.claim()
    await world.start(mine)
    await world.fail(mine)
    await world.pass_time(10)
    assert (await world.count("gated"), await world.count("ready")) == (1, 0)
    [again] = await world.claim()
    assert (again.task_id, again.attempt) == (mine.task_id, 1)
    await assert_sound(world)


async def test_cancelled_tasks_leave_their_share(world: World) -> None:
    await share(world)
    job_id = await world.submit([*range(50)], owner="ann")
    await world.submit(owner="bob")
    await world.cancel_job(job_id)
    assert await world.count("gated") == 1
    assert await claimed_owners(world, 5) == ["bob"]
    await assert_sound(world)


async def test_the_audit_sees_a_share_that_sleeps_on_its_tasks(world: World) -> None:
    await share(world)
    job_id = await world.submit(owner="ann")
    await world.clock.fetch("update holdfast.shares set idle_at = holdfast.now()")
    [found] = [finding async for finding in audit(world.ledger.database)]
    assert found.invariant == "gated_in_an_idle_share"
    assert str(job_id) in str(found)


async def test_a_paused_queue_lets_nothing_in(world: World) -> None:
    await share(world)
    await world.submit(owner="ann")
    await pause_queue(world.ledger, "q", actor="eve")
    assert await world.claim() == []
    assert await world.count("gated") == 1


async def test_other_queues_stand_in_line_as_ever(world: World) -> None:
    await share(world)
    await world.submit([1, 2], queue="other")
    assert (await world.count("ready"), await world.count("gated")) == (2, 0)


async def test_tasks_gain_priority_up_to_their_bound(world: World) -> None:
    await share(world, ShareRule("nothing", age_step_seconds=10.0, age_max=2))
    await world.submit(owner="old")
    await world.clock.advance(11)
    assert [await age(world.ledger), await age(world.ledger)] == [1, 0]
    await world.submit(owner="one", priority=1)
    await world.submit(owner="two", priority=2)
    await world.submit(owner="three", priority=3)
    assert await claimed_owners(world, 2) == ["three", "two"]
    await world.clock.advance(500)
    while await age(world.ledger):
        pass
    await world.submit(owner="four", priority=4)
    await world.submit(owner="new", priority=2)
    assert [*await claimed_owners(world, 1), *await claimed_owners(world, 1)] == ["four", "one"]
    assert await claimed_owners(world, 1) == ["old"]
    await assert_sound(world)


async def test_what_has_aged_returns_to_the_line_by_its_own_priority(world: World) -> None:
    await share(world, ShareRule("nothing", age_step_seconds=10.0, age_max=9))
    aged = await world.submit([1, 2, 3], owner="old")
    await world.clock.advance(35)
    while await age(world.ledger):
        pass
    urgent = await world.submit(owner="new", priority=1)
    await unset_share_rule(world.ledger, "q", actor="eve")
    while await sort_shares(world.ledger):
        pass
    await assert_sound(world)
    assert (await world.claim())[0].task_id.job_id == urgent
    assert (await world.claim_by_id(TaskId(aged, 1))).task_id.task_index == 1
    await world.cancel_job(aged)
    assert await world.count("ready") == 0
    await assert_sound(world)


@pytest.mark.parametrize("seed", [18, 19, 20])
async def test_any_sequence_is_what_the_plain_model_says(world: World, seed: int) -> None:
    """Stride scheduling as in a book, one task after the other, beside the database."""
    dice = random.Random(seed)
    weights = {"a": 2.0, "b": 1.0, "c": 0.25}
    await share(world, ShareRule("owner", weights))
    model = Strides(weights | {"d": 1.0})
    for _ in range(60):
        if dice.random() < 0.5:
            owner, count = dice.choice("abcd"), dice.randrange(1, 12)
            urgency = -dice.randrange(2)
            await world.submit([*range(count)], owner=owner, priority=-urgency)
            model.add(urgency, owner, count)
        else:
            wanted = dice.randrange(1, 9)
            expected = model.take(wanted)
            assert Counter(await claimed_owners(world, wanted)) == Counter(expected)
    await assert_sound(world)


class Strides:
    """A plain model: the lowest pass of the first priority goes next."""

    def __init__(self, weights: dict[str, float]) -> None:
        self._weights = weights
        self._waiting: dict[tuple[int, str], int] = {}
        self._passes: dict[tuple[int, str], float] = {}
        self._order: dict[tuple[int, str], int] = {}

    def add(self, urgency: int, owner: str, count: int) -> None:
        """Put tasks in line."""
        line = (urgency, owner)
        if line not in self._waiting:
            known = [(key, value) for key, value in self._passes.items() if key[0] == urgency]
            waiting = [value for key, value in known if key in self._waiting]
            start = min(waiting, default=max([value for _, value in known], default=0.0))
            self._passes[line] = max(self._passes.get(line, 0.0), start)
        self._order.setdefault(line, len(self._order))
        self._waiting[line] = self._waiting.get(line, 0) + count

    def take(self, count: int) -> list[str]:
        """Take the next tasks; a line that ran out is idle as soon as it is looked at again."""
        taken: list[str] = []
        for _ in range(count):
            lines = [line for line, left in self._waiting.items() if left]
            if not lines:
                break
            best = min(lines, key=lambda line: (line[0], self._passes[line], self._order[line]))
            self._waiting[best] -= 1
            self._passes[best] += 1 / self._weights[best[1]]
            taken.append(best[1])
        for line in [line for line, left in self._waiting.items() if not left]:
            del self._waiting[line]
        return taken
