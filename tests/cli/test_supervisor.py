"""A worker whose process is crashed by user code, and what becomes of it and of its tasks."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

import holdfast as hf
from holdfast.cli.supervisor import Crash, describe_end, supervise
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running_code import RunningCode
from holdfast.worker.slots import take_slot
from tests.cli.conftest import Service, living
from tests.cli.program import SECONDS_MAX, eventually, start
from tests.cli.tasks import add, crash, hold_interpreter, wait_beside, wait_for_cancel


class Hired:
    """A worker on a queue of its own."""

    def __init__(self, folder: Path, queue: str, pid: int) -> None:
        self.folder = folder
        self.queue = queue
        self.supervisor = psutil.Process(pid)

    @property
    def child(self) -> psutil.Process:
        """The process that runs user code."""
        [child] = eventually(self.supervisor.children)
        return child

    def read_log(self) -> str:
        """Read what it has logged so far."""
        [log] = self.folder.glob("worker-*.log")
        return log.read_text()


@pytest.fixture
def worker(service: Service, tmp_path: Path) -> Iterator[Hired]:
    """A worker with room for four tasks at once."""
    with hire(service, tmp_path) as hired:
        yield hired


@contextmanager
def hire(service: Service, folder: Path, *, drain_seconds: int = 1) -> Iterator[Hired]:
    """Run a worker for the time of a block."""
    queue = f"q{uuid4().hex[:8]}"
    options = ("--concurrency=4", "--import=tests.cli.tasks")
    with living(
        folder,
        *("worker", f"--queue={queue}", f"--name={queue}", *options),
        f"--drain-seconds={drain_seconds}",
        HOLDFAST_SERVER=service.url,
        HOLDFAST_WORKER_DIR=str(folder),
    ) as process:
        eventually(lambda: service.find_worker(queue))
        yield Hired(folder, queue, process.pid)


def test_a_crash_costs_its_task_alone_and_the_worker_goes_on(
    service: Service, worker: Hired, tmp_path: Path
) -> None:
    crashed = worker.child
    folder = str(tmp_path)
    with hf.Client(service.url) as client:
        neighbours = [
            client.submit(wait_beside.with_options(queue=worker.queue), folder, rank)
            for rank in range(3)
        ]
        job = client.submit(crash.with_options(queue=worker.queue, retries=1), folder, 3)
        eventually(lambda: not crashed.is_running())
        # A retry of its own, in a process of its own: there it has failed, and nobody else has.
        eventually(lambda: service.ask("task", job.id)["failure_count"] >= 1)
        (tmp_path / "go").touch()
        for neighbour in neighbours:
            assert neighbour.result(timeout=SECONDS_MAX) not in (crashed.pid, worker.child.pid)
        with pytest.raises(hf.TaskFailed):
            job.result(timeout=SECONDS_MAX)
    for job_id in (job.id, *(neighbour.id for neighbour in neighbours)):
        task = service.ask("task", job_id)
        first = task["attempts"][0]
        assert (task["preemption_count"], first["state"]) == (0, "TASK_STATE_WORKER_FAILED")
        assert re.search(rf"exit code 3, while it ran .*task {job.id}\.0 attempt 0", first["error"])
    codes = [each.get("exit_code") for each in service.ask("task", job.id)["attempts"]]
    assert codes == [None, 3, 3]
    log = worker.read_log()
    assert log.count("the worker's process has ended: exit code 3, while it ran") == 1
    assert f"task {neighbours[0].id}.0 attempt 0" in log


def test_a_held_interpreter_is_ended_soon_after_the_timeout(
    service: Service, worker: Hired
) -> None:
    with hf.Client(service.url) as client:
        job = client.submit(hold_interpreter.with_options(queue=worker.queue, lease=60))
        task_id = f"{job.id}.0"
        with pytest.raises(hf.TaskFailed, match="longer than its timeout of 1 s"):
            job.result(timeout=SECONDS_MAX)
        after = client.submit(add.with_options(queue=worker.queue), 1)
        assert after.result(timeout=SECONDS_MAX) == 3
    reason = f"killed by its watchdog, since task {task_id} attempt 0 let nothing else run"
    assert reason in worker.read_log()


@pytest.mark.parametrize("way", ["crash", "watchdog", "kill"])
def test_placed_work_outlives_a_crash_of_what_runs_beside_it(
    service: Service, tmp_path: Path, way: str
) -> None:
    """One that is killed has no queues: whatever it is, it is started again."""
    queue = f"q{uuid4().hex[:8]}"
    slots = tmp_path / f"workers-{sha256(service.url.encode()).hexdigest()[:12]}"
    earlier = [take_slot(slots), take_slot(slots / "placed")]
    served = () if way == "kill" else (f"--queue={queue}",)
    options = ("--cpu=1", "--memory=1GB", "--disk=1GB", "--gpu=0", f"--attribute=pool={queue}")
    with living(
        tmp_path,
        *("worker", *served, "--placed", f"--name={queue}", *options),
        *("--import=tests.cli.tasks", "--allow-commands", "--drain-seconds=1"),
        HOLDFAST_SERVER=service.url,
        HOLDFAST_WORKER_DIR=str(tmp_path),
    ) as process:
        wait = f"touch {tmp_path}/began; until [ -e {tmp_path}/go ]; do sleep 0.02; done"
        flags = ("--cpu=1", f"--constraint=pool={queue}")
        placed = service.run("run", "-d", *flags, "--", "sh", "-c", wait).out.strip()
        eventually((tmp_path / "began").exists)
        for slot in earlier:  # free now, but not those in which the work is found again
            slot.close()
        worker = Hired(tmp_path, queue, process.pid)
        crashed = worker.child
        with hf.Client(service.url) as client:
            if way == "kill":
                crashed.kill()
            elif way == "watchdog":
                find_watchdog(crashed).kill()
            else:
                client.submit(crash.with_options(queue=queue, retries=0), str(tmp_path), 0)
            eventually(lambda: not crashed.is_running())
            eventually(lambda: "adopted 1 attempts" in worker.read_log())
            if served:  # the half that claims is back, too
                after = client.submit(add.with_options(queue=queue), 1)
                assert after.result(timeout=SECONDS_MAX) == 3
        (tmp_path / "go").touch()
        assert service.call("wait", placed, "--timeout=60").code == 0
    task = service.ask("task", placed)
    assert [each["state"] for each in task["attempts"]] == ["TASK_STATE_SUCCEEDED"]


def find_watchdog(worker: psutil.Process) -> psutil.Process:
    """Find the process that ends what outlives its time in a worker."""
    [found] = [
        each for each in worker.children() if any("watchdog.py" in part for part in each.cmdline())
    ]
    return found


def test_one_crash_after_the_other_is_followed_by_longer_pauses(worker: Hired) -> None:
    for count, pause in enumerate(("0.25", "0.5", "1"), 1):
        child = worker.child
        eventually(lambda: worker.read_log().count("registered as") >= count)  # noqa: B023
        child.kill()
        eventually(lambda: not child.is_running())  # noqa: B023
        eventually(lambda: f"it is started again in {pause} s" in worker.read_log())  # noqa: B023


def test_whoever_kills_the_supervisor_kills_the_worker(service: Service, tmp_path: Path) -> None:
    queue = f"q{uuid4().hex[:8]}"
    variables = {"HOLDFAST_WORKER_DIR": str(tmp_path)}
    process = service.start(
        *("worker", "--allow-commands", f"--queue={queue}", f"--name={queue}"), **variables
    )
    try:
        eventually(lambda: service.find_worker(queue))
        [child] = psutil.Process(process.pid).children()
        process.kill()
        eventually(lambda: not child.is_running())
    finally:
        process.kill()
        process.communicate()


def test_a_worker_that_cannot_start_is_not_started_again() -> None:
    """In a process of its own, since it waits for every child and signal."""
    status = run_forked(lambda: supervise(lambda *_: os._exit(7)))
    assert os.waitstatus_to_exitcode(status) == 7


def test_an_end_by_its_own_will_is_the_end_of_both_whatever_the_code() -> None:
    assert os.waitstatus_to_exitcode(run_forked(lambda: supervise(lambda *_: 5))) == 5


def test_signals_to_both_processes_at_once_are_one_request_to_drain(
    service: Service, tmp_path: Path
) -> None:
    """So a service manager ends all processes of a unit."""
    with hire(service, tmp_path, drain_seconds=600) as worker, hf.Client(service.url) as client:
        waiting = wait_beside.with_options(queue=worker.queue, lease=2)
        job = client.submit(waiting, str(tmp_path), 0)
        eventually((tmp_path / "began-0").exists)
        worker.child.terminate()
        eventually(lambda: "draining: 1 attempts" in worker.read_log())
        worker.supervisor.send_signal(signal.SIGTERM)
        worker.supervisor.send_signal(signal.SIGHUP)
        eventually(lambda: not has_pending(worker.supervisor.pid))
        for _ in range(3):  # it is kept for longer than a worker takes that does not wait
            eventually(partial(is_renewed, service, job.id, read_lease(service, job.id)))
        (tmp_path / "go").touch()
        job.result(timeout=SECONDS_MAX)
    assert len(service.ask("task", job.id)["attempts"]) == 1


def test_a_later_request_does_not_wait(service: Service, tmp_path: Path) -> None:
    with hire(service, tmp_path, drain_seconds=600) as worker, hf.Client(service.url) as client:
        job = client.submit(wait_for_cancel.with_options(queue=worker.queue))
        eventually(lambda: service.ask("task", job.id)["state"] == "TASK_STATE_RUNNING")

        def is_handed_back() -> bool:
            if "handing back 1 attempts" in worker.read_log():
                return True
            worker.supervisor.send_signal(signal.SIGTERM)
            return False

        eventually(is_handed_back)
        eventually(lambda: worker.supervisor.status() == psutil.STATUS_ZOMBIE)
    assert service.ask("task", job.id)["state"] == "TASK_STATE_PENDING"
    assert service.run("cancel", job.id).code == 0


def read_lease(service: Service, job_id: str) -> int:
    """Read when the lease of a running task ends."""
    task = service.ask("task", job_id)
    assert task["state"] == "TASK_STATE_RUNNING"
    return int(task["attempts"][-1]["lease_expires_at_ms"])


def is_renewed(service: Service, job_id: str, before: int) -> bool:
    """Tell whether the lease of a running task has been renewed."""
    return read_lease(service, job_id) > before


def has_pending(pid: int) -> bool:
    """Tell whether a process has not taken all of its signals, or is busy with one."""
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return int(fields["ShdPnd"], 16) != 0 or not fields["State"].strip().startswith("S")


def test_a_request_that_comes_with_a_crash_is_not_lost() -> None:
    def crash_with_a_request(code: RunningCode, earlier: Crash | None) -> int:
        if earlier is not None:
            return 42  # started again, though it was asked to end
        code.note_worker("w-1")
        os.kill(os.getppid(), signal.SIGSTOP)
        os.kill(os.getppid(), signal.SIGTERM)
        os._exit(3)

    pid = fork(lambda: supervise(crash_with_a_request))
    _, status = os.waitpid(pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    [child] = psutil.Process(pid).children()
    eventually(lambda: child.status() == psutil.STATUS_ZOMBIE)
    os.kill(pid, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_during_an_import_ends_it_without_complaint(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "slow.py").write_text(
        f"import pathlib, time; pathlib.Path({str(tmp_path / 'began')!r}).touch(); time.sleep(600)"
    )
    process = start(
        *("worker", "--import=slow", "--server=http://127.0.0.1:1"),
        PYTHONPATH=str(tmp_path),
        HOLDFAST_WORKER_DIR=str(tmp_path),
    )
    try:
        eventually((tmp_path / "began").exists)
        process.send_signal(number)
        _, err = process.communicate(timeout=SECONDS_MAX)
        assert (process.returncode, err) == (128 + number, "")
    finally:
        process.kill()
        process.communicate()


def run_forked(work) -> int:  # type: ignore[no-untyped-def]
    """Run something in a fork of this process; returns its status."""
    return os.waitpid(fork(work), 0)[1]


def fork(work) -> int:  # type: ignore[no-untyped-def]
    """Begin something in a fork of this process; its code is what that returns."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = work()
        finally:  # whatever it raises: the tests go on in the parent alone
            os._exit(code)
    return pid


def test_an_end_names_what_ran_in_the_process() -> None:
    code = RunningCode()
    assert describe_end(3 << 8, code) == "exit code 3, while no function ran in it"
    code.note_begin("7.0", 2)
    code.note_begin("8.1", 0)
    assert describe_end(signal.SIGSEGV, code) == (
        "SIGSEGV, while it ran task 7.0 attempt 2, task 8.1 attempt 0"
    )
    assert describe_end(40, code).startswith("signal 40, while")
    code.note_deadline(boot_clock() + 60, "it is late")
    assert describe_end(signal.SIGKILL, code).startswith("SIGKILL, while")
    code.note_deadline(boot_clock() - 1, "it is late")
    assert describe_end(signal.SIGKILL, code).startswith("killed by its watchdog, since it is")
