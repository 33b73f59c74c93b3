"""What a shim does with a command: real processes, each seen to its end."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.worker.processes import shim_folder
from holdfast.worker.processes.clock import boot_clock
from tests.waiting import eventually
from tests.worker.living import FAMILY, await_family, lives, start_sleeper
from tests.worker.shimmed import (
    ALLOCATE,
    PATH,
    a_program,
    a_script,
    an_order,
    can_kill_cgroups,
    can_limit_memory,
    find_shim,
    run,
    running,
)

DAEMON = """
setsid env -i sh -c 'echo $$ > stray; exec sleep 600' &
while [ ! -s stray ]; do sleep 0.01; done
"""
COMET = """
import os
os.environ.clear()
for _ in range(20_000):
    if os.fork():
        os._exit(0)
    os.setsid()
open("landed", "w").close()
"""
STUBBORN = "trap '' TERM; echo ready > ready; while :; do sleep 0.05; done"
POLITE = "trap 'exit 5' TERM; echo ready > ready; while :; do sleep 0.05; done"


def output(folder: Path) -> str:
    return (folder / shim_folder.OUTPUT).read_text()


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [
        ("exit 0", 0, None),
        ("exit 7", 7, None),
        ("kill -TERM $$", None, signal.SIGTERM),
        ("kill -KILL $$", None, signal.SIGKILL),
    ],
)
async def test_the_end_of_a_command_is_written_down(
    tmp_path: Path, script: str, code: int | None, number: int | None
) -> None:
    ended = await run(tmp_path, a_script(script))
    assert (ended.exit_code, ended.signal) == (code, number)
    assert (ended.reason, ended.error) == (None, None)
    assert ended.started_at is not None
    assert ended.started_at <= ended.ended_at


async def test_a_command_gets_its_arguments_environment_and_folder(tmp_path: Path) -> None:
    script = 'echo "$1" "$COLOUR" "$PWD" "$HOLDFAST_LEASE_TOKEN"; echo bad >&2; cat'
    order = an_order(
        "sh", "-c", script, "sh", "a b", environment={**PATH, "COLOUR": "blü"}, cwd=str(tmp_path)
    )
    ended = await run(tmp_path / "folder", order)
    assert ended.exit_code == 0
    assert output(tmp_path / "folder") == f"a b blü {tmp_path} {order.token}\nbad\n"


async def test_a_command_inherits_no_descriptor_and_no_signal_that_is_ignored_or_blocked(
    tmp_path: Path,
) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        await run(tmp_path / "first", an_order("grep", "-E", "SigBlk|SigIgn", "/proc/self/status"))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    blocked, ignored = (line.split()[1] for line in output(tmp_path / "first").splitlines())
    assert int(blocked, 16) == int(ignored, 16) == 0
    await run(tmp_path / "second", an_order("ls", "/proc/self/fd"))
    # The three of old, and the folder that `ls` reads.
    assert len(output(tmp_path / "second").split()) == 4


@pytest.mark.parametrize("cgroups", [True, False])
@pytest.mark.parametrize("script", [FAMILY.replace("wait", ""), FAMILY])
async def test_what_a_command_leaves_behind_dies_with_it(
    tmp_path: Path, cgroups: bool, script: str
) -> None:
    order = a_script(script, cwd=str(tmp_path), cgroups=cgroups)
    async with running(tmp_path / "folder", order) as shim:
        if script == FAMILY:
            family = await_family(tmp_path)
            family[0].terminate()
            assert (await shim.wait()).signal == signal.SIGTERM
            assert not any(lives(member) for member in family)
        else:
            assert (await shim.wait()).exit_code == 0


@pytest.mark.parametrize("cgroups", [True, False])
async def test_a_daemon_that_left_the_session_and_cleared_its_environment_is_killed(
    tmp_path: Path, cgroups: bool
) -> None:
    order = a_script(DAEMON + "cat", cwd=str(tmp_path), cgroups=cgroups)
    ended = await run(tmp_path / "folder", order)
    assert ended.exit_code == 0
    assert not psutil.pid_exists(int((tmp_path / "stray").read_text()))


async def test_who_carries_the_mark_elsewhere_dies_with_the_command(tmp_path: Path) -> None:
    order = a_script("read line < go", cwd=str(tmp_path))
    os.mkfifo(tmp_path / "go")
    async with running(tmp_path / "folder", order) as shim:
        # By somebody else, on its behalf: no descendant of the shim is it.
        stray, stranger = start_sleeper(order.mark), start_sleeper(order.mark + "0")
        async with asyncio.timeout(60):
            await asyncio.to_thread((tmp_path / "go").write_text, "go\n")
            assert (await shim.wait()).exit_code == 0
    assert stray.wait(60) == -signal.SIGKILL
    assert lives(stranger)
    stranger.kill()
    stranger.wait(60)


@pytest.mark.parametrize("cgroups", [True, False])
async def test_a_process_that_forks_faster_than_one_can_look_is_killed_with_its_group(
    tmp_path: Path, cgroups: bool
) -> None:
    # Only a cgroup catches it in session after session.
    flight = COMET if cgroups and can_kill_cgroups() else COMET.replace("os.setsid()", "pass")
    order = a_program(flight, cwd=str(tmp_path), cgroups=cgroups)
    assert (await run(tmp_path / "folder", order)).exit_code == 0
    assert not (tmp_path / "landed").exists()


async def test_many_children_in_sessions_of_their_own_are_killed(tmp_path: Path) -> None:
    script = "for i in $(seq 60); do setsid sleep 600 & done; echo ready > ready; wait"
    order = a_script(script, cwd=str(tmp_path), cgroups=False)
    async with running(tmp_path / "folder", order) as shim:
        await eventually((tmp_path / "ready").exists)
        shim.hard()
        ended = await shim.wait()
    assert (ended.signal, ended.reason) == (signal.SIGKILL, "hard")
    assert ended.usage is not None
    assert ended.usage.processes_max >= 1


async def test_a_deadline_kills_everything(tmp_path: Path) -> None:
    order = a_script(FAMILY, cwd=str(tmp_path))
    async with running(tmp_path / "folder", order) as shim:
        family = await_family(tmp_path)
        shim.renew(boot_clock() + 0.05)
        ended = await shim.wait()
    assert (ended.signal, ended.reason) == (signal.SIGKILL, "lease")
    assert not any(lives(member) for member in family)


async def test_a_deadline_that_has_passed_lets_nothing_run_for_long(tmp_path: Path) -> None:
    ended = await run(tmp_path, an_order("sleep", "600", deadline=0.0))
    assert (ended.signal, ended.reason) == (signal.SIGKILL, "lease")


async def test_a_renewed_command_lives_on(tmp_path: Path) -> None:
    first = boot_clock() + 0.5
    async with running(tmp_path, an_order("sleep", "600", deadline=first)) as shim:
        shim.renew(first + 600)
        await eventually(lambda: boot_clock() > first + 0.1)
        assert shim.is_alive()
        assert shim.has_started()


async def test_a_deadline_is_kept_after_a_time_in_which_the_shim_could_not_look(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, an_order("sleep", "600")) as shim:
        process = find_shim(tmp_path)
        process.suspend()
        deadline = boot_clock() + 0.1
        shim.renew(deadline)
        await eventually(lambda: boot_clock() > deadline)
        process.resume()
        assert (await shim.wait()).reason == "lease"


async def test_a_renewal_counts_that_came_while_the_shim_could_not_look(tmp_path: Path) -> None:
    deadline = boot_clock() + 0.5
    async with running(tmp_path, an_order("sleep", "600", deadline=deadline)) as shim:
        process = find_shim(tmp_path)
        process.suspend()
        await eventually(lambda: boot_clock() > deadline)
        shim.renew(deadline + 600)
        process.resume()
        (sleeper,) = await eventually(process.children)
        shim.soft(600)
        assert (await shim.wait()).reason == "soft"
        assert not lives(sleeper)


@pytest.mark.parametrize(
    ("script", "grace", "code", "number"),
    [(POLITE, 600, 5, None), (STUBBORN, 0.05, None, signal.SIGKILL)],
)
async def test_a_command_is_asked_to_end_before_it_is_killed(
    tmp_path: Path, script: str, grace: float, code: int | None, number: int | None
) -> None:
    async with running(tmp_path / "folder", a_script(script, cwd=str(tmp_path))) as shim:
        await eventually((tmp_path / "ready").exists)
        shim.soft(grace)
        ended = await shim.wait()
    assert (ended.exit_code, ended.signal, ended.reason) == (code, number, "soft")


async def test_a_second_request_shortens_the_grace_but_never_lengthens_it(tmp_path: Path) -> None:
    async with running(tmp_path / "folder", a_script(STUBBORN, cwd=str(tmp_path))) as shim:
        await eventually((tmp_path / "ready").exists)
        for grace in (600, 0.05, 600):
            shim.soft(grace)
        assert (await shim.wait()).signal == signal.SIGKILL


async def test_a_kill_follows_a_request_at_once(tmp_path: Path) -> None:
    async with running(tmp_path / "folder", a_script(STUBBORN, cwd=str(tmp_path))) as shim:
        await eventually((tmp_path / "ready").exists)
        shim.soft(600)
        shim.hard()
        ended = await shim.wait()
    assert (ended.signal, ended.reason) == (signal.SIGKILL, "hard")


async def test_polite_signals_and_nonsense_do_not_end_a_shim(tmp_path: Path) -> None:
    async with running(tmp_path, an_order("sleep", "600")) as shim:
        await eventually(shim.has_started)
        process = find_shim(tmp_path)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        nonsense = b"deadline nan\ndeadline\nsoft -inf\n\xff\n\nhard now\n"
        for text in (nonsense, b"x" * 2000, b"\n"):
            (tmp_path / shim_folder.CONTROL).write_bytes(text)
        (sleeper,) = process.children()
        sleeper.kill()
        ended = await shim.wait()
        assert (ended.signal, ended.reason) == (signal.SIGKILL, None)


@pytest.mark.parametrize(
    ("argv", "changes", "reason"),
    [
        (["no-such-program"], {}, "cannot run 'no-such-program': No such file"),
        (["/etc/passwd"], {}, "cannot run '/etc/passwd': Permission denied"),
        ([], {}, "the command is empty"),
        (["echo", "a\0b"], {}, "cannot run 'echo': embedded null byte"),
        (["echo"], {"environment": {"A=B": "c"}}, "cannot run 'echo': illegal environment"),
        (["echo"], {"cwd": "/nowhere"}, "cannot enter the folder '/nowhere': No such file"),
    ],
)
async def test_a_command_that_cannot_start_says_why(
    tmp_path: Path, argv: list[str], changes: dict[str, Any], reason: str
) -> None:
    async with running(tmp_path, an_order(*argv, **changes)) as shim:
        ended = await shim.wait()
        assert not shim.has_started()
    assert ended.reason == "cannot_start"
    assert ended.error is not None
    assert ended.error.startswith(reason)
    assert (ended.exit_code, ended.signal, ended.started_at) == (None, None, None)


async def test_of_output_over_its_limit_both_ends_stay_where_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    script = "seq -f %09.0f 100000; echo ready > ready; sleep 600"
    order = a_script(script, cwd=str(tmp_path), output_bytes_max=65536)
    async with running(folder, order):
        await eventually((tmp_path / "ready").exists)
        log = folder / shim_folder.OUTPUT
        await eventually(lambda: log.stat().st_blocks * 512 <= 65536 + 8192)
        content = log.read_bytes()
    assert len(content) == 1_000_000
    assert content.startswith(b"".join(b"%09d\n" % n for n in range(1, 1639)))
    assert content.endswith(b"".join(b"%09d\n" % n for n in range(97_000, 100_001)))


async def test_a_command_may_delete_its_folder(tmp_path: Path) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    ended = await run(tmp_path / "folder", a_script(f"rm -r {cwd}; exit 3", cwd=str(cwd)))
    assert ended.exit_code == 3


@pytest.mark.parametrize("cgroups", [True, False])
async def test_what_was_used_is_measured(tmp_path: Path, cgroups: bool) -> None:
    program = (
        "import os, time\n"
        "held = bytearray(40 * 2**20)\n"
        "while time.process_time() < 0.2: pass\n"
        "[os.fork() or (time.sleep(600), os._exit(0)) for _ in range(2)]\n"
        "open('ready', 'w').write('x\\n')\n"
        "time.sleep(600)\n"
    )
    order = a_program(program, cwd=str(tmp_path), cgroups=cgroups)
    async with running(tmp_path / "folder", order) as shim:
        await eventually((tmp_path / "ready").exists)
        (command,) = find_shim(tmp_path / "folder").children()
        await eventually(lambda: len(command.children()) == 2)
        shim.soft(600)
        ended = await shim.wait()
    assert ended.usage is not None
    assert ended.usage.cpu_seconds >= 0.2
    assert ended.usage.memory_peak_bytes >= 40 * 2**20


@pytest.mark.parametrize("cgroups", [True, False])
async def test_processes_are_counted(tmp_path: Path, cgroups: bool) -> None:
    order = a_script(FAMILY, cwd=str(tmp_path), cgroups=cgroups)
    async with running(tmp_path / "folder", order) as shim:
        await_family(tmp_path)
        shim.hard()
        ended = await shim.wait()
    assert ended.usage is not None
    assert ended.usage.processes_max == 3


async def test_a_command_that_runs_out_of_memory_is_told_apart(tmp_path: Path) -> None:
    order = a_program(ALLOCATE, str(2**28), memory=64 * 2**20)
    ended = await run(tmp_path, order)
    if can_limit_memory():
        assert (ended.signal, ended.reason, ended.limits) == (signal.SIGKILL, "oom", "cgroup2")
        assert ended.error == f"out of memory: its limit is {64 * 2**20} bytes"
    else:
        assert (ended.exit_code, ended.reason) == (1, None)


async def test_memory_is_limited_without_cgroups_too(tmp_path: Path) -> None:
    order = a_program(ALLOCATE, str(2**28), memory=128 * 2**20, cgroups=False)
    ended = await run(tmp_path, order)
    assert (ended.exit_code, ended.reason, ended.limits) == (1, None, "rlimit")
    assert "MemoryError" in output(tmp_path)


async def test_a_child_that_runs_out_of_memory_ends_a_command_that_waits_for_ever(
    tmp_path: Path,
) -> None:
    script = f"{sys.executable} -I -S -c '{ALLOCATE}' {2**28}; sleep 600"
    ended = await run(tmp_path, a_script(script, memory=64 * 2**20, deadline=boot_clock() + 8))
    assert ended.reason == ("oom" if can_limit_memory() else "lease")


@pytest.mark.parametrize("cgroups", [True, False])
async def test_a_limit_too_low_for_anything_is_a_clear_end(tmp_path: Path, cgroups: bool) -> None:
    ended = await run(tmp_path, an_order("sleep", "600", memory=4096, cgroups=cgroups))
    assert ended.reason in ("cannot_start", "oom") or ended.signal is not None


async def test_a_memory_limit_leaves_room_for_what_fits(tmp_path: Path) -> None:
    ended = await run(tmp_path, a_program(ALLOCATE, "1000", memory=64 * 2**20, cpu=0.5))
    assert (ended.exit_code, ended.reason) == (0, None)
    assert output(tmp_path) == "1000\n"


async def test_a_shim_that_fails_itself_leaves_nothing_running(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    # Where its mark goes there is a folder: writing it fails.
    (folder / shim_folder.STARTED).mkdir(parents=True)
    order = a_script(FAMILY, cwd=str(tmp_path))
    ended = await run(folder, order)
    assert ended.reason == "shim_lost"
    assert ended.error is not None
    assert "IsADirectoryError" in ended.error
