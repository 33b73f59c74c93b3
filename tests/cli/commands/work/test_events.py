"""`events`: listed, or followed as they come."""

import json
import select
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Service
from tests.cli.program import PROGRAM, SECONDS_MAX, eventually


def test_events_are_listed_for_a_job_and_for_a_task(service: Service) -> None:
    job_id = service.submit_and_wait("tests.cli.tasks:add", "--arg=1")
    listed = service.ask("events", job_id)["events"]
    assert [event["type"] for event in listed if event["task_index"] < 0] == [
        "submitted",
        "started",
        "succeeded",
    ]
    own = service.ask("events", f"{job_id}.0")["events"]
    assert [event["type"] for event in own] == ["claimed", "started", "succeeded"]
    assert service.ask("events", job_id, "--type", "job_claimed")["events"] == own[:1]
    lines = service.run("events", f"{job_id}.0").out.splitlines()
    assert [line.split()[1:3] for line in lines] == [
        [f"{job_id}.0.0", kind] for kind in ("claimed", "started", "succeeded")
    ]
    limited = service.run("events", job_id, "--limit=1")
    assert len(limited.out.splitlines()) == 1
    assert "there are more" in limited.err


def test_hostile_text_in_events_is_inert(service: Service) -> None:
    job_id = service.submit_and_wait("tests.cli.tasks:fail", '--arg="\\u001b[2J\\nnext"')
    shown = service.on_terminal("events", job_id)
    assert "\\x1b[2J" in shown
    assert "\x1b[2J" not in shown
    assert len(shown.splitlines()) == len(service.ask("events", job_id)["events"])


def test_events_of_a_job_are_followed_from_its_beginning(service: Service) -> None:
    job_id = service.submit("tests.cli.tasks:wait_for_cancel")
    following = service.start("events", f"{job_id}.0", "-f", "--json")
    try:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["type"] == "claimed"
        assert json.loads(following.stdout.readline())["type"] == "started"
        assert service.run("cancel", "--hard", job_id).code == 0
        killed = json.loads(following.stdout.readline())
        assert (killed["job_id"], killed["type"]) == (job_id, "killed")
        following.send_signal(signal.SIGINT)
        assert following.wait(SECONDS_MAX) == 130
    finally:
        following.kill()
        following.communicate()


def test_everything_is_followed_from_now_on(service: Service) -> None:
    following = service.start("events", "-f", "--type", "submitted", "--json")
    try:
        assert following.stdout is not None
        out = following.stdout

        def is_seen() -> bool:
            service.submit("tests.cli.tasks:add", "--arg=1")
            return bool(select.select([out], [], [], 0)[0])

        eventually(is_seen)
        seen = json.loads(out.readline())
        assert seen["type"] == "submitted"
        following.send_signal(signal.SIGTERM)
        assert following.wait(SECONDS_MAX) == 128 + signal.SIGTERM
    finally:
        following.kill()
        following.communicate()


def test_a_command_writes_events_of_its_own(service: Service, tmp_path: Path) -> None:
    script = f"{PROGRAM} event loaded rows=3 from='a b' && {PROGRAM} event done"
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"entrypoint": {"shell": script}, "queue": "default"}))
    job_id = service.submit("--spec", str(spec))
    assert service.call("wait", job_id).code == 0
    loaded, done = service.ask("events", job_id, "--type", "user")["events"]
    assert (loaded["type"], loaded["payload"]) == ("user:loaded", {"rows": 3, "from": "a b"})
    assert (done["type"], done["payload"]) == ("user:done", {})
    [line] = service.run("events", job_id, "--type", "user:loaded").out.splitlines()
    assert line.endswith('{"rows":3,"from":"a b"}')
    of_all = service.ask("events", "--type", "user:loaded", "--since", "10m")["events"]
    assert loaded in of_all


def test_an_event_is_refused_outside_of_a_task_and_without_a_value(service: Service) -> None:
    outside = service.run("event", "loaded")
    assert (outside.code, outside.out) == (2, "")
    assert "HOLDFAST_LEASE_TOKEN" in outside.err
    bad = service.run("event", "loaded", "rows")
    assert bad.code == 2
    assert "write it like rows=3" in bad.err


def test_events_of_all_jobs_are_searched(service: Service, tmp_path: Path) -> None:
    correlation = f"c{tmp_path.name}"
    spec = tmp_path / "spec.json"
    said = {"entrypoint": {"shell": "true"}, "queue": "default", "correlation_id": correlation}
    spec.write_text(json.dumps(said))
    jobs = [service.submit("--spec", str(spec)) for _ in range(2)]
    for job_id in jobs:
        assert service.call("wait", job_id).code == 0
    found = service.ask("events", "--correlation-id", correlation, "--type", "submitted")
    assert [event["job_id"] for event in found["events"]] == jobs
    for since in ("2026-01-01", "1h"):
        recent = service.ask("events", "--type", "submitted", "--since", since)["events"]
        assert {*jobs} <= {event["job_id"] for event in recent}
    listed = service.ask("jobs", "--correlation-id", correlation)["jobs"]
    assert {job["job_id"] for job in listed} == {*jobs}
    refused = service.run("events", jobs[0], "--correlation-id", correlation)
    assert refused.code == 2
    assert "leave out the ID" in refused.err


@pytest.mark.parametrize(
    "arguments",
    [["events", "--since", "never"], ["events", "x"], ["events", "1", "--type", "nonsense"]],
)
def test_what_cannot_be_asked_is_exit_code_2(service: Service, arguments: list[str]) -> None:
    ended = service.run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1


def test_what_does_not_exist_has_no_events(service: Service) -> None:
    for flags in ([], ["-f"]):
        ended = service.run("events", "999999999", *flags)
        assert (ended.code, ended.out) == (1, "")
