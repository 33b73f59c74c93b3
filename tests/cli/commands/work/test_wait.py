"""`wait`: exact ids, and exit codes that scripts can rely on."""

import json
from uuid import uuid4

from tests.cli.conftest import Service


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
    assert f"task {job_id}.0 waits: no worker serves queue q" in ended.err
    answer = json.loads(service.run("wait", job_id, "-t", "0", "--json").out)
    assert (answer["timed_out"], answer["results"][0]["ended"]) == (True, False)
    assert service.run("cancel", job_id).code == 0


def test_what_does_not_exist_cannot_be_waited_for(service: Service) -> None:
    assert service.run("wait", "999999999").code == 1
    assert service.run("wait", "x").code == 2
    assert service.run("wait").code == 2
