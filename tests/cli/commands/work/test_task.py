"""`task` and `explain`: one task, its attempts, and why it stands where it is."""

import json
import urllib.request
from typing import Any
from uuid import uuid4

from tests.cli.conftest import Service


def test_a_task_is_shown_with_its_attempts(service: Service) -> None:
    command = "test $HOLDFAST_ATTEMPT = 1"
    ended = service.run("run", "--detach", "--retries=1", "--", "sh", "-c", command)
    job_id = ended.out.strip()
    service.run("wait", job_id)
    shown = service.ask("task", f"{job_id}.0")
    assert [attempt["exit_code"] for attempt in shown["attempts"]] == [1, 0]
    text = service.run("task", f"{job_id}.0").out
    assert text.startswith(f"Task {job_id}.0  succeeded\n")
    assert "\n0         failed" in text
    assert "\n1 (curr)  succeeded" in text


def test_an_attempt_whose_worker_failed_is_marked(service: Service) -> None:
    def post(path: str, **body: Any) -> Any:
        said = json.dumps({"worker_id": "w1", **body}).encode()
        headers = {"Content-Type": "application/json"}
        asking = urllib.request.Request(f"{service.url}/internal/{path}", said, headers)
        with urllib.request.urlopen(asking) as answer:
            return json.load(answer)

    job_id = service.submit("tests.cli.tasks:add", "--arg=1", f"--queue={uuid4().hex[:8]}")
    [claim] = post("task-claim", task_id=f"{job_id}.0")["claims"]
    lease = {name: claim[name] for name in ("task_id", "attempt", "lease_token")}
    post("task-complete", **lease, status="worker_failed", error="disk full")
    assert "\n0 (curr) (worker failure)  worker_failed  w1" in service.run("task", job_id).out
    assert service.run("cancel", job_id).code == 0


def test_what_a_task_waits_for_is_explained(service: Service) -> None:
    job_id = service.submit("tests.cli.tasks:add", "--arg=1", f"--queue={uuid4().hex[:8]}")
    explained = service.ask("explain", job_id)
    assert explained["state"] == "TASK_STATE_PENDING"
    assert any("no worker serves queue" in line for line in explained["lines"])
    text = service.run("explain", f"{job_id}.0").out
    assert text.splitlines() == explained["lines"]
    assert "no worker serves queue" in service.run("task", job_id).out
    assert service.run("cancel", job_id).code == 0


def test_what_a_placed_task_was_given_and_used_is_shown(cluster: Service) -> None:
    said = "echo $HOLDFAST_PORT_HTTP $HOLDFAST_DEVICES"
    ended = cluster.run("run", "--port=http", "--gpu=2", "--", "sh", "-c", said)
    assert ended.code == 0
    [job] = cluster.ask("jobs", "--limit=1")["jobs"]
    shown = cluster.ask("task", job["job_id"])
    [attempt] = shown["attempts"]
    port, devices = ended.out.split()
    assert devices.split(",") == attempt["devices"] == shown["devices"] == ["0", "1"]
    assert attempt["ports"] == shown["ports"] == {"http": int(port)}
    text = cluster.run("task", job["job_id"]).out
    assert f"\nports      http={port}\n" in text
    assert "\ndevices    0 1\n" in text
    assert "\nused       " in text
    row = next(line for line in text.splitlines() if line.startswith("0 (curr)"))
    assert row.split()[2:4] == ["succeeded", shown["worker_id"]]
    assert f"http={port}" in row
    for columns in (60, 100):
        lines = cluster.on_terminal("task", job["job_id"], columns=columns).splitlines()
        assert any("0 (curr)" in line and "roomy" in line for line in lines)


def test_why_a_task_is_not_placed_is_explained_with_its_numbers(cluster: Service) -> None:
    flags = ("--cpu=1", "--constraint=region=us", "--detach")
    job_id = cluster.run("run", *flags, "--", "true").out.strip()
    reason = cluster.ask("explain", job_id)["reason"]
    assert "region=us" in reason["message"]
    text = cluster.run("explain", job_id).out
    assert f"It waits: {reason['message']}." in text.splitlines()
    [near] = reason["nearest"]
    assert f"Nearest: worker {near['name']}: fails region=us." in text.splitlines()
    asked = ("explain", job_id, "--what-if=cpu=0.5", "--what-if=memory=1GB")
    text = cluster.run(*asked, "--without", near["name"]).out
    assert (
        "With 0.5 cpu instead of 1, with 1GB memory instead of 0B, without worker "
        f"{near['name']}: no worker has registered for placed work."
    ) in text.splitlines()
    for wrong in ("cpu", "cpu=", "cores=1", "cpu=many"):
        ended = cluster.run("explain", job_id, f"--what-if={wrong}")
        assert ended.code == 2
        assert "--what-if" in ended.err
    assert "\nwhere        region=us\n" in cluster.run("job", job_id).out
    assert cluster.run("cancel", job_id).code == 0
