"""Sagas: what was done is undone, once each, in reverse order, whatever ends unsuccessfully."""

from typing import Any

import msgspec
import pytest

from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.replay import replay
from holdfast.rules.submitting.submission import parse_spec
from tests.audits import assert_audit_is_silent
from tests.world import World


class Saga:
    """A graph of jobs by name, and the compensations that have come of it."""

    def __init__(self, world: World, job_ids: dict[str, int]) -> None:
        self.world = world
        self.job_ids = job_ids
        self.names = {job_id: name for name, job_id in job_ids.items()}
        self.undone: list[str] = []

    async def settle(self) -> None:
        """Let everything happen that needs no worker."""
        await self.world.pass_time(1.0)

    async def run(self, name: str) -> Claim:
        """Start a step."""
        await self.settle()
        claim = await self.world.claim_by_id(TaskId(self.job_ids[name], 0))
        await self.world.start(claim)
        return claim

    async def succeed(self, *names: str) -> None:
        """Run steps to their ends, one after another."""
        for name in names:
            await self.world.succeed(await self.run(name), f'"{name} done"')

    async def fail(self, name: str) -> None:
        """Let a step fail for good."""
        await self.world.fail(await self.run(name), "PermanentError")

    async def open_undos(self) -> list[str]:
        """Say which compensations wait for a worker."""
        await self.settle()
        rows = await self.world.clock.fetch(
            "select compensates_job_id from holdfast.jobs "
            "where compensates_job_id is not null and state = 1 order by job_id"
        )
        return [self.names[row[0]] for row in rows]

    async def undo(self, *, fails: bool = False) -> str:
        """Run the one compensation that waits; says whose it is."""
        [name] = await self.open_undos()
        [claim] = await self.world.claim()
        record = msgspec.json.decode(claim.input or "")
        assert record["job_id"] == str(self.job_ids[name])
        await self.world.start(claim)
        if fails:
            await self.world.fail(claim, "PermanentError")
        else:
            await self.world.succeed(claim)
        self.undone.append(name)
        return name

    async def undo_all(self) -> list[str]:
        """Run compensations until none is left; says in which order they came."""
        while await self.open_undos():
            await self.undo()
        return self.undone

    async def check(self, *compensated: str) -> None:
        """See that these jobs, and no others, are told to be compensated, and once."""
        for name, job_id in self.job_ids.items():
            story = await self.world.story(job_id, -1)
            assert story.count("compensated") == (name in compensated), (name, story)
        rows = await self.world.clock.fetch(
            "select compensates_job_id from holdfast.jobs "
            "where compensates_job_id is not null and replay_of is null"
        )
        assert sorted(self.names[row[0]] for row in rows) == sorted(self.undone)
        assert not await self.world.count("outbox")
        await assert_audit_is_silent(self.world.ledger.database)


async def a_saga(world: World, **steps: list[Any]) -> Saga:
    """Submit a graph: of each step, what it depends on."""
    submissions = [
        Submission(
            parse_spec(
                {
                    "entrypoint": {"function": "app:work", "args": [name]},
                    "compensation": {"function": "app:undo"},
                    "queue": "q",
                    "depends_on": depends_on,
                }
            ),
            local_name=name,
        )
        for name, depends_on in steps.items()
    ]
    answers = await submit_batch(world.ledger, submissions)
    return Saga(world, {name: a.job_id for name, a in zip(steps, answers, strict=True)})


async def five_steps(world: World) -> Saga:
    """Submit a chain of five."""
    return await a_saga(world, a=[], b=["a"], c=["b"], d=["c"], e=["d"])


@pytest.mark.parametrize("fails", list("abcde"))
async def test_a_saga_that_fails_at_any_step_is_undone_from_there_back(
    world: World, fails: str
) -> None:
    saga = await five_steps(world)
    before = "abcde"[: "abcde".index(fails)]
    await saga.succeed(*before)
    await saga.fail(fails)
    undone = [fails, *reversed(before)]
    assert await saga.undo_all() == undone
    await saga.check(*undone)


async def test_a_clock_that_is_set_back_meanwhile_changes_no_order(world: World) -> None:
    saga = await a_saga(world, a=[], b=["a"], c=["b"])
    await world.clock.advance(300)
    await saga.succeed("a")
    await saga.settle()
    await world.clock.advance(-300)
    await saga.succeed("b")  # by the clock it has ended before what it waited for
    await world.clock.advance(300)
    await saga.fail("c")
    assert await saga.undo_all() == ["c", "b", "a"]
    await saga.check("a", "b", "c")


async def test_a_branch_that_succeeds_in_vain_is_undone_too(world: World) -> None:
    saga = await a_saga(world, root=[], left=["root"], right=["root"], join=["left", "right"])
    await saga.succeed("root")
    late = await saga.run("right")
    await saga.fail("left")
    assert await saga.undo() == "left"
    assert not await saga.open_undos()  # the right branch still uses the root
    assert await world.job_state(saga.job_ids["join"]) == TaskState.KILLED
    await world.succeed(late)
    assert await saga.undo_all() == ["left", "right", "root"]
    await saga.check("left", "right", "root")


async def test_what_a_killed_job_would_have_used_is_undone_together(world: World) -> None:
    saga = await a_saga(world, one=[], two=[], bad=["one"], join=["bad", "two"])
    await saga.succeed("one")
    late = await saga.run("two")
    await saga.fail("bad")
    assert await saga.undo() == "bad"
    # The join was killed, and wants both undone, the later one first.
    assert not await saga.open_undos()
    await world.succeed(late)
    assert await saga.undo_all() == ["bad", "two", "one"]
    await saga.check("bad", "two", "one")


async def test_two_failures_at_once_undo_what_they_share_once_and_last(world: World) -> None:
    saga = await a_saga(world, root=[], left=["root"], right=["root"])
    await saga.succeed("root")
    left, right = await saga.run("left"), await saga.run("right")
    await world.fail(left, "PermanentError")
    await world.fail(right, "PermanentError")
    assert await saga.undo_all() == ["right", "left", "root"]
    await saga.check("right", "left", "root")


async def test_a_live_job_holds_back_the_undoing_of_what_it_uses(world: World) -> None:
    saga = await a_saga(world, root=[], mid=["root"], user=["mid"], bad=["root"])
    await saga.succeed("root", "mid")
    user = await saga.run("user")
    await saga.fail("bad")
    assert await saga.undo() == "bad"
    assert not await saga.open_undos()
    await world.succeed(user)
    assert await saga.undo_all() == ["bad", "root"]  # nobody failed who used the others
    await saga.check("bad", "root")


async def test_a_compensation_that_fails_is_a_dead_letter_and_counts_once_replayed(
    world: World,
) -> None:
    saga = await five_steps(world)
    await saga.succeed("a", "b")
    await saga.fail("c")
    assert await saga.undo(fails=True) == "c"
    assert await saga.undo_all() == ["c", "b", "a"]
    await saga.check("a", "b")
    [letter] = await world.clock.fetch(
        "select * from holdfast.dead_letters where job_id > $1", saga.job_ids["e"]
    )
    assert letter["reason_code"] == "compensation_failed"
    [again] = await replay(
        world.ledger, [TaskId(letter["job_id"], letter["task_index"])], actor="operator"
    )
    assert again.job_id is not None
    assert (await world.job(again.job_id))["compensates_job_id"] == saga.job_ids["c"]
    [claim] = await world.claim()
    await world.succeed(claim)
    await saga.settle()
    await saga.check("a", "b", "c")


async def test_a_job_that_waits_for_a_failure_sees_what_it_left_behind(world: World) -> None:
    saga = await a_saga(
        world, root=[], bad=["root"], report=[{"job": "bad", "condition": "failed"}]
    )
    await saga.succeed("root")
    await saga.fail("bad")
    report = await saga.run("report")
    assert await saga.undo() == "bad"
    assert not await saga.open_undos()
    await world.succeed(report)
    assert await saga.undo_all() == ["bad", "root"]
    await saga.check("bad", "root")


async def alone(world: World, **fields: Any) -> Saga:
    """Submit one job with a compensation."""
    job_id = await world.submit(compensation={"function": "app:undo"}, **fields)
    return Saga(world, {"job": job_id})


@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_a_cancelled_job_is_undone_once_its_process_is_gone(world: World, mode: str) -> None:
    saga = await alone(world)
    running = await saga.run("job")
    await world.cancel_job(saga.job_ids["job"], mode)
    assert not await saga.open_undos()
    await world.complete(running, "killed")
    assert await saga.undo_all() == ["job"]
    await saga.check("job")


async def test_a_lost_worker_may_have_done_something(world: World) -> None:
    saga = await alone(world, max_retries_preemption=0)
    await world.claim()
    await world.pass_time(20)
    assert not await saga.open_undos()
    await world.pass_time(15)
    assert await saga.undo_all() == ["job"]
    await saga.check("job")


async def test_what_never_ran_is_not_undone(world: World) -> None:
    saga = await alone(world)
    [claim] = await world.claim()
    await world.complete(claim, "handed_back")
    await world.cancel_job(saga.job_ids["job"])
    assert await saga.undo_all() == []
    await saga.check()


async def test_what_succeeds_is_not_undone(world: World) -> None:
    saga = await alone(world)
    await saga.succeed("job")
    assert await saga.undo_all() == []
    await saga.check()


async def test_a_compensation_is_retried_and_outlives_losses_of_its_own(world: World) -> None:
    saga = await alone(world, max_retries_failure=0)
    await saga.fail("job")
    assert await saga.open_undos() == ["job"]
    for _ in range(3):
        [claim] = await world.claim()
        await world.fail(claim)
        await world.pass_time(10)
    [claim] = await world.claim()
    await world.succeed(claim)
    saga.undone.append("job")
    await saga.settle()
    await saga.check("job")
