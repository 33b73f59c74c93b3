"""What tasks have returned: at once, waited for, and in pages."""

from typing import Any

import pytest

from holdfast.services.runtime import Runtime
from tests.api.asgi import Exchange
from tests.api.face import Face, heard
from tests.waiting import eventually
from tests.world import World


@pytest.fixture
def face(quiet_face: Face) -> Face:
    """A server without chores on the world's own ledger."""
    return quiet_face


async def get(face: Face, target: str) -> Any:
    said = await face.get(target)
    assert said.status == 200, said
    return said.json


async def test_results_are_listed_in_pages(face: Face, world: World) -> None:
    job_id = await world.submit([1, 2, 3])
    for claim in await world.claim(3):
        await world.start(claim)
        await world.succeed(claim, f"[{claim.task_id.task_index}]")
    first = await get(face, f"/api/jobs/{job_id}/results?page_size=2")
    token = first["next_page_token"]
    rest = await get(face, f"/api/jobs/{job_id}/results?page_size=2&page_token={token}")
    found = [*first["results"], *rest["results"]]
    assert [(row["task_id"], row["result"]) for row in found] == [
        (f"{job_id}.{index}", [index]) for index in range(3)
    ]
    assert rest["next_page_token"] is None


async def test_a_result_is_read_at_once(face: Face, world: World) -> None:
    job_id = await world.submit(entrypoint={"pickle": "gASVBAAAAAAAAABLAS4="})
    assert (await get(face, f"/api/tasks/{job_id}.0/result"))["state"] == "TASK_STATE_PENDING"
    [claim] = await world.claim()
    await world.start(claim)
    await world.succeed(claim, '"gASVBAAAAAAAAABLAS4="')
    result = await get(face, f"/api/tasks/{job_id}.0/result")
    assert (result["result"], result["pickled"]) == ("gASVBAAAAAAAAABLAS4=", True)
    assert (result["state"], result["exit_code"]) == ("TASK_STATE_SUCCEEDED", 0)


async def test_a_result_is_waited_for_though_its_job_goes_on(
    face: Face, quiet: Runtime, world: World
) -> None:
    job_id = await world.submit([1, 2])
    waiting = Exchange(face.app, "GET", f"/api/tasks/{job_id}.0/result?wait_ms=60000")
    await eventually(lambda: quiet.doorbells.names("job"))
    [claim] = await world.claim()
    await world.start(claim)
    await world.succeed(claim, "[1]")
    said = await heard(waiting)
    assert (said.json["task_id"], said.json["result"]) == (f"{job_id}.0", [1])


async def test_a_failed_task_has_an_error_for_a_result(face: Face, world: World) -> None:
    job_id = await world.submit(on_exhausted="fail")
    [claim] = await world.claim()
    await world.start(claim)
    await world.fail(claim, "PermanentError")
    result = await get(face, f"/api/tasks/{job_id}.0/result?wait_ms=60000")
    assert (result["state"], result["result"]) == ("TASK_STATE_FAILED", None)
    assert (result["error"], result["error_class"]) == ("boom", "PermanentError")


@pytest.mark.parametrize("page_size", [1, 2, 3, 100])
async def test_a_job_that_continues_another_has_the_results_of_both_in_order(
    face: Face, world: World, page_size: int
) -> None:
    """Six inputs: 1, 3 and 4 fail; of their rerun, that of 3 fails again."""
    made = [await world.submit([0, 1, 2, 3, 4, 5], max_attempts=1)]
    for failing in ({1, 3, 4}, {1}, set()):
        for claim in await world.claim(6):
            index = claim.task_id.task_index
            if index in failing:
                await world.fail(claim)
            else:
                await world.succeed(claim, f'"{claim.task_id}"')
        if failing:
            path = f"/api/jobs/{made[-1]}:rerun"
            said = await face.post(path, {"only_unsuccessful": True})
            made.append(int(said.json["job_id"]))
    first, second, third = made
    found: list[Any] = []
    token: str | None = ""
    while token is not None:
        page = await get(face, f"/api/jobs/{third}/results?page_size={page_size}{token}")
        assert page["is_list"] is True
        found += page["results"]
        following = page["next_page_token"]
        token = None if following is None else f"&page_token={following}"
    names = [(first, 0), (second, 0), (first, 2), (third, 0), (second, 2), (first, 5)]
    assert [row["result"] for row in found] == [f"{job}.{index}" for job, index in names]
    assert [row["task_id"] for row in found] == [row["result"] for row in found]


async def test_a_page_of_another_list_is_refused_and_a_job_that_is_gone_is_missed(
    face: Face, world: World
) -> None:
    job_id = await world.submit([0, 1, 2], max_attempts=1)
    for claim in await world.claim(3):
        await (world.fail(claim) if claim.task_id.task_index else world.succeed(claim, "0"))
    said = await face.post(f"/api/jobs/{job_id}:rerun", {"only_unsuccessful": True})
    again = said.json["job_id"]
    token = (await get(face, f"/api/jobs/{again}/results?page_size=1"))["next_page_token"]
    other = await face.get(f"/api/jobs/{job_id}/results?page_token={token}")
    assert (other.status, other.error["field"]) == (400, "page_token")
    await world.clock.fetch("update holdfast.continuations set continues = 0")
    gone = await face.get(f"/api/jobs/{again}/results")
    assert (gone.status, "no job 0" in gone.error["message"]) == (404, True)
