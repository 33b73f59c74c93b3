"""Jobs that wait for jobs, from submission to release, and what happens when that cannot be."""

from typing import Any

import pytest

from holdfast.errors import Invalid
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.states import JobState
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.submitting.graph import submit_batch
from holdfast.rules.submitting.submission import parse_spec
from tests.world import World


def a_job(name: str | None = None, **fields: Any) -> Submission:
    """Describe one job of a graph."""
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"} | fields)
    return Submission(spec, local_name=name)


async def test_a_job_starts_when_what_it_waits_for_has_succeeded(world: World) -> None:
    first = await world.submit()
    second = await world.submit(depends_on=[str(first)], inputs=["a", "b"])
    [claim] = await world.claim(10)
    assert claim.task_id.job_id == first
    assert (await world.job(second))["unmet"] == 1

    await world.succeed(claim)
    assert await world.claim(10) == []
    await follow_up_all(world.ledger)

    claims = await world.claim(10)
    assert [claim.task_id.job_id for claim in claims] == [second, second]
    for claim in claims:
        await world.succeed(claim)
    assert (await world.job(second))["state"] == JobState.SUCCEEDED


async def test_a_job_that_waits_in_vain_is_killed_and_says_why(world: World) -> None:
    first = await world.submit()
    second = await world.submit(depends_on=[str(first)])
    third = await world.submit(depends_on=[str(second)])
    otherwise = await world.submit(depends_on=[{"job": str(first), "condition": "failed"}])
    [claim] = await world.claim(10)
    await world.complete(claim, "failed", error="boom", error_class="PermanentError")
    await follow_up_all(world.ledger)

    for job_id, cause in ((second, first), (third, second)):
        job = await world.job(job_id)
        assert job["state"] == JobState.KILLED
        assert f"job {cause} ended" in job["error"]
    assert [c.task_id.job_id for c in await world.claim(10)] == [otherwise]


async def test_a_graph_is_stored_whole_with_ids_in_the_place_of_names(world: World) -> None:
    graph = [
        a_job("load", depends_on=["left", "right"]),
        a_job("left", depends_on=["extract"]),
        a_job("right", depends_on=["extract"]),
        a_job("extract"),
    ]
    load, left, right, extract = [a.job_id for a in await submit_batch(world.ledger, graph)]
    assert extract < left < load
    assert extract < right < load
    assert (await world.job(load))["unmet"] == 2
    for expected in ([extract], [left, right], [load]):
        claims = await world.claim(10)
        assert sorted(c.task_id.job_id for c in claims) == sorted(expected)
        for claim in claims:
            await world.succeed(claim)
        await follow_up_all(world.ledger)


@pytest.mark.parametrize(
    ("depends_on", "problem"),
    [
        (["99999"], "there is no job 99999"),
        (["extract"], "names go with graphs"),
        (["1x"], "is not a job id"),
        (["99999", "99999"], "again"),
    ],
)
async def test_what_cannot_be_waited_for_is_refused(
    world: World, depends_on: list[str], problem: str
) -> None:
    with pytest.raises(Invalid, match=problem):
        await world.submit(depends_on=depends_on)


async def test_a_cycle_is_refused_with_its_names(world: World) -> None:
    graph = [
        a_job("a", depends_on=["b"]),
        a_job("b", depends_on=["c"]),
        a_job("c", depends_on=["a"]),
    ]
    with pytest.raises(Invalid, match="cycle: a -> b -> c -> a"):
        await submit_batch(world.ledger, graph)
