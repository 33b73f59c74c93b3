"""`logs`: read at once, or followed as they come."""

import base64
import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Service
from tests.cli.program import PROGRAM, SECONDS_MAX, environment, eventually, finish

HOSTILE_COMMAND = r"printf '\033[2Jred\a\rnext\377\n'"


def run_command(service: Service, command: str, *flags: str) -> str:
    """Run a shell line to its end; gives the job's id."""
    job_id = service.run("run", "--detach", *flags, "--", "sh", "-c", command).out.strip()
    assert service.run("wait", job_id).code in (0, 1)
    return job_id


def read_bytes(service: Service, *arguments: str) -> bytes:
    """Run a command through a pipe and take its output as it comes."""
    return subprocess.run(
        [PROGRAM, *arguments],
        env=environment(HOLDFAST_SERVER=service.url),
        capture_output=True,
        timeout=SECONDS_MAX,
        check=True,
    ).stdout


def test_the_log_of_a_task_is_what_it_wrote(service: Service) -> None:
    job_id = run_command(service, "echo out; echo err >&2; printf open")
    assert read_bytes(service, "logs", f"{job_id}.0") == b"out\nerr\nopen"
    assert read_bytes(service, "logs", job_id, "-f") == b"out\nerr\nopen"
    document = service.ask("logs", job_id)
    assert base64.b64decode(document["content"]) == b"out\nerr\nopen"
    assert (document["offset"], document["next_offset"]) == (0, 12)
    assert (document["attempt"], document["is_complete"]) == (0, True)


def test_the_last_lines_are_shown_and_followed_from(service: Service) -> None:
    job_id = run_command(service, "seq 5; printf open")
    assert read_bytes(service, "logs", job_id, "--tail", "2") == b"5\nopen"
    assert read_bytes(service, "logs", job_id, "--tail", "2", "-f") == b"5\nopen"
    assert read_bytes(service, "logs", job_id, "--tail", "99") == b"1\n2\n3\n4\n5\nopen"
    document = service.ask("logs", job_id, "--tail=2")
    assert (document["offset"], document["next_offset"]) == (8, 14)
    many = run_command(service, "echo first; echo $HOLDFAST_TASK_INDEX", "--replicas=2")
    for flags in ([], ["-f"]):
        lines = service.run("logs", many, "--tail=1", *flags).out.splitlines()
        assert sorted(lines) == ["[0] 0", "[1] 1"]
    for flags in (["--tail=0"], ["--tail=1", "--grep=x"]):
        refused = service.run("logs", job_id, *flags)
        assert (refused.code, refused.out) == (2, "")
        assert "--tail" in refused.err


def test_who_has_written_nothing_is_told_from_who_has_not_started(service: Service) -> None:
    silent = run_command(service, "true")
    for flags in ([], ["-f"], ["--attempt=0"]):
        shown = service.run("logs", silent, *flags)
        assert (shown.code, shown.out) == (0, "")
        assert shown.err == f"holdfast: attempt 0 of task {silent}.0 has written nothing\n"
    submit = ("submit", "no.such:function", "--queue=nobody")
    waiting = service.run(*submit).out.strip()
    shown = service.run("logs", waiting)
    assert (shown.code, shown.out) == (0, "")
    assert shown.err.startswith(f"holdfast: task {waiting}.0 has not started yet: ")
    assert service.run("cancel", waiting).code == 0
    shown = service.run("logs", waiting)
    assert (shown.code, "without being started" in shown.err) == (0, True)
    many = service.run(*submit, "--replicas=2").out.strip()
    assert service.run("logs", many).err == f"holdfast: no task of job {many} has started yet\n"


def test_each_attempt_has_its_own_log(service: Service) -> None:
    line = "echo attempt $HOLDFAST_ATTEMPT; test $HOLDFAST_ATTEMPT = 1"
    job_id = run_command(service, line, "--retries=1")
    assert read_bytes(service, "logs", f"{job_id}.0") == b"attempt 1\n"
    assert read_bytes(service, "logs", f"{job_id}.0", "--attempt=0") == b"attempt 0\n"
    assert read_bytes(service, "logs", f"{job_id}.0.0") == b"attempt 0\n"
    both = service.run("logs", f"{job_id}.0.0", "--attempt=1")
    assert (both.code, both.out) == (2, "")
    assert service.run("logs", f"{job_id}.0", "--attempt=7").code == 1


def test_raw_output_reaches_a_pipe_as_it_is_and_a_terminal_as_text(service: Service) -> None:
    job_id = run_command(service, HOSTILE_COMMAND)
    assert read_bytes(service, "logs", job_id) == b"\x1b[2Jred\x07\rnext\xff\n"
    for flags in ([], ["-f"]):
        shown = service.on_terminal("logs", job_id, *flags)
        assert shown == "\\x1b[2Jred\\x07\nnext\\xff\n"


def test_a_log_is_followed_while_it_is_written(service: Service) -> None:
    job_id = service.run("run", "-d", "--", "sh", "-c", "echo first; exec sleep 600").out.strip()
    following = service.start("logs", "-f", "--json", job_id)
    try:
        assert following.stdout is not None
        first = json.loads(following.stdout.readline())
        assert base64.b64decode(first["content"]) == b"first\n"
        assert first["is_complete"] is False
        assert service.run("cancel", "--hard", job_id).code == 0
        last = [json.loads(line) for line in following.stdout][-1]
        assert last["is_complete"] is True
        assert following.wait(SECONDS_MAX) == 0
    finally:
        following.kill()
        following.communicate()


def test_the_log_of_a_job_is_that_of_all_its_tasks(service: Service) -> None:
    line = "echo attempt $HOLDFAST_ATTEMPT; test $HOLDFAST_ATTEMPT = $HOLDFAST_TASK_INDEX"
    job_id = run_command(service, line, "--replicas=2", "--retries=1")
    latest = "[0] attempt 0\n[1] attempt 1\n"
    assert service.run("logs", job_id).out == latest
    followed = service.run("logs", job_id, "-f")
    assert sorted(followed.out.splitlines()) == latest.splitlines()
    assert (followed.code, followed.err) == (0, "")
    logs = service.ask("logs", job_id)["logs"]
    told = [(log["task_id"], base64.b64decode(log["content"])) for log in logs]
    assert told == [(f"{job_id}.0", b"attempt 0\n"), (f"{job_id}.1", b"attempt 1\n")]
    refused = service.run("logs", job_id, "--attempt=0")
    assert (refused.code, refused.out) == (2, "")
    assert "goes with one task" in refused.err


def test_a_task_is_followed_into_its_next_attempt(service: Service) -> None:
    line = "echo attempt $HOLDFAST_ATTEMPT; test $HOLDFAST_ATTEMPT = 1 || sleep 1; exit 1"
    job_id = service.run("run", "-d", "--retries=1", "--", "sh", "-c", line).out.strip()
    followed = service.run("logs", job_id, "-f")
    assert followed.out.endswith("attempt 1\n")
    assert followed.code == 0
    assert service.ask("job", job_id)["finished_at_ms"] is not None


def test_whoever_follows_late_is_told_how_the_first_attempts_ended(
    service: Service, tmp_path: Path
) -> None:
    wait = f"until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo done"
    line = f"[ $HOLDFAST_ATTEMPT = 1 ] || exit 7; {wait}"
    job_id = service.run("run", "-d", "--retries=1", "--", "sh", "-c", line).out.strip()
    eventually(lambda: service.ask("task", job_id)["current_attempt_id"] == 1)
    following = service.start("logs", "-f", job_id)
    assert following.stderr is not None
    assert following.stderr.readline() == "holdfast: attempt 0 has ended: failed: exit code 7\n"
    (tmp_path / "go").touch()
    assert finish(following).out == "done\n"


STAMP = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ")


def test_lines_are_shown_with_their_times(service: Service) -> None:
    job_id = run_command(service, "echo one; printf open")
    for flags in ([], ["-f"]):
        lines = service.run("logs", job_id, "-t", *flags).out.splitlines()
        assert [STAMP.sub("", line) for line in lines] == ["one", "open"]
        assert all(STAMP.match(line) for line in lines)
    many = run_command(service, "echo $HOLDFAST_TASK_INDEX", "--replicas=2")
    lines = service.run("logs", many, "--timestamps").out.splitlines()
    assert [STAMP.sub("", line) for line in lines] == ["[0] 0", "[1] 1"]
    [time] = service.ask("logs", job_id)["times"]
    assert time["offset"] == 0


def test_all_attempts_of_a_job_are_searched(service: Service) -> None:
    line = "echo try $HOLDFAST_ATTEMPT; echo other; test $HOLDFAST_ATTEMPT = $HOLDFAST_TASK_INDEX"
    job_id = run_command(service, line, "--replicas=2", "--retries=1")
    found = service.run("logs", job_id, "--grep", "try")
    assert (found.code, found.err) == (0, "")
    tries = [f"{job_id}.0.0: try 0", f"{job_id}.1.0: try 0", f"{job_id}.1.1: try 1"]
    assert sorted(found.out.splitlines()) == tries
    assert service.run("logs", f"{job_id}.1.1", "--grep", "try").out == f"{tries[2]}\n"
    assert len(service.run("logs", f"{job_id}.1", "--since", "10m").out.splitlines()) == 4
    nothing = service.run("logs", job_id, "--until", "10m")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "holdfast: no line matches\n")
    [first] = service.run("logs", job_id, "--since=10m", "-t", "--limit=1").out.splitlines()
    assert STAMP.match(first)
    limited = service.run("logs", job_id, "--since=10m", "--limit=1")
    assert "there are more" in limited.err
    document = service.ask("logs", f"{job_id}.1", "--attempt=1", "--grep=other")
    assert [(line["attempt"], line["text"]) for line in document["lines"]] == [(1, "other")]


def test_what_does_not_go_with_a_search_is_refused(service: Service) -> None:
    for arguments, problem in (
        (["-f", "--grep=x"], "goes without --grep"),
        (["--limit=3"], "goes with --grep"),
        (["--since=never"], "write 10m, 2h, 1d"),
        (["--grep=x", "--limit=0"], "ask for one at least"),
    ):
        refused = service.run("logs", "1", *arguments)
        assert (refused.code, refused.out) == (2, "")
        assert problem in refused.err
    assert service.run("logs", "999999999", "--grep=x").code == 1


def test_what_a_function_writes_is_its_log(service: Service) -> None:
    job_id = service.submit_and_wait("tests.cli.tasks:speak", '--arg="ann"')
    assert read_bytes(service, "logs", job_id) == b"hello ann\nINFO task: said rows=3\n"


@pytest.mark.parametrize("arguments", [["logs"], ["logs", "x"]])
def test_what_cannot_be_asked_is_exit_code_2(service: Service, arguments: list[str]) -> None:
    ended = service.run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
