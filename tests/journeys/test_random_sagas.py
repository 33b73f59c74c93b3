"""Random graphs with random failures: what has to be undone is, once each, and in order."""

import random

import pytest

from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim
from tests.journeys.test_saga import Saga, a_saga
from tests.world import World

LIVE = (TaskState.PENDING, TaskState.RUNNING)


def ancestors(graph: dict[str, list[str]], name: str) -> set[str]:
    """Name what a job depends on, directly or not."""
    found = set(graph[name])
    for other in graph[name]:
        found |= ancestors(graph, other)
    return found


async def play(world: World, chance: random.Random) -> None:
    """Run a graph to its end, its compensations in between, and see what was undone when."""
    names = "abcdef"[: chance.randint(2, 6)]
    graph = {
        name: [other for other in names[:place] if chance.random() < 0.5]
        for place, name in enumerate(names)
    }
    saga = await a_saga(world, **graph)
    running: dict[str, Claim] = {}
    started: set[str] = set()
    for _ in range(100):
        await saga.settle()
        for claim in await world.claim(10):
            name = saga.names.get(claim.task_id.job_id)
            if name is None:
                name = await check_turn(saga, graph, claim)
                await world.succeed(claim)
                saga.undone.append(name)
            else:
                await world.start(claim)
                running[name] = claim
                started.add(name)
        if running and chance.random() < 0.7:
            name = chance.choice(sorted(running))
            claim = running.pop(name)
            if chance.random() < 0.3:
                await world.fail(claim, "PermanentError")
            else:
                await world.succeed(claim)
        if not running and not await world.count("outbox"):
            break
    states = {name: await world.job_state(job_id) for name, job_id in saga.job_ids.items()}
    bad = {name for name, state in states.items() if state != TaskState.SUCCEEDED}
    used = set().union(*(ancestors(graph, name) for name in bad))
    wanted = (bad & started) | (used - bad)
    assert sorted(saga.undone) == sorted(wanted)
    assert not [name for name, state in states.items() if state in LIVE]
    await saga.check(*wanted)


async def check_turn(saga: Saga, graph: dict[str, list[str]], claim: Claim) -> str:
    """See that a compensation has not come before its turn; says whose it is."""
    undone_job_id = (await saga.world.job(claim.task_id.job_id))["compensates_job_id"]
    name = saga.names[undone_job_id]
    if await saga.world.job_state(undone_job_id) != TaskState.SUCCEEDED:
        return name
    for other, job_id in saga.job_ids.items():
        if name not in ancestors(graph, other):
            continue
        assert await saga.world.job_state(job_id) not in LIVE, f"{other} still uses {name}"
        rows = await saga.world.clock.fetch(
            "select from holdfast.undos where job_id = $1 and ended_at is null", job_id
        )
        assert not rows, f"{name} is undone before {other}"
    return name


@pytest.mark.parametrize("seed", range(4))
async def test_random_sagas_are_undone_in_order(world: World, seed: int) -> None:
    await play(world, random.Random(seed))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4, 200))
async def test_many_random_sagas_are_undone_in_order(world: World, seed: int) -> None:
    await play(world, random.Random(seed))
