"""A job runs again through the API."""

from tests.api.face import Face, heard
from tests.world import World


async def test_a_job_runs_again_and_whoever_waits_for_work_has_it(
    quiet_face: Face, world: World
) -> None:
    job_id = await quiet_face.submit(inputs=["a", "b"], max_attempts=1, on_exhausted="fail")
    done, failed = await quiet_face.claim(2)
    await quiet_face.complete(done)
    await quiet_face.complete(failed, "failed", error="boom")
    path = f"/api/jobs/{job_id}:rerun"
    dry = await quiet_face.post(path, {"dry_run": True})
    assert dry.json == {"replay_of": job_id, "job_id": None, "num_tasks": 2, "dry_run": True}
    polling = quiet_face.poll()
    await quiet_face.polling()
    asked = {"only_unsuccessful": True, "idempotency_key": "k"}
    said = await quiet_face.post(path, asked, holdfast_actor="ann")
    assert (said.status, said.json["num_tasks"], said.json["replay_of"]) == (200, 1, job_id)
    [claim] = (await heard(polling)).json["claims"]
    assert (claim["job"]["job_id"], claim["input"]) == (said.json["job_id"], failed["input"])
    again = await quiet_face.post(path, asked, holdfast_actor="ann")
    assert again.json == said.json
    other = await quiet_face.post(path, {"idempotency_key": "k"}, holdfast_actor="ann")
    assert (other.status, other.error["code"]) == (409, "key_reused")
    shown = await quiet_face.get(f"/api/jobs/{said.json['job_id']}")
    assert shown.json["replay_of"] == job_id


async def test_a_job_that_cannot_run_again_is_refused(quiet_face: Face) -> None:
    job_id = await quiet_face.submit(replicas=2)
    said = await quiet_face.post(f"/api/jobs/{job_id}:rerun", {"only_unsuccessful": True})
    assert (said.status, said.error["field"]) == (400, "only_unsuccessful")
    live = await quiet_face.submit(inputs=["a"])
    said = await quiet_face.post(f"/api/jobs/{live}:rerun", {"only_unsuccessful": True})
    assert (said.status, said.error["code"]) == (409, "illegal_move")
    assert (await quiet_face.post("/api/jobs/99999:rerun", {})).status == 404
