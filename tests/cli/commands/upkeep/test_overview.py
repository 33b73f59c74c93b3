"""`overview`: what needs attention, and the command that leads to it."""

from typing import Any
from uuid import uuid4

from tests.cli.conftest import Service
from tests.cli.program import eventually


def test_failing_jobs_are_found_by_the_command_that_is_named(service: Service) -> None:
    ids = [
        service.submit_and_wait(
            "tests.cli.tasks:fail", f'--arg="no route to 10.0.0.{n}"', f"--name=n{uuid4().hex[:8]}"
        )
        for n in range(5)
    ]
    service.submit("tests.cli.tasks:add", "--arg=1", f"--queue=q{uuid4().hex[:8]}")

    def find_groups() -> list[Any]:
        found = service.ask("overview")["attention"]
        return [one for one in found if "no route to" in one["subject"] and one["count"] == 5]

    # It is read every few seconds, however many ask.
    [group] = eventually(find_groups)
    assert group["kind"] == "failing_jobs"
    ended = service.run("overview")
    assert ended.code == 0
    command = f"holdfast jobs --state unsuccessful --fingerprint {group['fingerprint']}"
    assert command in ended.out
    assert "in a queue that no worker serves" in ended.out
    listed = service.ask(*command.split()[1:])
    assert [job["job_id"] for job in listed["jobs"]] == ids[::-1]
    states = ("--state", "dead_lettered,failed", "--state", "killed")
    both = service.ask("jobs", *states, "--limit", "5")
    assert [job["job_id"] for job in both["jobs"]] == ids[::-1]


def test_what_waits_for_a_limit_is_counted(service: Service) -> None:
    name = f"l{uuid4().hex[:8]}"
    made = service.run("limits", "set", name, "--per=key", f"--only-for={name}", "--slots=0")
    assert made.code == 0
    service.submit("tests.cli.tasks:add", "--arg=1", f"--concurrency-key={name}")
    assert eventually(lambda: "1 that wait for a limit" in service.run("overview").out)
    assert service.run("limits", "delete", name).code == 0
    assert eventually(lambda: "wait for a limit" not in service.run("overview").out)


def test_what_cannot_be_a_state_or_a_fingerprint_is_refused_with_the_remedy(
    service: Service,
) -> None:
    ended = service.call("jobs", "--state", "failed,eaten")
    assert (ended.code, "'eaten' is not a state" in ended.err) == (2, True)
    assert "or unsuccessful" in ended.err
    ended = service.call("jobs", "--fingerprint", "boom")
    assert (ended.code, "fingerprint: 'boom' is none" in ended.err) == (2, True)
