"""What an attempt needs of its own job: shown by its lease, with tokens and without."""

import hashlib
from typing import Any

import msgspec

from tests.api.asgi import call
from tests.api.face import Face, fence, lease_header
from tests.waiting import eventually


async def test_results_of_what_its_job_waits_for_are_given_page_by_page(face: Face) -> None:
    given = await face.submit(inputs=[1, 2, 3])
    for claim in await face.claim(3):
        await face.complete(claim, result=claim["input"] * 10)
    other = await face.submit()
    [theirs] = await face.claim()
    await face.submit(depends_on=[given])
    [mine] = await face.claim()
    path, lease = f"/internal/given-results/{given}", lease_header(mine)
    first = (await face.get(f"{path}?page_size=2", holdfast_lease=lease)).json
    token = first["next_page_token"]
    rest = await face.get(f"{path}?page_size=2&page_token={token}", holdfast_lease=lease)
    assert [each["result"] for each in first["results"] + rest.json["results"]] == [10, 20, 30]
    assert first["is_list"]
    for job, shown in ((other, lease), (given, lease_header(theirs))):
        said = await face.get(f"/internal/given-results/{job}", holdfast_lease=shown)
        assert (said.status, said.error["details"]["lacks"]) == (403, f"job {job}"), said
    said = await face.get(path)
    assert (said.status, said.error["field"]) == (400, "Holdfast-Lease")
    await face.complete(mine)
    said = await face.get(path, holdfast_lease=lease)
    assert (said.status, said.error["code"]) == (409, "lease_conflict")


async def test_a_compensation_is_told_the_call_it_undoes_and_what_that_was_given(
    face: Face,
) -> None:
    given = await face.submit()
    [claim] = await face.claim()
    await face.complete(claim, result=7)
    undone: dict[str, Any] = {"function": "app:work", "args": [None], "kwargs": {"k": 1}}
    undone["results"] = [{"path": ["args", 0], "job": given}]
    await face.submit(
        entrypoint=undone,
        depends_on=[given],
        compensation={"function": "app:undo"},
        on_exhausted="fail",
    )
    [failing] = await face.claim()
    said = await face.get("/internal/compensated-call", holdfast_lease=lease_header(failing))
    assert (said.status, said.error["details"]["lacks"]) == (403, "a compensation")
    beaten = await face.beat(failing, state="RUNNING")
    assert beaten.status == 200
    await face.complete(failing, "failed", error="boom")

    async def found() -> Any:
        return await face.claim()

    [mine] = await eventually(found)
    assert mine["job"]["compensates_job_id"] == failing["job"]["job_id"]
    lease = lease_header(mine)
    told = (await face.get("/internal/compensated-call", holdfast_lease=lease)).json
    assert {name: told["entrypoint"][name] for name in undone} == undone
    results = await face.get(f"/internal/given-results/{given}", holdfast_lease=lease)
    assert [each["result"] for each in results.json["results"]] == [7]


async def test_a_bundle_is_given_to_attempts_of_its_own_job(face: Face) -> None:
    content = b"a workspace"
    bundle = hashlib.sha256(content).hexdigest()
    octets = {"content-type": "application/octet-stream"}
    stored = await call(face.app, "PUT", f"/api/bundles/{bundle}", body=content, headers=octets)
    assert stored[0] == 201
    job_id = int(await face.submit())
    [claim] = await face.claim()
    path, lease = f"/internal/own-bundle/{bundle}", {"holdfast-lease": lease_header(claim)}
    said = await face.get(path, **lease)
    assert (said.status, said.error["details"]["lacks"]) == (403, f"bundle {bundle}")
    # As if it were placed work, which alone has bundles.
    specs = face.runtime.ledger.specs
    own = specs.find(job_id)
    assert own is not None
    specs.remember(job_id, own._replace(spec=msgspec.structs.replace(own.spec, bundle=bundle)))
    status, headers, fetched = await call(face.app, "GET", path, headers=lease)
    assert (status, fetched, headers["content-length"]) == (200, content, str(len(content)))
    await face.complete(claim)
    assert (await face.get(path, **lease)).status == 409


async def test_progress_is_noted_and_renews_nothing(face: Face) -> None:
    job_id = await face.submit()
    [claim] = await face.claim()
    body = {**fence(claim), "fraction": 0.5, "message": "half"}
    [before] = await expiries(face)
    assert (await face.post("/internal/task-progress", body)).json == {}
    assert await expiries(face) == [before]
    shown = (await face.get(f"/api/tasks/{job_id}.0")).json
    assert shown["progress"] == 0.5
    said = await face.post("/internal/task-progress", body | {"fraction": 1.5})
    assert said.status == 400
    await face.complete(claim)
    said = await face.post("/internal/task-progress", body)
    assert (said.status, said.error["code"]) == (409, "lease_conflict")


async def expiries(face: Face) -> list[Any]:
    async with face.runtime.reads.transaction() as tx:
        rows = await tx.connection.fetch("select expires_at from holdfast.leases")
    return [row[0] for row in rows]
