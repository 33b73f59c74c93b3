"""`jobs`, `job`, `task` and `explain`: what they list, show and refuse."""

import json
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.conftest import Service
from tests.cli.program import eventually
from tests.cli.tasks import HOSTILE


def a_name() -> str:
    """Make a name that no other job begins with."""
    return f"n{uuid4().hex[:8]}"


def test_jobs_are_listed_newest_first_and_filtered(service: Service) -> None:
    name = a_name()
    ids = [
        service.submit("tests.cli.tasks:add", "--arg=1", f"--name={name}-{n}", f"--label=run={n}")
        for n in range(3)
    ]
    service.run("wait", *ids)
    listed = service.ask("jobs", "--name", name)
    assert [job["job_id"] for job in listed["jobs"]] == ids[::-1]
    assert {job["state"] for job in listed["jobs"]} == {"JOB_STATE_SUCCEEDED"}
    [labelled] = service.ask("jobs", "--name", name, "--label", "run=1")["jobs"]
    assert labelled["job_id"] == ids[1]
    assert service.ask("jobs", "--name", name, "--state", "failed")["jobs"] == []
    limited = service.ask("jobs", "--name", name, "--limit", "2")
    assert [job["job_id"] for job in limited["jobs"]] == ids[:0:-1]
    assert limited["next_page_token"]


def test_jobs_in_a_pipe_are_one_line_each(service: Service) -> None:
    name = a_name()
    job_id = service.submit_and_wait("tests.cli.tasks:add", "--arg=1", f"--name={name}")
    ended = service.run("jobs", "--name", name)
    title, row = ended.out.splitlines()
    assert title.split()[:4] == ["id", "job", "state", "tasks"]
    assert row.split()[:5] == [job_id, name, "succeeded", "1/1", "default"]
    assert (ended.code, ended.err) == (0, "")


def test_no_jobs_is_an_empty_answer_with_a_remark(service: Service) -> None:
    ended = service.run("jobs", "--name", a_name())
    assert (ended.code, ended.out, ended.err) == (0, "", "no jobs match\n")


def test_more_than_was_asked_for_is_remarked(service: Service) -> None:
    name = a_name()
    for _ in range(2):
        service.submit("tests.cli.tasks:add", "--arg=1", f"--name={name}")
    ended = service.run("jobs", "--name", name, "-n", "1")
    assert len(ended.out.splitlines()) == 2
    assert "there are more; --limit 2" in ended.err


def test_a_job_is_shown_with_its_tasks(service: Service, tmp_path: Path) -> None:
    inputs = tmp_path / "inputs"
    inputs.write_text('1\n"one"\n')
    job_id = service.submit("tests.cli.tasks:add", "--inputs", str(inputs), "--label=a=b")
    service.run("wait", job_id)
    shown = service.ask("job", job_id)
    assert shown["state"] == "JOB_STATE_DEAD_LETTERED"
    assert [task["state"] for task in shown["tasks"]] == [
        "TASK_STATE_SUCCEEDED",
        "TASK_STATE_DEAD_LETTERED",
    ]
    text = service.run("job", job_id).out
    assert text.startswith(f"Job {job_id}  add  dead_lettered\n")
    assert "\nlabels       a=b\n" in text
    assert "1 succeeded, 1 dead lettered" in text
    assert "\nfailures     1\n" in text
    assert shown["failure_count"] == 1
    assert text.splitlines()[-1].split()[:3] == [f"{job_id}.1", "dead_lettered", "1"]
    one = service.run("job", job_id, "--limit", "1")
    assert one.out.splitlines()[-1].split()[:2] == [f"{job_id}.0", "succeeded"]
    assert "there are 2 tasks" in one.err


def test_the_terms_of_a_job_are_shown(service: Service) -> None:
    terms = ("--unique", "--expires", "1h", "--delay", "10m")
    job_id = service.submit("tests.cli.tasks:add", f"--arg={uuid4().int}", *terms)
    text = service.run("job", job_id).out
    assert ", what nobody has started\n" in text
    assert "by all that it is called with, while pending or running; it holds its key " in text
    explained = service.run("explain", job_id).out
    assert "It expires if nobody has started it by " in explained
    assert "It holds key " in explained
    assert service.run("cancel", "--hard", job_id).code == 0
    assert "it has let go of its key" in service.run("job", job_id).out


def test_a_job_of_a_chain_says_for_whom_it_waits(service: Service) -> None:
    chain = a_name()
    idle = ("--queue=idle", f"--chain={chain}")
    first, second = (service.submit("tests.cli.tasks:add", "--arg=1", *idle) for _ in range(2))
    shown = service.run("job", second).out
    assert f"waits for job {first}, in chain {chain}" in shown
    assert " of 0 jobs" not in shown


def test_progress_is_shown_while_a_task_runs(service: Service) -> None:
    job_id = service.submit("tests.cli.tasks:wait_for_cancel")
    eventually(lambda: "50% half way" in service.run("task", job_id).out)
    assert "50% half way" in service.run("job", job_id).out
    assert service.run("cancel", "--hard", job_id).code == 0


def test_hostile_text_is_inert_wherever_it_is_shown(service: Service) -> None:
    name = f"{a_name()}\x1b[2J"
    message = json.dumps(HOSTILE)
    job_id = service.submit_and_wait("tests.cli.tasks:fail", f"--arg={message}", f"--name={name}")
    for command in (["jobs"], ["job", job_id], ["task", job_id], ["explain", job_id]):
        plain = service.run(*command).out
        assert "\\x1b[2J" in plain
        assert not set(plain) & {"\x1b", "\x07", "\u202e"}
        assert not set(service.run(*command, "--json").out) & {"\x1b", "\x07", "\u202e"}
        on_terminal = service.on_terminal(*command)
        assert "\\x1b[2J" in on_terminal
        assert "\x1b[2J" not in on_terminal
        assert not set(on_terminal) & {"\x07", "\u202e"}


def test_a_terminal_gets_the_states_in_their_colours(service: Service) -> None:
    job_id = service.submit_and_wait("tests.cli.tasks:add", "--arg=1")
    shown = service.on_terminal("job", job_id)
    assert "48;2;26;127;55m succeeded " in shown  # #1a7f37
    assert "\x1b" not in service.run("job", job_id).out


@pytest.mark.parametrize("command", ["job", "task", "explain", "logs"])
def test_what_does_not_exist_is_exit_code_1(service: Service, command: str) -> None:
    ended = service.run(command, "999999999" if command == "job" else "999999999.0")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("holdfast: there is no ")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["job", "x"],
        ["job", "1.0"],
        ["task", "1.0.0.0"],
        ["job", "../queues"],
        ["jobs", "--state", "perhaps"],
        ["jobs", "--label", "no-value"],
        ["jobs", "--limit", "0"],
        ["jobs", "--parent", "x"],
    ],
)
def test_what_cannot_be_asked_is_exit_code_2(service: Service, arguments: list[str]) -> None:
    ended = service.run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("holdfast: ")
    assert ended.err.count("\n") == 1


def test_a_job_says_what_undoes_it(service: Service) -> None:
    undo = "cat $HOLDFAST_INPUT_FILE"
    job_id = service.run("run", "-d", "--compensation", undo, "--", "false").out.strip()
    eventually(lambda: service.ask("job", job_id)["is_compensated"])
    undo_id = service.ask("job", job_id)["compensated_by"]
    assert f"\nundone by    {undo_id} (done)\n" in service.run("job", job_id).out
    assert f"\nundoes       {job_id}\n" in service.run("job", undo_id).out
    assert f'"job_id":"{job_id}"' in service.run("logs", f"{undo_id}.0").out
    assert "compensated" in service.run("events", job_id).out
