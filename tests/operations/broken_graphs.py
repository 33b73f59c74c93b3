"""Graphs for tests that break: worked on, and looked at."""

import json
from typing import Any

from holdfast.model.work.states import JobState
from tests.world import World


def after(*job_ids: int, results: bool = False) -> dict[str, Any]:
    """Describe what a job waits for, and whether it is given what those return."""
    fields: dict[str, Any] = {"depends_on": [str(job_id) for job_id in job_ids]}
    if results:
        args: list[None] = [None] * len(job_ids)
        places = [{"path": ["args", n], "job": str(id)} for n, id in enumerate(job_ids)]
        fields["entrypoint"] = {"function": "app:work", "args": args, "results": places}
    return fields


async def work(world: World, *fail: Any) -> None:
    """Do everything there is to do; these inputs, and tasks of these jobs, fail."""
    while True:
        await world.run_chores()
        claims = await world.claim(100)
        if not claims:
            return
        for claim in claims:
            given = None if claim.input is None else json.loads(claim.input)
            if given in fail or claim.task_id.job_id in fail:
                await world.fail(claim, "PermanentError")
            else:
                await world.succeed(claim, json.dumps(given))


async def states(world: World, *job_ids: int | None) -> list[JobState]:
    """Read how jobs stand."""
    return [JobState((await world.job(job_id or 0))["state"]) for job_id in job_ids]


async def waits_of(world: World, job_id: int | None) -> list[int]:
    """Read what a job waits for."""
    rows = await world.clock.fetch(
        "select depends_on from holdfast.dependencies where job_id = $1 order by 1", job_id
    )
    return [row[0] for row in rows]


async def broken_graph(world: World) -> list[int]:
    """Run a graph of an extract over four inputs, a table, a join and a report; input c fails."""
    extract = await world.submit(["a", "b", "c", "d"])
    table = await world.submit()
    join = await world.submit(**after(extract, table, results=True))
    report = await world.submit(**after(join))
    await work(world, "c")
    made = [extract, table, join, report]
    dead = JobState.DEAD_LETTERED
    assert await states(world, *made) == [
        dead,
        JobState.SUCCEEDED,
        JobState.KILLED,
        JobState.KILLED,
    ]
    return made
