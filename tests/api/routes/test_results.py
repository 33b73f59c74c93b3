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
