"""`signal`: exact ids, and exit codes that scripts can rely on."""

import json
from uuid import uuid4

from tests.cli.conftest import Service
from tests.cli.program import eventually


def test_a_task_waits_and_goes_on(service: Service) -> None:
    job_id = service.submit("tests.cli.tasks:wait_for_approval")
    eventually(lambda: service.ask("task", f"{job_id}.0").get("waits_for"))
    assert "waits for signal approval since" in service.run("explain", f"{job_id}.0").out
    assert "waits for signal approval since" in service.run("task", f"{job_id}.0").out
    ended = service.run("signal", job_id, "approval", "--payload", '{"by": "ada"}')
    assert (ended.code, ended.out, ended.err) == (0, f"{job_id}.0  has the signal\n", "")
    assert service.run("wait", job_id).code == 0
    refused = service.call("signal", job_id, "approval")
    assert refused.code == 1
    assert "at its end" in refused.err


def test_a_signal_is_sent_once_under_a_key(service: Service) -> None:
    job_id = service.submit("tests.cli.tasks:add", "--arg=1", f"--queue=q{uuid4().hex[:8]}")
    sent = service.run("signal", f"{job_id}.0", "a", "--key", "k", "--json")
    told = {"task_id": f"{job_id}.0", "name": "a", "number": 1, "is_repeat": False}
    assert json.loads(sent.out) == told
    again = service.run("signal", job_id, "a", "--key", "k")
    assert (again.code, again.out) == (0, f"{job_id}.0  had that signal before\n")
    other = service.call("signal", job_id, "a", "--key", "k", "--payload=2")
    assert other.code == 1
    assert "idempotency_key" in other.err


def test_what_cannot_be_sent_is_said(service: Service) -> None:
    assert service.call("signal", "987654", "a").code == 1
    wrong = service.call("signal", "1", "a", "--payload", "yes")
    assert wrong.code == 2
    assert "payload: 'yes' is not JSON" in wrong.err
    assert service.call("signal", "x", "a").code == 2
