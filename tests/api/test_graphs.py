"""The route that reads how jobs depend on each other."""

from tests.api.face import Face
from tests.world import World


async def test_a_graph_is_read_with_its_states_and_conditions(
    quiet_face: Face, world: World
) -> None:
    specs = [
        {"entrypoint": {"function": "app:work"}, "queue": "q", "local_name": "first"},
        {
            "entrypoint": {"function": "app:work"},
            "queue": "q",
            "name": "second",
            "depends_on": [{"job": "first", "condition": "ended"}],
        },
    ]
    said = await quiet_face.post("/api/jobs:batch", {"specs": specs})
    first, second = (job["job_id"] for job in said.json["jobs"])
    found = (await quiet_face.get(f"/api/jobs/{second}/graph")).json
    assert found == {
        "job_id": second,
        "nodes": [
            {
                "job_id": first,
                "name": "work",
                "type": "work",
                "state": "JOB_STATE_PENDING",
                "graph_id": first,
                "compensates_job_id": None,
            },
            {
                "job_id": second,
                "name": "second",
                "type": "second",
                "state": "JOB_STATE_PENDING",
                "graph_id": first,
                "compensates_job_id": None,
            },
        ],
        "edges": [{"from": first, "to": second, "condition": "ended", "holds": None}],
        "truncated": False,
    }
    missing = await quiet_face.get("/api/jobs/99999/graph")
    assert (missing.status, missing.error["code"]) == (404, "not_found")
    assert (await quiet_face.get("/api/jobs/x/graph")).status == 400


async def test_a_task_says_which_jobs_it_waits_for(quiet_face: Face, world: World) -> None:
    others = [await quiet_face.submit() for _ in range(3)]
    one = await quiet_face.submit(depends_on=others[:1])
    many = await quiet_face.submit(depends_on=others)
    placed = await quiet_face.submit(queue=None, depends_on=others[:2])
    for job_id, reason in (
        (one, f"waits for job {others[0]}"),
        (many, f"waits for job {others[0]} and 2 others"),
        (placed, f"waits for job {others[0]} and 1 other"),
    ):
        [task] = (await quiet_face.get(f"/api/jobs/{job_id}/tasks")).json["tasks"]
        assert task["pending_reason"] == reason
    told = (await quiet_face.get(f"/api/tasks/{many}.0/explain")).json
    assert told["reason"]["code"] == "dependencies"
    assert told["reason"]["details"] == {"count": 3, "job_ids": others}
    assert f"It waits: waits for job {others[0]} and 2 others." in told["lines"]
