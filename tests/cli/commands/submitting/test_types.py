"""`types`: what operators decide for a kind of work, and what a job makes of it."""

import re
from uuid import uuid4

from tests.cli.conftest import Service
from tests.cli.program import eventually


def test_a_policy_is_set_piece_by_piece_and_shown(service: Service) -> None:
    name = f"t{uuid4().hex[:8]}"
    ended = service.run(
        "types", "set", name, "--lease", "60", "--retries", "5", "--max-retries", "10",
        "--on-exhausted", "dead_letter", "--verbose-events", "--backoff-base", "2",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert ended.out.startswith(f"type {name}  version ")
    assert service.call("types", "set", name, "--retries", "7", "--max-tasks", "3").code == 0
    found = service.ask("types", "show", name)
    assert found["defaults"] == {
        "lease": 60.0,
        "max_retries_failure": 7,
        "backoff": {"base": 2.0, "factor": 2.0, "ceiling": 60.0},
        "on_exhausted": "dead_letter",
        "verbose_events": True,
    }
    assert found["limits"] == {"max_retries_failure": 10, "tasks": 3}
    shown = service.call("types", "show", name).out
    assert "limit: max retries failure" in shown
    assert "base=2 factor=2 ceiling=60" in shown
    [line] = [line for line in service.call("types").out.splitlines() if name in line]
    assert "max_retries_failure=7" in line
    job_id = service.submit("tests.cli.tasks:add", "--arg=1", "--queue=none", f"--name={name}")
    assert service.ask("job", job_id)["spec"]["max_retries_failure"] == 7
    assert service.call("cancel", job_id).code == 0
    assert service.call("types", "set", name, "--fresh").code == 0
    assert service.ask("types", "show", name)["defaults"] == {}
    changes = service.ask("types", "history", name)["changes"]
    assert [change["after"] is None for change in changes] == [False] * 3
    history = service.call("types", "history", name)
    assert (history.code, history.out.count("tasks=3")) == (0, 1)
    assert service.call("types", "unset", name).code == 0
    assert service.call("types", "unset", name).code == 1


def test_attempts_are_one_more_than_the_retries_they_mean(service: Service) -> None:
    name = f"t{uuid4().hex[:8]}"
    assert service.call("types", "set", name, "--max-retries", "9", "--lease", "60").code == 0
    ended = service.call("types", "set", name, "--attempts", "2", "--max-attempts", "4")
    assert ended.code == 0, ended.err
    found = service.ask("types", "show", name)
    assert found["defaults"] == {"lease": 60.0, "max_retries_failure": 1}
    assert found["limits"] == {"max_retries_failure": 3}
    assert service.call("types", "unset", name).code == 0


def test_what_cannot_be_set_is_said_with_its_field(service: Service) -> None:
    for arguments, word in (
        (["--timeout", "0"], "defaults.timeout"),
        (["--retries", "3", "--max-retries", "2"], "defaults.max_retries_failure"),
        (["--attempts", "3", "--retries", "2"], "attempts: means the retries and one more"),
        (["--max-attempts", "0"], "max-attempts: is 0; give at least 1"),
        ([], "give something to set"),
    ):
        ended = service.call("types", "set", "t", *arguments)
        assert (ended.code, word in ended.err) == (2, True), ended
    assert service.call("types", "history", "no such type").code == 1


def test_how_long_work_of_a_type_waits_and_runs_is_said_in_words(service: Service) -> None:
    name = f"t{uuid4().hex[:8]}"
    job_id = service.submit("tests.cli.tasks:add", "--arg=1", f"--name={name}")
    assert service.call("wait", job_id, "--timeout=60").code == 0
    eventually(lambda: service.ask("types", "show", name)["times"])
    shown = service.call("types", "show", name).out
    assert "1 within the last hour, 0 failed" in shown
    for what in ("waits", "runs"):
        assert re.search(rf"^{what} +p50 [0-9.]+ ?m?s, p95 [0-9.]+ ?m?s$", shown, re.MULTILINE)
