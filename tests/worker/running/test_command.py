"""Commands: how they start, what they write, how they end, and that nothing stays behind."""

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path

import psutil
import pytest
import uvloop

from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.processes.mark import mark_of
from holdfast.worker.running.command import CannotStart, ProcessEnded, RunningProcess
from holdfast.worker.slots import Slot, take_slot
from holdfast.worker.watchdog_handle import WatchdogHandle, WatchdogLost
from tests.embedded.users import wait_for
from tests.worker.blocking_calls import noting_blocking_calls
from tests.worker.living import FAMILY, a_token, await_family, await_process, lives, start_sleeper

FAR = boot_clock() + 36_000
ENVIRONMENT = {"PATH": os.environ["PATH"]}

Start = Callable[..., Coroutine[None, None, RunningProcess]]


@pytest.fixture
def start(tmp_path: Path, watchdog: WatchdogHandle) -> Start:
    """Start a shell script under the watchdog, or another command."""

    async def start_one(*command: str, **changes: object) -> RunningProcess:
        argv = ["sh", "-c", *command] if len(command) == 1 else list(command)
        options: dict[str, object] = {"environment": ENVIRONMENT, "folder": tmp_path}
        options |= {"watchdog": watchdog, "token": a_token(), "deadline": FAR, **changes}
        return await RunningProcess.start(argv, **options)  # type: ignore[arg-type]

    return start_one


def runs(pid: int) -> bool:
    """Tell whether a process has this pid, and is no zombie."""
    return psutil.pid_exists(pid) and lives(psutil.Process(pid))


async def wait_for_file(path: Path) -> None:
    await asyncio.to_thread(wait_for, path.exists)


@pytest.mark.parametrize("code", [0, 1, 42, 255])
async def test_the_exit_code_is_known(start: Start, code: int) -> None:
    running = await start(f"exit {code}")
    assert await running.wait() == ProcessEnded(exit_code=code)
    assert await running.wait() == ProcessEnded(exit_code=code)


async def test_a_command_that_was_killed_tells_the_signal(start: Start) -> None:
    running = await start("kill -ABRT $$")
    assert await running.wait() == ProcessEnded(signal=signal.SIGABRT)


async def test_output_and_errors_are_kept_in_the_order_they_were_written(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "output.log").write_text("before\n")
    running = await start("echo one; echo two >&2; echo three; cat")
    assert await running.wait() == ProcessEnded(exit_code=0)
    assert (tmp_path / "output.log").read_text() == "before\none\ntwo\nthree\n"


async def test_a_command_runs_in_its_folder_with_its_environment_alone(
    start: Start, tmp_path: Path
) -> None:
    environment = {**ENVIRONMENT, "COLOUR": "blue"}
    token = a_token()
    running = await start("pwd; env", environment=environment, token=token)
    await running.wait()
    folder, *lines = (tmp_path / "output.log").read_text().splitlines()
    assert folder == str(tmp_path / "work")
    given = {line for line in lines if not line.startswith(("PWD=", "_=", "SHLVL=", "OLDPWD="))}
    wanted = {**environment, "HOLDFAST_LEASE_TOKEN": token, "HOLDFAST_MARK": mark_of(token)}
    assert given == {f"{name}={text}" for name, text in wanted.items()}


async def test_a_command_can_run_in_another_folder(start: Start, tmp_path: Path) -> None:
    await (await start("touch here", cwd=tmp_path)).wait()
    assert (tmp_path / "here").exists()
    assert not (tmp_path / "work").exists()


async def test_a_command_leads_a_session_of_its_own(start: Start) -> None:
    running = await start("exec sleep 600")
    assert os.getsid(running.pid) == os.getpgid(running.pid) == running.pid
    running.kill()
    assert await running.wait() == ProcessEnded(signal=signal.SIGKILL)


async def test_a_command_inherits_what_it_is_given_and_nothing_else(
    start: Start, slot: Slot, tmp_path: Path
) -> None:
    ours, theirs = socket.socketpair()
    fd = theirs.fileno()
    with ours:
        with theirs:
            script = f"import os; os.write({fd}, b'hello'); print(*os.listdir('/proc/self/fd'))"
            running = await start(sys.executable, "-c", script, inherit=[fd], lock_fd=slot.fd)
        assert await running.wait() == ProcessEnded(exit_code=0)
        assert ours.recv(100) == b"hello"
        assert ours.recv(100) == b""
    listed = {int(number) for number in (tmp_path / "output.log").read_text().split()}
    folder = min(set(range(10)) - {0, 1, 2, fd, slot.fd})  # that of the listing itself
    assert listed == {0, 1, 2, fd, slot.fd, folder}


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ([], "the command is empty"),
        (["no-such-program", "x"], "cannot run 'no-such-program': No such file"),
        (["./plain", "x"], "cannot run './plain': Permission denied"),
        (["./garbled", "x"], "cannot run './garbled': Exec format error"),
    ],
)
async def test_a_command_that_cannot_run_says_why(
    start: Start, tmp_path: Path, argv: list[str], reason: str
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "plain").write_text("text")
    (tmp_path / "work" / "garbled").write_bytes(b"\0garbled")
    (tmp_path / "work" / "garbled").chmod(0o755)
    before = psutil.Process().children()
    with pytest.raises(CannotStart) as refused:
        await start(*argv)
    assert refused.value.reason.startswith(reason)
    assert psutil.Process().children() == before


async def test_a_folder_that_is_not_there_says_so(start: Start, tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"cannot enter the folder .*gone"):
        await start("true", cwd=tmp_path / "gone")


async def test_a_missing_attempt_folder_is_the_hosts_fault(start: Start, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await start("true", folder=tmp_path / "gone")


async def test_terminating_asks_the_whole_group(start: Start, tmp_path: Path) -> None:
    trap = "trap 'echo asked; exit 3' TERM; touch ready{0}; while :; do sleep 0.01; done"
    running = await start(f"({trap.format(1)}) & {trap.format(2)}")
    await wait_for_file(tmp_path / "work" / "ready1")
    await wait_for_file(tmp_path / "work" / "ready2")
    running.terminate()
    assert await running.wait() == ProcessEnded(exit_code=3)
    assert "asked" in (tmp_path / "output.log").read_text()


async def test_killing_ends_the_group_and_who_left_it(start: Start, tmp_path: Path) -> None:
    running = await start(f"trap '' TERM; {FAMILY}")
    family = await asyncio.to_thread(await_family, tmp_path / "work")
    running.kill()
    assert await running.wait() == ProcessEnded(signal=signal.SIGKILL)
    assert not any(lives(process) for process in family)


async def test_a_command_that_ends_leaves_nobody_behind(start: Start, tmp_path: Path) -> None:
    running = await start(FAMILY.replace("\nwait\n", "\nwhile [ ! -s deserter ]; do :; done\n"))
    assert await running.wait() == ProcessEnded(exit_code=0)
    for name in ("background", "deserter"):
        assert not runs(int((tmp_path / "work" / name).read_text()))


async def test_a_command_that_has_ended_is_watched_no_longer(
    start: Start, watchdog: WatchdogHandle
) -> None:
    token = a_token()
    running = await start("true", token=token)
    await running.wait()
    running.renew(FAR)
    later = start_sleeper(mark_of(token))
    watchdog.stop()
    assert lives(later)
    later.kill()
    await asyncio.to_thread(later.wait)


async def test_a_command_over_its_deadline_is_killed(start: Start) -> None:
    running = await start("exec sleep 600")
    running.renew(boot_clock())
    assert await running.wait() == ProcessEnded(signal=signal.SIGKILL)


async def test_a_command_that_is_late_before_it_starts_is_killed(start: Start) -> None:
    running = await start("exec sleep 600", deadline=boot_clock() - 1)
    assert await running.wait() == ProcessEnded(signal=signal.SIGKILL)


async def test_a_command_that_has_ended_can_be_told_anything(start: Start) -> None:
    running = await start("true")
    await running.wait()
    running.renew(FAR)
    running.terminate()
    running.kill()
    assert await running.wait() == ProcessEnded(exit_code=0)


async def test_the_end_of_a_wait_is_not_the_end_of_the_command(start: Start) -> None:
    running = await start("exec sleep 600")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(running.wait(), 0.01)
    assert runs(running.pid)
    running.kill()
    assert await running.wait() == ProcessEnded(signal=signal.SIGKILL)


async def test_without_a_watchdog_nothing_is_run(start: Start, slot: Slot, tmp_path: Path) -> None:
    unguarded = WatchdogHandle()
    unguarded.start(slot.fd)
    os.kill(unguarded.pid, signal.SIGKILL)
    wait_for(lambda: not unguarded.is_alive())
    with pytest.raises(WatchdogLost):
        await start("touch made", watchdog=unguarded)
    unguarded.stop()
    assert not (tmp_path / "work" / "made").exists()


async def test_the_loop_neither_starts_processes_nor_looks_for_them(start: Start) -> None:
    with noting_blocking_calls() as calls:
        await (await start("exit 0")).wait()
    assert {name for name, _ in calls} == {"subprocess.Popen", "os.listdir"}
    assert threading.get_ident() not in {thread for _, thread in calls}


async def test_a_cancelled_start_leaves_no_command(start: Start) -> None:
    before = psutil.Process().children()
    async with asyncio.timeout(60):
        starting = asyncio.ensure_future(start("exec sleep 600"))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    await asyncio.to_thread(wait_for, lambda: psutil.Process().children() == before)


async def test_a_status_that_somebody_else_took_is_unknown(start: Start) -> None:
    running = await start("exit 3")
    await asyncio.to_thread(os.waitpid, running.pid, 0)
    assert await running.wait() == ProcessEnded()


def test_a_loop_that_closes_takes_its_commands_along(start: Start) -> None:
    running = asyncio.run(start("exec sleep 600"))
    wait_for(lambda: not runs(running.pid))


def test_commands_run_in_uvloop_too(start: Start, tmp_path: Path) -> None:
    async def run() -> ProcessEnded:
        return await (await start("echo hello; exit 4")).wait()

    assert uvloop.run(run()) == ProcessEnded(exit_code=4)
    assert (tmp_path / "output.log").read_text() == "hello\n"


async def test_a_slot_is_held_by_the_command(start: Start, tmp_path: Path) -> None:
    slot = take_slot(tmp_path / "others")
    running = await start("echo $$ > pid; exec sleep 600", lock_fd=slot.fd)
    await_process(tmp_path / "work" / "pid")
    slot.close()
    second = take_slot(tmp_path / "others")
    assert second.number == 1
    second.close()
    running.kill()
    await running.wait()
    first = take_slot(tmp_path / "others")
    assert first.number == 0
    first.close()
