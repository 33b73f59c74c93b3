"""`run`: a command elsewhere whose output, exit code and end are those of one here."""

import json
import re
import signal
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.conftest import Service
from tests.cli.program import SECONDS_MAX

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.1; done"


@pytest.mark.parametrize(
    ("command", "code"), [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -9 $$", 137)]
)
def test_the_exit_code_is_the_commands(service: Service, command: str, code: int) -> None:
    ended = service.run("run", "--", "sh", "-c", command)
    assert (ended.code, ended.out) == (code, "")
    assert (ended.err == "") == (code == 0)


def test_the_output_is_the_commands(service: Service) -> None:
    ended = service.run("run", "--", "sh", "-c", "echo out; sleep 0.5; echo err >&2; printf x")
    assert (ended.code, ended.out, ended.err) == (0, "out\nerr\nx", "")


def test_words_after_the_dashes_are_left_as_they_are(service: Service) -> None:
    ended = service.run("run", "--", "printf", "%s|", "--json", "a b", "", "$HOME", "--")
    assert (ended.code, ended.out) == (0, "--json|a b||$HOME|--|")


def test_variables_and_name_reach_the_job(service: Service) -> None:
    name = f"n{uuid4().hex[:8]}"
    ended = service.run(
        "run", "--env", "A=1", "--env", "B=x=y", "--name", name, "--", "sh", "-c", "echo $A $B"
    )
    assert (ended.code, ended.out) == (0, "1 x=y\n")
    [job] = service.ask("jobs", "--name", name)["jobs"]
    assert job["state"] == "JOB_STATE_SUCCEEDED"


def test_every_attempt_is_followed(service: Service) -> None:
    command = "echo attempt $HOLDFAST_ATTEMPT; test $HOLDFAST_ATTEMPT = 2"
    ended = service.run("run", "--retries=2", "--", "sh", "-c", command)
    assert (ended.code, ended.out) == (0, "attempt 0\nattempt 1\nattempt 2\n")
    # On a slow machine it says what it waits for, too.
    assert [line for line in ended.err.splitlines() if " waits: " not in line] == [
        "holdfast: attempt 0 has ended: failed: exit code 1",
        "holdfast: attempt 1 begins",
        "holdfast: attempt 1 has ended: failed: exit code 1",
        "holdfast: attempt 2 begins",
    ]


def test_who_waits_for_a_failure_leaves_no_dead_letter(service: Service) -> None:
    name = f"n{uuid4().hex[:8]}"
    assert service.run("run", "--name", name, "--", "false").code == 1
    assert service.ask("dead-letters", "--type", name)["dead_letters"] == []


def test_a_timeout_ends_the_command(service: Service) -> None:
    ended = service.run("run", "--timeout=0.5", "--", "sleep", "600")
    assert ended.code not in (0, 2)
    assert "holdfast: job" in ended.err


def test_detached_it_writes_the_id_and_leaves(service: Service) -> None:
    ended = service.run("run", "--detach", "--", "true")
    assert (ended.code, ended.err) == (0, "")
    assert service.run("wait", ended.out.strip()).code == 0
    answer = json.loads(service.run("run", "-d", "--json", "--", "true").out)
    assert (answer["num_tasks"], answer["is_new"]) == (1, True)


def await_line(process: subprocess.Popen[str], text: str) -> None:
    """Read what a program writes up to a line."""
    assert process.stdout is not None
    assert process.stdout.readline() == f"{text}\n"


def test_an_interrupt_lets_the_command_end_by_itself(service: Service) -> None:
    command = "trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.1; done"
    process = service.start("run", "--", "sh", "-c", command)
    await_line(process, "ready")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS_MAX)
    assert out.splitlines()[-1] == "bye"
    assert process.returncode == 130
    assert "is asked to stop" in err
    assert "is killed: interrupted" in err


def test_the_second_interrupt_stops_it_at_once(service: Service) -> None:
    process = service.start("run", "--", "sh", "-c", STUBBORN)
    await_line(process, "ready")
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    assert "is asked to stop" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS_MAX)
    assert "is stopped at once" in err
    assert process.returncode == 130


def test_the_third_interrupt_leaves(service: Service) -> None:
    process = service.start("run", "--", "sh", "-c", STUBBORN)
    await_line(process, "ready")
    assert process.stderr is not None
    for words in ("is asked to stop", "is stopped at once"):
        process.send_signal(signal.SIGINT)
        assert words in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 130


def test_a_request_to_terminate_is_an_interrupt_too(service: Service) -> None:
    process = service.start("run", "--", "sh", "-c", "echo ready; exec sleep 600")
    await_line(process, "ready")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=SECONDS_MAX)
    assert "is asked to stop" in err
    assert process.returncode != 0


def test_a_command_that_nobody_has_begun_is_cancelled_too(service: Service) -> None:
    queue = f"q{uuid4().hex[:8]}"
    process = service.start("run", f"--queue={queue}", "--", "true")
    assert process.stderr is not None
    assert f"no worker serves queue {queue}" in process.stderr.readline()  # it follows the job
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 130
    assert "is killed: interrupted" in err


def test_lines_of_several_tasks_begin_with_their_task(service: Service) -> None:
    command = "echo task $HOLDFAST_TASK_INDEX; printf open"
    ended = service.run("run", "--replicas=2", "--", "sh", "-c", command)
    assert (ended.code, ended.err) == (0, "")
    lines = sorted(ended.out.splitlines())
    assert lines == ["[0] open", "[0] task 0", "[1] open", "[1] task 1"]
    assert service.run("run", "--replicas=2", "--", "sh", "-c", "exit 3").code == 3


def test_an_interrupt_reaches_all_tasks(service: Service) -> None:
    command = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done"
    process = service.start("run", "--replicas=2", "--", "sh", "-c", command)
    assert process.stdout is not None
    assert {process.stdout.readline() for _ in range(2)} == {"[0] ready\n", "[1] ready\n"}
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 130
    assert "is killed: interrupted" in err


def test_a_gang_is_run_like_a_command_and_begins_again_together(
    cluster: Service, tmp_path: Path
) -> None:
    (tmp_path / "train.sh").write_text(
        "echo $WHO $HOLDFAST_ATTEMPT of $HOLDFAST_NUM_TASKS ${HOLDFAST_GANG_ADDRESS:+meets}\n"
        "if [ $HOLDFAST_ATTEMPT = 1 ]; then exit 0; fi\n"
        "if [ $HOLDFAST_TASK_INDEX = 1 ]; then exit 7; fi\n"
        "exec sleep 600\n"
    )
    needs = ("--cpu=1", "--memory=64MB", "--disk=1MB", "--gpu=1:H100", "--port=http")
    where = ("--constraint=region=eu", "--constraint=nvme exists", "--group-by=rack")
    job = ("--replicas=2", "--gang", "--retries=1", "--env=WHO=me", f"--workspace={tmp_path}")
    ended = cluster.run("run", *needs, *where, *job, "--", "sh", "train.sh")
    assert ended.code == 0, ended.err
    lines = set(ended.out.splitlines())
    assert {"[0] me 1 of 2 meets", "[1] me 0 of 2 meets", "[1] me 1 of 2 meets"} <= lines
    remarks = [line.partition(", ")[2] for line in ended.err.splitlines()]
    begins = [text for text in remarks if text == "attempt 1 begins"]
    ends = [text for text in remarks if text.startswith("attempt 0 has ended: ")]
    assert (len(begins), len(ends)) == (2, 2)
    assert "attempt 0 has ended: failed: exit code 7" in ends


def test_work_that_nobody_can_take_ends_with_what_was_lacking(cluster: Service) -> None:
    ended = cluster.run("run", "--gpu=9", "--scheduling-timeout=1", "--", "true")
    assert ended.code == 1
    lacks = r"within its scheduling timeout of 1 s: .* gpu \(need 9, most free \d\); could never"
    assert re.search(rf"job \d+ is unschedulable: .*{lacks}", ended.err)


def test_hostile_output_does_not_steer_the_terminal(service: Service) -> None:
    shown = service.on_terminal("run", "--", "printf", r"\033[2J\n")
    assert shown == "\\x1b[2J\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "COMMAND: is missing"),
        (["--json", "--", "true"], "goes with --detach"),
        (["--env", "A", "--", "true"], "is no pair"),
        (["--queue", "not a queue", "--", "true"], "is not a queue name"),
        (["--queue", "q", "--gpu", "1", "--", "true"], "gpu: is for placed work"),
        (["--memory", "much", "--", "true"], "memory: 'much' is not a size"),
        (["--memory", "4", "--", "true"], "memory: 4 has no unit; write 4GB, or 4B for bytes"),
        (["--cpu", "-1", "--", "true"], "cpu"),
        (["--workspace", "nowhere", "--", "true"], "workspace: nowhere is not a folder"),
        (["--", ""], "entrypoint.command"),
        (["--frobnicate", "--", "true"], "--frobnicate"),
    ],
)
def test_what_cannot_be_run_is_refused(
    service: Service, arguments: list[str], problem: str
) -> None:
    ended = service.run("run", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert ended.err.count("\n") == 1
