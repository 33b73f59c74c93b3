"""`cancel` and `wait`: exact ids, and exit codes that scripts can rely on."""

import json
from uuid import uuid4

import pytest

from tests.cli.conftest import Service
from tests.cli.program import eventually


def submit_running(service: Service) -> str:
    """Submit a task that runs until it is cancelled, and see it run."""
    job_id = service.submit("tests.cli.tasks:wait_for_cancel")
    eventually(lambda: service.ask("job", job_id)["state"] == "JOB_STATE_RUNNING")
    return job_id


@pytest.mark.parametrize(("flags", "mode"), [([], "soft"), (["--hard"], "hard")])
def test_a_job_is_cancelled_with_its_reason(service: Service, flags: list[str], mode: str) -> None:
    job_id = submit_running(service)
    ended = service.run("cancel", job_id, "--reason", "no longer needed", *flags)
    assert (ended.code, ended.out, ended.err) == (0, f"{job_id}  asked to stop\n", "")
    assert service.run("wait", job_id).code == 1
    job = service.ask("job", job_id)
    assert (job["state"], job["cancel_mode"]) == ("JOB_STATE_KILLED", mode)
    assert job["cancel_reason"] == "no longer needed"
    again = service.run("cancel", job_id)
    assert (again.code, again.out) == (0, f"{job_id}  had ended or been asked before\n")


def test_a_single_task_can_be_cancelled(service: Service) -> None:
    job_id = service.submit("tests.cli.tasks:add", "--arg=1", f"--queue=q{uuid4().hex[:8]}")
    for _ in range(2):
        ended = service.run("cancel", f"{job_id}.0", "--key", f"stop {job_id}")
        assert (ended.code, ended.out) == (0, f"{job_id}.0  asked to stop\n")
    assert service.run("cancel", f"{job_id}.0", "--hard", "--key", f"stop {job_id}").code == 1
    assert service.run("cancel", job_id, f"{job_id}.0", "--key", "k").code == 2
    assert service.call("wait", f"{job_id}.0").code == 1
    assert service.ask("task", f"{job_id}.0")["state"] == "TASK_STATE_KILLED"


def test_an_id_that_cannot_be_one_stops_the_whole_cancel(service: Service) -> None:
    job_id = service.submit("tests.cli.tasks:add", "--arg=1", f"--queue=q{uuid4().hex[:8]}")
    for wrong in ("x", f"{job_id}.0.0", f"{job_id}*"):
        ended = service.run("cancel", job_id, wrong)
        assert (ended.code, ended.out) == (2, "")
    assert service.ask("job", job_id)["cancel_mode"] is None
    assert service.run("cancel").code == 2
    assert service.run("cancel", job_id).code == 0


def test_one_that_does_not_exist_does_not_save_the_others(service: Service) -> None:
    job_id = service.submit("tests.cli.tasks:add", "--arg=1", f"--queue=q{uuid4().hex[:8]}")
    ended = service.run("cancel", "999999999", job_id)
    assert (ended.code, ended.out) == (1, f"{job_id}  asked to stop\n")
    assert "there is no job 999999999" in ended.err
    assert service.call("wait", job_id).code == 1
    assert service.ask("job", job_id)["state"] == "JOB_STATE_KILLED"


def test_waiting_ends_with_0_when_all_have_succeeded(service: Service) -> None:
    first = service.submit("tests.cli.tasks:add", "--arg=1")
    second = service.submit("tests.cli.tasks:add", "--arg=2")
    ended = service.run("wait", first, f"{second}.0")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == f"{first}  succeeded\n{second}.0  succeeded\n"


def test_waiting_ends_with_1_when_one_has_not(service: Service) -> None:
    good = service.submit("tests.cli.tasks:add", "--arg=1")
    bad = service.submit("tests.cli.tasks:fail", '--arg="never"')
    ended = service.run("wait", bad, good)
    assert ended.code == 1
    assert ended.out.splitlines()[0] == f"{bad}  dead_lettered  PermanentError: never"
    answer = json.loads(service.run("wait", "--json", bad, f"{bad}.0").out)
    assert answer["timed_out"] is False
    assert [(each["id"], each["state"]) for each in answer["results"]] == [
        (bad, "JOB_STATE_DEAD_LETTERED"),
        (f"{bad}.0", "TASK_STATE_DEAD_LETTERED"),
    ]


def test_waiting_ends_with_3_when_the_time_is_over(service: Service) -> None:
    job_id = service.submit("tests.cli.tasks:add", "--arg=1", f"--queue=q{uuid4().hex[:8]}")
    ended = service.run("wait", job_id, f"{job_id}.0", "--timeout", "0.2")
    assert ended.code == 3
    assert ended.out == f"{job_id}  pending\n{job_id}.0  pending\n"
    assert "not everything has ended within 0.2 s" in ended.err
    answer = json.loads(service.run("wait", job_id, "-t", "0", "--json").out)
    assert (answer["timed_out"], answer["results"][0]["ended"]) == (True, False)
    assert service.run("cancel", job_id).code == 0


def test_what_does_not_exist_cannot_be_waited_for(service: Service) -> None:
    assert service.run("wait", "999999999").code == 1
    assert service.run("wait", "x").code == 2
    assert service.run("wait").code == 2
