"""`cancel`: exact ids, and exit codes that scripts can rely on."""

import re
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
    shown = service.run("job", job_id).out
    assert re.search(rf"^cancelled +{mode}, by .+: no longer needed$", shown, re.MULTILINE)
    again = service.run("cancel", job_id)
    assert (again.code, again.out) == (0, f"{job_id}  had ended or been asked before\n")


def test_a_job_that_nobody_cancelled_is_not_said_to_be(service: Service) -> None:
    queue = f"--queue=q{uuid4().hex[:8]}"
    first = service.submit("tests.cli.tasks:add", "--arg=1", queue)
    second = service.submit("tests.cli.tasks:add", "--arg=1", queue, "--depends-on", first)
    assert service.run("cancel", first, "--reason", "not today").code == 0
    assert service.run("wait", second).code == 1
    shown = service.run("job", second).out
    assert not re.search("^cancelled", shown, re.MULTILINE)
    assert re.search(
        rf"^because +job {first} \(.+\) ended KILLED, and this one needed it to have succeeded\n"
        r" +cancelled by .+: not today$",
        shown,
        re.MULTILINE,
    )


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
