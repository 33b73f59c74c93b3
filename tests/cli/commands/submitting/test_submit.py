"""`submit`: a function or a whole spec goes in, the job's id comes out."""

import getpass
import json
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.conftest import Service
from tests.cli.program import run_with_input


def result_of(service: Service, job_id: str) -> str:
    """Wait for a job and say how it ended."""
    assert service.run("wait", job_id).code == 0
    state: str = service.ask("job", job_id)["state"]
    return state


def test_a_function_is_submitted_with_its_arguments(service: Service) -> None:
    job_id = service.submit("tests.cli.tasks:add", "--arg", "-1", "--kwarg", "b=5", "--priority=7")
    assert result_of(service, job_id) == "JOB_STATE_SUCCEEDED"
    job = service.ask("job", job_id)
    assert job["spec"]["entrypoint"] == {
        "function": "tests.cli.tasks:add",
        "args": [-1],
        "kwargs": {"b": 5},
    }
    assert job["priority"] == 7


def test_it_has_an_owner_and_may_start_later(service: Service) -> None:
    late = service.submit("--owner=ada", "--delay=1h", "tests.cli.tasks:add", "--arg=1")
    later = service.submit("--at=2100-01-01T00:00", "tests.cli.tasks:add", "--arg=1")
    assert [service.ask("job", each)["owner"] for each in (late, later)] == [
        "ada",
        getpass.getuser(),
    ]
    for job_id, words in (
        (late, "not in line yet: the next of its job at "),
        (later, "not before "),
    ):
        assert service.ask("task", f"{job_id}.0")["pending_reason"].startswith(words)
        assert service.call("cancel", job_id).code == 0


def test_each_line_of_a_file_is_a_task(service: Service) -> None:
    ended = run_with_input(
        "1\n2\n3\n",
        *("submit", "tests.cli.tasks:add", "--inputs", "-", "--json"),
        HOLDFAST_SERVER=service.url,
    )
    answer = json.loads(ended.out)
    assert (answer["num_tasks"], answer["is_new"]) == (3, True)
    assert result_of(service, answer["job_id"]) == "JOB_STATE_SUCCEEDED"


def test_a_whole_spec_is_submitted_from_a_file_or_a_pipe(service: Service, tmp_path: Path) -> None:
    spec = {"entrypoint": {"shell": "exit 0"}, "queue": "default", "inputs": [1, 2]}
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(spec))
    assert result_of(service, service.submit("--spec", str(path))) == "JOB_STATE_SUCCEEDED"
    toml = 'queue = "default"\nname = "from-toml"\nentrypoint = {command = ["true"]}\n'
    ended = run_with_input(toml, "submit", "--spec", "-", HOLDFAST_SERVER=service.url)
    assert ended.code == 0
    assert service.ask("job", ended.out.strip())["name"] == "from-toml"


def test_the_same_key_is_the_same_job_and_another_spec_under_it_is_refused(
    service: Service,
) -> None:
    key = f"--key={uuid4().hex}"
    first = service.run("submit", "tests.cli.tasks:add", "--arg=1", key)
    again = service.run("submit", "tests.cli.tasks:add", "--arg=1", key)
    assert (again.code, again.out) == (0, first.out)
    assert "its key was seen before" in again.err
    other = service.run("submit", "tests.cli.tasks:add", "--arg=2", key)
    assert (other.code, other.out) == (1, "")
    assert "with a different spec" in other.err


def test_a_command_is_submitted_like_a_function(service: Service) -> None:
    ended = service.run("submit", "--env=A=b", "--", "sh", "-c", "echo $A --x", "m:f")
    assert (ended.code, ended.err) == (0, "")
    assert service.run("logs", "-f", ended.out.strip()).out == "b --x\n"
    assert service.run("submit", "--", "true").code == 0


def test_with_a_queue_it_is_claimed_by_who_has_what_it_needs(service: Service) -> None:
    needs = ("--queue=default", "--cpu=0.5", "--memory=1MB")
    job_id = service.submit_and_wait("tests.cli.tasks:add", "--arg=1", *needs)
    shown = service.run("job", job_id).out
    assert "\nneeds        0.5 cpu, 1MB memory\n" in shown
    assert "\nqueue        default\n" in shown
    refused = service.run("submit", "tests.cli.tasks:add", "--queue=default", "--cpu=-1")
    assert (refused.code, "resources.cpu" in refused.err) == (2, True)


def test_a_function_is_placed_if_it_needs_something(cluster: Service) -> None:
    job_id = cluster.submit_and_wait("tests.cli.tasks:add", "--arg=1", "--cpu=1", "--memory=64MB")
    job = cluster.ask("job", job_id)
    assert (job["state"], job["queue"]) == ("JOB_STATE_SUCCEEDED", None)
    assert "\nneeds        1 cpu, 64MB memory\n" in cluster.run("job", job_id).out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "give a function, a command, --spec or --graph"),
        (["m:f", "--spec", "x"], "give a function, a command, --spec or --graph"),
        (["--spec", "x", "--queue", "q"], "no other flag than --inputs"),
        (["--spec", "x", "--arg", "1"], "no other flag than --inputs"),
        (["--spec", "x", "--gang"], "no other flag than --inputs"),
        (["m:f", "--queue", "q", "--gpu", "1"], "gpu: is for placed work"),
        (["m:f", "--arg", "red"], "is not JSON"),
        (["m:f", "--kwarg", "red"], "is no pair"),
        (["m:f", "--env", "red"], "is no pair"),
        (["m:f", "--inputs", "/no/such/file"], "cannot be read"),
        (["m:f", "x"], "a function's arguments are given with --arg"),
        (["m.f"], "'m.f' has no colon"),
        (["--arg", "1", "--", "echo"], "arg: goes with a function"),
        (["f:1"], "entrypoint.function"),
        (["--", ""], "entrypoint.command"),
        (["m:f", "--queue", "not a queue"], "queue"),
        (["m:f", "--retries", "-1"], "max_retries_failure"),
        (["m:f", "--retries", "x"], "--retries"),
        (["m:f", "--timeout", "0"], "timeout"),
    ],
)
def test_what_cannot_be_submitted_is_refused_with_its_field(
    service: Service, arguments: list[str], problem: str
) -> None:
    ended = service.run("submit", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert ended.err.count("\n") == 1


def test_inputs_are_given_in_one_place(service: Service, tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text('{"entrypoint": {"shell": "exit 0"}, "inputs": [1]}')
    inputs = tmp_path / "inputs"
    inputs.write_text("1\n")
    ended = service.run("submit", "--spec", str(spec), "--inputs", str(inputs))
    assert (ended.code, ended.out) == (2, "")
    assert "give them in one place" in ended.err
