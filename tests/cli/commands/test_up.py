"""`up`: everything on one machine starts, works, and ends in order with nothing left behind."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import holdfast as hf
from holdfast.cli.commands.up import share_machine
from holdfast.embedded import EmbeddedPostgres
from holdfast.model.resources import Capacity
from holdfast.worker.exit_codes import EXIT_OVERRUN, EXIT_UNSTOPPABLE
from tests.cli.conftest import Service
from tests.cli.program import SECONDS_MAX, bounded, eventually, run, start
from tests.cli.tasks import block_once
from tests.cli.test_target import processes_of


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
        parent = psutil.Process(self.process.pid)
        return [child for child in parent.children() if command in child.cmdline()]

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Ask it to end; gives its exit code and what it said on the way."""
        os.kill(self.process.pid, number)
        _, err = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, err


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


def claiming_workers(up: Up) -> list[psutil.Process]:
    """List its workers that claim."""
    return [each for each in up.children("worker") if "--placed" not in each.cmdline()]


def start_up(folder: Path, *flags: str) -> tuple[Up, Service]:
    """Start it, and wait until it is up."""
    up = Up(folder, *flags)
    _started.append(up)
    return up, up.wait_until_up()


def test_it_starts_runs_work_and_ends_with_nothing_left(folder: Path) -> None:
    up, service = start_up(folder, "--workers=2", "--import=tests.cli.tasks", "--allowed-host=a.b")
    living = psutil.Process(up.process.pid).children(recursive=True)
    assert len(up.children("worker")) == 4
    assert "--allowed-host=a.b" in up.children("server")[0].cmdline()
    assert service.run("run", "--", "echo", "hello").out == "hello\n"
    placed = service.run("run", "--cpu=1", "--gang", "--replicas=2", "--", "echo", "hello")
    assert sorted(placed.out.splitlines()) == ["[0] hello", "[1] hello"]
    names = [worker["name"] for worker in service.ask("workers")["workers"] if worker["placed"]]
    assert sorted(names) == ["worker-1", "worker-2"]
    service.submit_and_wait("tests.cli.tasks:add", "--arg=1")
    code, err = up.end(signal.SIGINT)
    assert code == 0
    assert err.splitlines()[-1] == "holdfast: everything has ended"
    eventually(lambda: not any(child.is_running() for child in living))


@pytest.mark.nightly
def test_what_it_says_can_be_typed(folder: Path) -> None:
    up, service = start_up(folder, "--queue=mail", "--queue=other")
    text = "".join(up.said)
    assert text.startswith("Holdfast is up.\n")
    assert f"try       HOLDFAST_SERVER={service.url} holdfast run --queue mail -- echo" in text
    assert "workers   1 on mail, other" in text
    assert "placed    1 more for placed work, with " in text
    assert up.end(signal.SIGTERM)[0] == 0


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
    assert up.end(signal.SIGTERM)[0] == 0


@pytest.mark.nightly
def test_a_second_request_hands_back_what_still_runs(folder: Path) -> None:
    up, service = start_up(folder, "--drain-seconds=600")
    job_id = service.run("run", "-d", "--", "sleep", "600").out.strip()
    eventually(lambda: service.ask("job", job_id)["state"] == "JOB_STATE_RUNNING")
    [worker] = claiming_workers(up)
    os.kill(up.process.pid, signal.SIGINT)
    assert up.process.stderr is not None
    lines = iter(up.process.stderr)
    assert any("attempts still run" in line for line in lines)
    assert worker.is_running()
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
    for name in ("worker 1", "worker 2", "placed worker 1", "placed worker 2"):
        assert f"holdfast: {name} has ended with code" in err


def test_a_worker_that_ended_itself_to_keep_a_lease_is_started_again(folder: Path) -> None:
    up, service = start_up(folder, "--workers=1", "--import=tests.cli.tasks")
    [worker] = claiming_workers(up)
    with hf.Client(service.url, patience=60) as client:
        job = client.submit(block_once, str(folder / "marker"))
        eventually((folder / "marker").exists)
        [server] = up.children("server")
        server.suspend()  # so that the lease cannot be renewed, and its function cannot be stopped
        eventually(lambda: not is_alive(worker))
        server.resume()
        job.result(timeout=SECONDS_MAX)
    [again] = claiming_workers(up)
    assert again.pid != worker.pid
    code, err = up.end(signal.SIGTERM)
    assert code == 0
    ended = f"holdfast: the worker has ended with code ({EXIT_OVERRUN}|{EXIT_UNSTOPPABLE})\n"
    # What others log may stand between the two.
    assert re.search(f"{ended}.*holdfast: the worker is started", err, re.DOTALL)


def test_a_postgres_that_was_killed_is_started_again(folder: Path) -> None:
    up, service = start_up(folder)
    postgres = EmbeddedPostgres(folder / "own")
    killed = psutil.Process(postgres.pid)
    killed.kill()
    eventually(lambda: not is_alive(killed) and postgres.is_running)
    assert service.run("run", "--", "echo", "hello").out == "hello\n"
    code, err = up.end(signal.SIGTERM)
    assert code == 0
    assert "holdfast: Postgres has ended, and is started again" in err


def test_workers_that_were_killed_are_started_again(folder: Path) -> None:
    up, service = start_up(folder)
    killed = up.children("worker")
    for worker in killed:
        worker.kill()
    eventually(lambda: not any(map(is_alive, killed)))
    for flags in ([], ["--cpu=1"]):
        assert service.run("run", *flags, "--", "echo", "hello").out == "hello\n"
    code, err = up.end(signal.SIGTERM)
    assert code == 0
    assert err.count("is started again") == len(killed)


def test_a_kill_leaves_no_server_and_no_worker(folder: Path) -> None:
    up, _ = start_up(folder)
    living = [*up.children("server"), *up.children("worker")]
    up.process.kill()
    up.process.communicate()
    eventually(lambda: not any(child.is_running() for child in living))
    # The next one joins the Postgres that is left, and stops it in the end.
    again, _ = start_up(folder)
    assert again.end(signal.SIGTERM)[0] == 0


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
        (["--port=x"], "--port"),
        (["--allowed-host=https://x"], "allowed_host: 'https://x' is no host"),
        (["stray"], "stray"),
    ],
)
def test_what_cannot_be_started_is_refused_before_anything_is(
    folder: Path, flags: list[str], problem: str
) -> None:
    ended = run("up", f"--data-dir={folder / 'own'}", *flags)
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert not (folder / "own").exists()


@pytest.mark.parametrize(("count", "cpu"), [(1, 8), (3, 2), (8, 1), (20, 1)])
def test_placed_workers_share_the_machine_and_have_a_core_each(count: int, cpu: float) -> None:
    share = share_machine(Capacity(8, 64 * 10**9, 10**12, 2, "H100"), count)
    assert (share.cpu, share.gpu) == (cpu, 0)
    assert share.memory * count <= 64 * 10**9 < (share.memory + 1) * count
    assert share.disk * count <= 10**12


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
