"""A stream whose reader has gone keeps no command from its work, nor from ending when asked."""

import signal
import subprocess
from pathlib import Path

import pytest

from holdfast.cli.app import COMMANDS
from tests.cli.conftest import Service
from tests.cli.program import PROGRAM, SECONDS_MAX, Ended, environment, run, run_unread

EXIT_UNREAD = 128 + signal.SIGPIPE
OUT, ERR = 1, 2
QUIET = Ended(EXIT_UNREAD, "", "")
URL = "postgresql://nobody@127.0.0.1:1/none"
WRITES = [
    *(["jobs"], ["jobs", "--json"], ["job", "JOB"], ["task", "JOB.0"], ["graph", "JOB"]),
    *(["logs", "JOB"], ["logs", "JOB", "-f"], ["events", "JOB"], ["events"], ["explain", "JOB.0"]),
    *(["wait", "JOB"], ["queues"], ["types"], ["workers"], ["overview"]),
    # Where there may be none, only JSON writes anything.
    *([name, "--json"] for name in ("dead-letters", "datasets", "endpoints", "actions")),
    *(["functions", "--json"], ["tokens", "list", "--json"]),
    *([name, "list", "--json"] for name in ("limits", "shares", "schedules")),
    *(["rerun", "JOB"], ["resume", "FAILED"], ["signal", "WAITING", "go"]),
    ["cancel", "WAITING"],
    *(
        ["audit", "--json", "--database-url", "DATABASE"],
        ["db", "status", "--database-url", "DATABASE"],
    ),
    ["ca", "init", "FOLDER"],
    *(["top", "--once"], ["config", "show"]),
]
# In tests of their own, here and in tests/demo; `event` and `endpoint` speak for a running task,
# the exit code of `doctor` for what it has found on the Postgres of these tests, and `pass` needs a
# chain that is blocked.
ELSEWHERE = {
    "up",
    "server",
    "worker",
    "demo",
    "run",
    "submit",
    "event",
    "endpoint",
    "doctor",
    "pass",
}


@pytest.fixture(scope="module")
def job_id(service: Service) -> str:
    """A job that has written something."""
    return finish_command(service, "echo", "hello")


def submit_command(service: Service, *command: str, queue: str = "default") -> str:
    """Submit a command; gives the job's id."""
    return service.run("submit", "--queue", queue, "--", *command).out.strip()


def finish_command(service: Service, *command: str, code: int = 0) -> str:
    """Submit a command and wait for its end."""
    job_id = submit_command(service, *command)
    assert service.call("wait", job_id).code == code
    return job_id


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["jobs", "--help"]])
def test_help_that_is_read_in_part_is_no_failure(arguments: list[str]) -> None:
    assert run_unread(OUT, *arguments) == Ended(0, "", "")


@pytest.mark.nightly
def test_every_command_ends_quietly(
    service: Service, job_id: str, database_url: str, tmp_path: Path
) -> None:
    names = {
        "JOB": job_id,
        "FAILED": finish_command(service, "false", code=1),
        "WAITING": submit_command(service, "true", queue="unserved"),
        "DATABASE": database_url,
        "FOLDER": str(tmp_path / "ca"),
    }
    for arguments in WRITES:
        given = [_replace(word, names) for word in arguments]
        ended = run_unread(OUT, *given, HOLDFAST_SERVER=service.url)
        assert (arguments, ended) == (arguments, QUIET)


def _replace(word: str, names: dict[str, str]) -> str:
    head, dot, tail = word.partition(".")
    return f"{names.get(head, head)}{dot}{tail}"


def test_no_command_is_forgotten() -> None:
    known = {name for commands in COMMANDS.values() for name, *_ in commands}
    assert {arguments[0] for arguments in WRITES} | ELSEWHERE == known


def test_remarks_that_nobody_reads_are_not_missed(service: Service) -> None:
    ended = run_unread(ERR, "run", "--", "sh", "-c", "echo so; exit 3", HOLDFAST_SERVER=service.url)
    assert ended == Ended(3, "so\n", "")


@pytest.mark.parametrize("arguments", [["submit"], ["run", "-d"]], ids=" ".join)
def test_what_was_submitted_is_submitted(service: Service, arguments: list[str]) -> None:
    flags = [*arguments, f"--name=unread-{arguments[0]}", "--", "true"]
    assert run_unread(OUT, *flags, HOLDFAST_SERVER=service.url) == QUIET
    [job] = service.ask("jobs", "--name", f"unread-{arguments[0]}")["jobs"]
    assert service.call("wait", job["job_id"]).code == 0


def test_of_a_command_that_goes_on_unread_is_said_how_it_goes_on(service: Service) -> None:
    flags = ["run", "--name=unread-yes", "--", "sh", "-c", "while echo y; do sleep 0.1; done"]
    ended = run_unread(OUT, *flags, HOLDFAST_SERVER=service.url)
    [job] = service.ask("jobs", "--name", "unread-yes")["jobs"]
    service.call("cancel", job["job_id"], "--hard")
    words = f"nobody reads its output any more; job {job['job_id']} goes on"
    assert ended == Ended(EXIT_UNREAD, "", f"holdfast: {words}\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["frobnicate"], 2),
        (["job", "999999999"], 1),
        (["audit", "--database-url", URL], 2),
        (["worker", "--concurrency=0"], 2),
    ],
)
def test_a_refusal_that_nobody_reads_is_still_one(
    service: Service, arguments: list[str], code: int
) -> None:
    assert run_unread(ERR, *arguments, HOLDFAST_SERVER=service.url) == Ended(code, "", "")


def test_a_refusal_is_one_also_where_both_streams_are_closed() -> None:
    script = 'exec "$0" jobs --limit=0 >&- 2>&-'
    assert subprocess.run(["sh", "-c", script, PROGRAM], check=False).returncode == 2


def start_read(*arguments: str, **variables: str) -> subprocess.Popen[bytes]:
    """Start a command that writes all of what it says into one pipe, as for `tee`."""
    return subprocess.Popen(
        [PROGRAM, *arguments],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def break_after_a_line(process: subprocess.Popen[bytes]) -> None:
    """Read what a command says first, and no more: so it is when Ctrl-C has ended `tee`."""
    assert process.stdout is not None
    assert process.stdout.readline(), "it has ended before it wrote a line"
    process.stdout.close()


def test_what_runs_for_long_ends_when_it_is_asked_to(
    service: Service, job_id: str, database_url: str, tmp_path: Path
) -> None:
    where = {"HOLDFAST_SERVER": service.url, "HOLDFAST_WORKER_DIR": str(tmp_path)}
    running = submit_command(service, "sh", "-c", "echo begun; exec sleep 600")
    started = {
        "server": start_read("server", "--port=0", HOLDFAST_DATABASE_URL=database_url),
        "worker": start_read("worker", "--queue=nothing", "--allow-commands", **where),
        "run": start_read("run", "--", "sh", "-c", "echo begun; exec sleep 600", **where),
        # The first line that it writes is about one that has ended.
        "wait": start_read("wait", job_id, running, **where),
        "logs -f": start_read("logs", "-f", running, **where),
        "events -f": start_read("events", "-f", running, **where),
    }
    for process in started.values():
        break_after_a_line(process)
    for process in started.values():
        process.send_signal(signal.SIGINT)
    codes = {name: process.wait(SECONDS_MAX) for name, process in started.items()}
    assert run("cancel", running, "--hard", HOLDFAST_SERVER=service.url).code == 0
    assert codes == {"server": 0, "worker": 0} | dict.fromkeys(
        ("run", "wait", "logs -f", "events -f"), 128 + signal.SIGINT
    )
