"""`up`: everything on one machine starts, works, and ends in order with nothing left behind."""

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import holdfast as hf
from holdfast.cli.shares import share_machine
from holdfast.cli.supervisor import REPEAT_SECONDS
from holdfast.embedded import EmbeddedPostgres
from holdfast.worker.exit_codes import EXIT_OVERRUN, EXIT_UNSTOPPABLE
from holdfast.worker.placed.host_resources import find_capacity
from tests.cli.conftest import Service
from tests.cli.program import SECONDS_MAX, bounded, eventually, run, start
from tests.cli.tasks import block_once
from tests.cli.test_target import processes_of
from tests.conftest import run_sql


class Up:
    """A running `holdfast up`."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.process = bounded(
            start(
                *("up", "--port=0", f"--data-dir={folder / 'own'}", *flags),
                HOLDFAST_WORKER_DIR=str(folder / "workers"),
                HOLDFAST_LEASE_MIN="1",
            )
        )
        self.said: list[str] = []

    def wait_until_up(self) -> Service:
        """Read what it says, up to where the server is."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if line.startswith("try"):
                break
        [url] = [line.split()[1] for line in self.said if line.startswith("server")]
        return Service(url, self.folder)

    def children(self, command: str) -> list[psutil.Process]:
        """List its children that run a command."""
        found = []
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess):  # or a zombie, which is one of these
                found += [child] if command in child.cmdline() else []
        return found

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Ask it to end; gives its exit code and what it said on the way."""
        os.kill(self.process.pid, number)
        _, err = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, err

    def read_remark(self) -> str:
        """Read the next line that it says beside its answer."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def read_until(self, wanted: str) -> None:
        """Read what it says beside its answer, up to a line with certain words."""
        while wanted not in (line := self.read_remark()):
            assert line, "it has ended"

    def end_unread(self, number: signal.Signals) -> int:
        """Ask it to end when whoever has read what it says is gone; gives its exit code."""
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        os.kill(self.process.pid, number)
        return self.process.wait(SECONDS_MAX)


_started: list[Up] = []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in whose name nothing runs any more when the test is over."""
    yield tmp_path
    while _started:
        up = _started.pop()
        up.process.kill()
        up.process.communicate()
    eventually(lambda: not processes_of(tmp_path))


def is_alive(process: psutil.Process) -> bool:
    """Tell whether a process has not ended, reaped or not."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def start_up(folder: Path, *flags: str) -> tuple[Up, Service]:
    """Start it, and wait until it is up."""
    up = Up(folder, *flags)
    _started.append(up)
    return up, up.wait_until_up()


PASSED_ON = ("--allowed-host=a.b", "--heartbeat-timeout-seconds=90")


def test_it_starts_runs_work_and_ends_with_nothing_left(folder: Path) -> None:
    up, service = start_up(folder, "--workers=2", "--import=tests.cli.tasks", *PASSED_ON)
    living = psutil.Process(up.process.pid).children(recursive=True)
    workers = up.children("worker")
    assert ["--heartbeat-timeout-seconds=90.0" in each.cmdline() for each in workers] == [True] * 2
    assert "--allowed-host=a.b" in up.children("server")[0].cmdline()
    assert service.run("run", "--", "echo", "hello").out == "hello\n"
    placed = service.run("run", "--cpu=1", "--gang", "--replicas=2", "--", "echo", "hello")
    assert sorted(placed.out.splitlines()) == ["[0] hello", "[1] hello"]
    names = [worker["name"] for worker in service.ask("workers")["workers"] if worker["placed"]]
    assert sorted(names) == ["worker-1", "worker-2"]
    service.submit_and_wait("tests.cli.tasks:add", "--arg=1")
    second = run("up", "--port=0", f"--data-dir={folder / 'own'}")
    assert (second.code, second.out) == (2, "")
    holder = f"pid {up.process.pid}, serving at {service.url}. Use that one"
    assert f"Another `holdfast up` has the folder {folder / 'own'}: {holder}" in second.err
    assert f"dashboard  {service.url}/\n" in up.said
    code, err = up.end(signal.SIGINT)
    assert code == 0
    assert err.splitlines()[-1] == "holdfast: everything has ended"
    eventually(lambda: not any(child.is_running() for child in living))


def test_it_takes_a_postgres_that_is_named(folder: Path, database_url: str) -> None:
    named = database_url.replace("postgres@", "postgres:secret@")
    up, service = start_up(folder, "--no-worker", f"--database-url={named}")
    assert service.ask("jobs")["jobs"] == []
    assert f"database   {database_url}\n" in up.said
    assert not (folder / "own" / "cluster").exists()
    second = run("up", "--port=0", f"--data-dir={folder / 'own'}", f"--database-url={named}")
    assert f"pid {up.process.pid}, serving at {service.url}. Use that one" in second.err
    code, err = up.end(signal.SIGTERM)
    assert (code, "secret" in err) == (0, False)


@pytest.mark.nightly
def test_what_it_says_can_be_typed(folder: Path) -> None:
    up, service = start_up(folder, "--queue=mail", "--queue=other")
    text = "".join(up.said)
    assert text.startswith("Holdfast is up.\n")
    assert f"try        HOLDFAST_SERVER={service.url} holdfast run --queue mail -- echo" in text
    assert "workers    1 on mail, other and for placed work, with " in text
    assert up.end(signal.SIGTERM)[0] == 0


@pytest.mark.nightly
def test_workers_are_drained_before_the_server_goes(folder: Path) -> None:
    up, service = start_up(folder)
    ended = service.run("run", "-d", "--", "sh", "-c", "sleep 2; echo done")
    job_id = ended.out.strip()
    eventually(lambda: service.ask("job", job_id)["state"] == "JOB_STATE_RUNNING")
    code, err = up.end(signal.SIGTERM)
    assert code == 0
    assert "draining" in err
    up, service = start_up(folder, "--no-worker")
    assert up.children("worker") == []
    assert service.ask("job", job_id)["state"] == "JOB_STATE_SUCCEEDED"
    assert service.run("logs", job_id).out == "done\n"
    [address] = [line.split()[1] for line in up.said if line.startswith("database")]
    asyncio.run(run_sql(address, "select from holdfast.jobs"))
    assert up.end(signal.SIGTERM)[0] == 0


@pytest.mark.nightly
def test_a_second_request_hands_back_what_still_runs(folder: Path) -> None:
    up, service = start_up(folder, "--drain-seconds=600")
    job_id = service.run("run", "-d", "--", "sleep", "600").out.strip()
    eventually(lambda: service.ask("job", job_id)["state"] == "JOB_STATE_RUNNING")
    [worker] = up.children("worker")
    os.kill(up.process.pid, signal.SIGINT)
    asked_at = time.monotonic()
    assert up.process.stderr is not None
    lines = iter(up.process.stderr)
    assert any("attempts still run" in line for line in lines)
    assert worker.is_running()
    # What comes sooner is taken for the first request, which reaches a worker by two ways.
    eventually(lambda: time.monotonic() - asked_at > REPEAT_SECONDS)
    assert up.end(signal.SIGINT)[0] == 0


@pytest.mark.nightly
def test_without_its_server_it_says_so_and_ends(folder: Path) -> None:
    up, _ = start_up(folder)
    [server] = up.children("server")
    server.kill()
    _, err = up.process.communicate(timeout=SECONDS_MAX)
    assert up.process.returncode == 1
    assert "holdfast: the server has ended with code -9" in err


@pytest.mark.nightly
def test_without_its_last_worker_it_says_so_and_ends(folder: Path) -> None:
    up, service = start_up(folder, "--workers=2")
    *others, last = up.children("worker")
    for other in others:
        other.terminate()
    eventually(lambda: not any(map(is_alive, others)))
    assert service.run("queues").code == 0
    last.terminate()
    _, err = up.process.communicate(timeout=SECONDS_MAX)
    assert up.process.returncode == 1
    for name in ("worker 1", "worker 2"):
        assert f"holdfast: {name} has ended with code" in err


@pytest.mark.nightly
def test_a_worker_that_ended_itself_to_keep_a_lease_is_started_again(folder: Path) -> None:
    up, service = start_up(folder, "--workers=1", "--import=tests.cli.tasks")
    [supervisor] = up.children("worker")
    [worker] = eventually(supervisor.children)
    with hf.Client(service.url, patience=60) as client:
        job = client.submit(block_once, str(folder / "marker"))
        eventually((folder / "marker").exists)
        [server] = up.children("server")
        server.suspend()  # so that the lease cannot be renewed, and its function cannot be stopped
        eventually(lambda: not is_alive(worker))
        server.resume()
        job.result(timeout=SECONDS_MAX)
    assert up.children("worker") == [supervisor]
    code, err = up.end(signal.SIGTERM)
    assert code == 0
    assert re.search(
        # By itself or, where that takes it too long, by its watchdog.
        f"process has ended: (exit code ({EXIT_OVERRUN}|{EXIT_UNSTOPPABLE})|killed by its watchdog"
        ".*), while it ran task .*; it is started again",
        err,
    )


@pytest.mark.nightly
def test_what_was_killed_is_started_again_whatever_goes_wrong_with_that(folder: Path) -> None:
    up, service = start_up(folder)
    postgres = EmbeddedPostgres(folder / "own")
    killed = psutil.Process(postgres.pid)
    killed.kill()
    eventually(lambda: not is_alive(killed) and postgres.is_running)
    assert service.run("run", "--", "echo", "hello").out == "hello\n"
    up.read_until("holdfast: Postgres has ended, and is started again")
    version = folder / "own" / "cluster" / "PG_VERSION"
    good = version.read_bytes()
    version.write_bytes(b"\xff")
    psutil.Process(postgres.pid).kill()
    up.read_until("UnicodeDecodeError")
    version.write_bytes(good)
    eventually(lambda: postgres.is_running)
    eventually(lambda: service.run("queues").code == 0)
    workers = up.children("worker")
    for worker in workers:
        worker.kill()
    eventually(lambda: not any(map(is_alive, workers)))
    for flags in ([], ["--cpu=1"]):
        assert service.run("run", *flags, "--", "echo", "hello").out == "hello\n"
    code, err = up.end(signal.SIGTERM)
    assert code == 0
    assert err.count("the worker is started again") == len(workers)
    assert "holdfast: everything has ended" in err


@pytest.mark.nightly
def test_a_postgres_that_dies_before_the_server_serves_is_started_again(folder: Path) -> None:
    up = Up(folder)
    _started.append(up)
    [server] = eventually(lambda: up.children("server"))
    server.suspend()
    postgres = EmbeddedPostgres(folder / "own")
    killed = psutil.Process(postgres.pid)
    killed.kill()
    eventually(lambda: not is_alive(killed) and postgres.is_running)
    with postgres:  # which waits until it is ready
        server.resume()
        assert up.wait_until_up().run("queues").code == 0
    assert up.end(signal.SIGTERM)[0] == 0


@pytest.mark.nightly
def test_a_kill_leaves_no_server_and_no_worker(folder: Path) -> None:
    up, _ = start_up(folder)
    living = [*up.children("server"), *up.children("worker")]
    up.process.kill()
    up.process.communicate()
    eventually(lambda: not any(child.is_running() for child in living))
    # The next one takes over the Postgres that is left, and stops it in the end: also when nobody
    # reads what it says any more, as with `up 2>&1 | tee up.log`, where Ctrl-C ends `tee` first.
    again, _ = start_up(folder)
    assert again.read_remark() == f"holdfast: joining the Postgres in {folder / 'own'}\n"
    assert again.end_unread(signal.SIGINT) == 0


def test_a_port_that_is_taken_ends_it_with_the_reason(folder: Path, service: Service) -> None:
    port = service.url.rpartition(":")[2]
    own = folder / "own"
    ended = run("up", f"--port={port}", f"--data-dir={own}")
    assert (ended.code, ended.out) == (2, "")
    assert f"cannot listen on 127.0.0.1:{port}" in ended.err
    assert "the server did not start" in ended.err


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--workers=-1"], "workers: is -1"),
        (["--concurrency=0"], "concurrency: is 0"),
        (["--heartbeat-timeout-seconds=0"], "heartbeat_timeout_seconds: is 0; use 1"),
        (["--queue=opts ünï"], "queue: 'opts ünï' is not a queue name; use letters, digits and"),
        (["--port=x"], "--port"),
        (["--allowed-host=https://x"], "allowed_host: 'https://x' is no host"),
        (["stray"], "stray"),
        (["--import=no_such_tasks"], "--import: 'no_such_tasks' cannot be imported: ModuleNotF"),
        (["--database-url=postgresql://me:top/secret@host/db"], "--database-url or HOLDFAST_"),
    ],
)
def test_what_cannot_be_started_is_refused_before_anything_is(
    folder: Path, flags: list[str], problem: str
) -> None:
    ended = run("up", f"--data-dir={folder / 'own'}", *flags)
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert not (folder / "own").exists()


@pytest.mark.nightly
def test_tasks_of_queues_take_no_more_than_the_machine_has(folder: Path) -> None:
    whole = find_capacity(folder)
    need = max(1, int(whole.cpu) // 3)
    room = sum(int(share.cpu // need) for share in share_machine(whole, 3))
    up, service = start_up(folder, "--workers=3", "--concurrency=100")
    waiting = (
        f"touch {folder}/at-$HOLDFAST_TASK_INDEX; until test -e {folder}/go; do sleep 0.1; done"
    )
    held = service.run(
        "run", "-d", "--queue=default", f"--cpu={need}", f"--replicas={room + 1}",
        "--", "sh", "-c", waiting,
    )  # fmt: skip
    assert held.code == 0, held.err

    def begun() -> int:
        return len(list(folder.glob("at-*")))

    eventually(lambda: begun() >= room)
    # It stands behind the one that waits for room: whoever claims it has looked at that one first.
    assert service.run("run", "--", "echo", "hello").out == "hello\n"
    assert begun() == room
    (folder / "go").touch()
    assert service.run("wait", held.out.strip(), "--timeout=60").code == 0
    assert begun() == room + 1
    code, err = up.end(signal.SIGTERM)
    assert code == 0
    assert ("name no resources" in err) == (whole.cpu < 3)


@pytest.mark.nightly
def test_its_logs_are_json_for_programs(folder: Path) -> None:
    up, service = start_up(folder)
    eventually(lambda: service.ask("workers")["workers"])
    _, err = up.end(signal.SIGTERM)
    logged = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert any("registered as" in line["message"] for line in logged)


@pytest.mark.nightly
def test_an_interrupt_at_a_terminal_reaches_it_alone(folder: Path) -> None:
    up, _ = start_up(folder)
    groups = {os.getpgid(child.pid) for child in psutil.Process(up.process.pid).children()}
    assert os.getpgid(up.process.pid) not in groups
    assert up.end(signal.SIGINT)[0] == 0
