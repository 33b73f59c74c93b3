"""Attempts in processes of their own: what they get, what is kept of them, how they end."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.client.transport import Transport
from holdfast.worker.claimed.attempt import Attempt, StopMode
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.processes.mark import mark_of
from holdfast.worker.running import log_shipping as shipping_module
from holdfast.worker.running.attempt_outcome import HANDED_BACK, KILLED, Outcome
from holdfast.worker.slots import Slot
from holdfast.worker.watchdog_handle import WatchdogHandle, WatchdogLost
from tests.waiting import eventually
from tests.worker.claimed.outside import Outside
from tests.worker.faulty_proxy import FaultyProxy
from tests.worker.workplace import Workplace, call


@pytest.fixture
async def outside(
    workplace: Workplace, watchdog: WatchdogHandle, slot: Slot
) -> AsyncIterator[Outside]:
    """A runner of processes."""
    async with Transport(workplace.url) as transport:
        yield Outside(workplace, transport, watchdog, slot.fd)


def stop(attempt: Attempt, mode: Any) -> None:
    """Ask an attempt to stop, as its worker does."""
    assert attempt.ask_to_stop(mode, boot_clock())
    assert attempt.on_stop is not None
    attempt.on_stop(mode)


async def test_a_command_knows_who_it_is_and_gets_nothing_of_its_worker(outside: Outside) -> None:
    environment = {"COLOUR": "blue", "PYTHONUNBUFFERED": ""}
    attempt, outcome = await outside.run(
        "env; cat $HOLDFAST_INPUT_FILE", inputs=[{"a": 1}], environment=environment
    )
    assert outcome == Outcome("succeeded", 0)
    *lines, given = (await outside.workplace.log(attempt.task_id)).decode().splitlines()
    told = dict(line.split("=", 1) for line in lines)
    assert json.loads(given) == {"a": 1}
    job_id = attempt.job.job_id
    wanted = {
        "HOLDFAST_SERVER": outside.workplace.url,
        "HOLDFAST_JOB_ID": job_id,
        "HOLDFAST_TASK_ID": f"{job_id}.0",
        "HOLDFAST_TASK_INDEX": "0",
        "HOLDFAST_NUM_TASKS": "1",
        "HOLDFAST_ATTEMPT": "0",
        "HOLDFAST_LEASE_TOKEN": str(attempt.lease_token),
        "HOLDFAST_MARK": mark_of(str(attempt.lease_token)),
        "HOLDFAST_INPUT": '{"a":1}',
        "COLOUR": "blue",
        "PYTHONUNBUFFERED": "",
    }
    assert {name: told[name] for name in wanted} == wanted
    assert told.get("PYTHONPATH") == os.environ.get("PYTHONPATH")  # another Python would choke


async def test_the_end_of_a_command_comes_with_what_it_has_used(outside: Outside) -> None:
    script = "import time\nheld = b'x' * 30_000_000\nwhile time.process_time() < 1: pass"
    attempt, outcome = await outside.run({"command": [sys.executable, "-c", script]})
    assert outcome == Outcome("succeeded", 0)
    used = attempt.usage.latest
    assert used is not None
    assert used["cpu_seconds"] >= 0.9  # counted in ticks
    assert used["memory_peak_bytes"] >= 30_000_000
    assert (used["processes_max"], used["limits"]) == (1, "none")


async def test_beside_placed_work_with_devices_a_command_sees_none(
    workplace: Workplace, watchdog: WatchdogHandle, slot: Slot
) -> None:
    line = "echo ${CUDA_VISIBLE_DEVICES-unset}:${ROCR_VISIBLE_DEVICES-unset}"
    environment = {"CUDA_VISIBLE_DEVICES": "0,1"}
    async with Transport(workplace.url) as transport:
        for hides, seen in ((True, b":\n"), (False, b"0,1:unset\n")):
            outside = Outside(workplace, transport, watchdog, slot.fd, hides_devices=hides)
            attempt, _ = await outside.run(line, environment=environment)
            assert await workplace.log(attempt.task_id) == seen


STATUSES = [
    ("true", Outcome("succeeded", 0)),
    ("exit 3", Outcome("failed", 3, "exit code 3", "TransientError", "exec")),
    ("kill -SEGV $$", Outcome("failed", 139, "ended by SIGSEGV", "TransientError", "exec")),
    ("kill -40 $$", Outcome("failed", 168, "ended by signal 40", "TransientError", "exec")),
]


async def test_the_end_of_a_command_is_told_by_its_status(outside: Outside) -> None:
    for line, outcome in STATUSES:
        assert (await outside.run(line))[1] == outcome


async def test_a_command_that_cannot_be_run_has_failed_before_it_began(outside: Outside) -> None:
    attempt, outcome = await outside.run({"command": ["no-such-program"]})
    assert (outcome.status, outcome.stage) == ("failed", "fetch")
    assert outcome.error == "cannot run 'no-such-program': No such file or directory"
    assert attempt.started_at is None


async def test_a_folder_that_cannot_be_made_is_the_workers_fault(outside: Outside) -> None:
    outside.folder.write_text("a file where a folder should be")
    _, outcome = await outside.run("true")
    assert outcome.status == "worker_failed"


async def test_output_arrives_complete_and_in_order(outside: Outside) -> None:
    lines = b"".join(b"line %d: \xc3\xa4\xe2\x82\xac\n" % number for number in range(20_000))
    script = (
        "import sys\n"
        "for number in range(20_000):\n"
        "    out = sys.stdout if number % 2 else sys.stderr\n"
        "    out.buffer.write(f'line {number}: \\u00e4\\u20ac\\n'.encode())\n"
        "    out.flush()\n"
    )
    attempt, outcome = await outside.run({"command": [sys.executable, "-c", script]})
    assert outcome == Outcome("succeeded", 0)
    assert await outside.workplace.log(attempt.task_id) == lines


async def test_output_can_be_read_while_the_command_runs(outside: Outside) -> None:
    line = "echo hello; touch began; while [ ! -e go ]; do sleep 0.01; done; printf last"
    attempt, running = await outside.begin(line)
    await eventually(lambda: outside.workplace.log(attempt.task_id))
    assert await outside.workplace.log(attempt.task_id) == b"hello\n"
    (outside.folder / f"{attempt.task_id}.0" / "work" / "go").touch()
    assert await running == Outcome("succeeded", 0)
    assert await outside.workplace.log(attempt.task_id) == b"hello\nlast"


async def test_output_outlives_a_server_that_is_away(
    workplace: Workplace, watchdog: WatchdogHandle, slot: Slot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping_module, "LOG_CALL_SECONDS_MAX", 0.1)
    async with FaultyProxy(workplace.url) as proxy, Transport(proxy.url) as transport:
        outside = Outside(workplace, transport, watchdog, slot.fd)
        script = "touch began; echo one; while [ ! -e go ]; do sleep 0.01; done; echo two"
        attempt, running = await outside.begin(script)
        await proxy.cut()
        (outside.folder / f"{attempt.task_id}.0" / "work" / "go").touch()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(running), 1.0)
        proxy.mend()
        assert await running == Outcome("succeeded", 0)
        assert await workplace.log(attempt.task_id) == b"one\ntwo\n"


@pytest.mark.parametrize("is_ended", [False, True])
async def test_a_hard_stop_does_not_wait_for_a_server_that_is_away(
    workplace: Workplace, watchdog: WatchdogHandle, slot: Slot, is_ended: bool
) -> None:
    async with FaultyProxy(workplace.url) as proxy, Transport(proxy.url) as transport:
        outside = Outside(workplace, transport, watchdog, slot.fd)
        script = "touch began; while [ ! -e go ]; do sleep 0.01; done; echo one; touch said"
        attempt, running = await outside.begin(script if is_ended else f"{script}; sleep 600")
        work = outside.folder / f"{attempt.task_id}.0" / "work"
        await proxy.cut()
        (work / "go").touch()
        await eventually((work / "said").exists)
        if is_ended:
            await eventually(lambda: attempt.on_renewed is None)
        stop(attempt, "hard")
        await asyncio.wait([running], timeout=20)
        assert running.done()
        assert running.result().status == "killed"


async def test_output_that_nobody_wants_holds_up_nothing(
    workplace: Workplace, watchdog: WatchdogHandle, slot: Slot
) -> None:
    async with FaultyProxy(workplace.url) as proxy, Transport(proxy.url) as transport:
        outside = Outside(workplace, transport, watchdog, slot.fd)
        attempt = await outside.claim("echo one")
        await proxy.cut()
        attempt.ask_to_stop("lost", boot_clock())
        await asyncio.wait_for(outside.runner.run(attempt, None), 30)


async def test_of_too_much_output_both_ends_are_kept_and_a_line_says_so(outside: Outside) -> None:
    attempt, outcome = await outside.run("seq -f %099.0f 200000; echo the last words >&2; exit 3")
    assert (outcome.status, outcome.exit_code) == ("failed", 3)
    with hf.Client(outside.workplace.url) as client:
        log = b"".join([part async for part in client.logs.aio(attempt.task_id)])
    whole = b"".join(b"%099d\n" % number for number in range(1, 200_001)) + b"the last words\n"
    # A writer that is slow may be passed over more than once.
    first, *others = re.split(rb"\[(\d+) bytes of output are left out here\]\n", log)
    offset = 0
    for part, left_out in zip([first, *others[1::2]], [*map(int, others[::2]), 0], strict=True):
        # What is left out is said in a line of its own, also where it is the rest of one.
        is_cut = not whole.startswith(part, offset)
        kept = part.removesuffix(b"\n") if is_cut else part
        assert whole.startswith(kept, offset)
        offset += len(kept) + left_out
    assert offset == len(whole)
    assert 8 << 20 <= len(first) <= 9 << 20
    assert (8 << 20) - 200 <= len(others[-1]) <= 10 << 20


TRAP = "trap 'echo asked; exit {code}' TERM; touch began; while :; do sleep 0.01; done"


async def test_a_command_is_asked_to_stop(outside: Outside) -> None:
    for mode in ("soft", "timeout"):
        attempt, running = await outside.begin(TRAP.format(code=3))
        stop(attempt, mode)
        assert await running == Outcome("killed", 3, "exit code 3")
        assert (await outside.workplace.log(attempt.task_id)).endswith(b"asked\n")


async def test_a_command_that_succeeds_after_it_was_asked_has_succeeded(outside: Outside) -> None:
    attempt, running = await outside.begin(TRAP.format(code=0))
    stop(attempt, "soft")
    assert await running == Outcome("succeeded", 0)


async def test_a_command_that_must_go_is_killed(outside: Outside) -> None:
    for mode in ("hard", "lost"):
        attempt, running = await outside.begin(TRAP.format(code=0))
        stop(attempt, mode)
        assert await running == Outcome("killed", 137, "ended by SIGKILL")


async def test_what_a_drain_interrupts_is_handed_back_once_it_is_gone(outside: Outside) -> None:
    _, running = await outside.begin("trap '' TERM; echo $$ > began; while :; do sleep 0.01; done")
    running.cancel()
    assert await running == HANDED_BACK


async def test_a_command_that_shall_stop_while_it_is_started_does_not_stay(
    outside: Outside,
) -> None:
    modes: list[StopMode | None] = [None, "hard", "soft"]
    for mode in modes:
        attempt = await outside.claim("exec sleep 600")
        running = asyncio.create_task(outside.runner.run(attempt, None))
        await asyncio.sleep(0)
        assert attempt.on_stop is None  # there is nothing to stop yet
        if mode is not None:
            attempt.ask_to_stop(mode, boot_clock())
        running.cancel()
        outcome = await asyncio.wait_for(running, 30)
        assert outcome.status == ("handed_back" if mode is None else "killed")
        assert not any(carries(name, attempt) for name in os.listdir("/proc"))


def carries(name: str, attempt: Attempt) -> bool:
    """Tell whether a process belongs to an attempt."""
    try:
        return str(attempt.lease_token).encode() in Path(f"/proc/{name}/environ").read_bytes()
    except OSError:
        return False


async def test_a_command_that_the_watchdog_killed_is_no_failure_of_the_task(
    outside: Outside,
) -> None:
    attempt, running = await outside.begin("touch began; exec sleep 600")
    attempt.lose(boot_clock() - 60)  # as after a long sleep of this machine
    outcome = await running
    assert outcome.status == "worker_failed"
    assert "lease" in (outcome.error or "")


async def test_a_renewal_that_comes_while_a_command_is_started_counts(outside: Outside) -> None:
    attempt = await outside.claim("sleep 1.5", lease=1.2)
    running = asyncio.create_task(outside.runner.run(attempt, None))
    await asyncio.sleep(0)
    assert attempt.on_renewed is None  # there is nothing to tell the watchdog of yet
    attempt.renew(boot_clock(), 60.0)
    assert await running == Outcome("succeeded", 0)


async def test_a_status_that_somebody_else_took_is_no_failure_of_the_task(
    outside: Outside,
) -> None:
    attempt, running = await outside.begin(
        "echo $$ > began; while [ ! -e go ]; do sleep 0.01; done"
    )
    folder = outside.folder / f"{attempt.task_id}.0" / "work"
    await eventually((folder / "began").read_text)
    pid = int((folder / "began").read_text())
    reaping = asyncio.create_task(asyncio.to_thread(os.waitpid, pid, 0))
    (folder / "go").touch()
    await reaping
    assert (await running).status == "worker_failed"


async def test_nothing_is_run_without_a_watchdog(
    workplace: Workplace, slot: Slot, tmp_path: Path
) -> None:
    watchdog = WatchdogHandle()
    watchdog.start(slot.fd)
    os.kill(watchdog.pid, signal.SIGKILL)
    await eventually(lambda: not watchdog.is_alive())
    async with Transport(workplace.url) as transport:
        outside = Outside(workplace, transport, watchdog, slot.fd)
        with pytest.raises(WatchdogLost):
            await outside.run(f"touch {tmp_path}/ran")
    watchdog.stop()
    assert not (tmp_path / "ran").exists()


async def test_nothing_is_left_of_an_attempt(outside: Outside) -> None:
    await outside.run("touch file; mkdir -p a/b; touch a/b/c; chmod 0 a/b/c")
    await outside.run({"command": ["no-such-program"]})
    assert list(outside.folder.iterdir()) == []


async def test_what_an_earlier_worker_left_is_cleared_away(outside: Outside) -> None:
    (outside.folder / "3.0.0" / "work").mkdir(parents=True)
    outside.runner.clear()
    outside.runner.clear()
    assert not outside.folder.exists()


async def test_a_function_runs_in_a_process_and_its_output_is_kept(outside: Outside) -> None:
    attempt, outcome = await outside.run(call("add_in_process", 2, b=3))
    assert outcome.result is not None
    total, pid = json.loads(outcome.result)
    assert total == 5
    assert pid != os.getpid()
    assert await outside.workplace.log(attempt.task_id) == b"adding 2 and 3\n"


async def test_a_function_whose_process_crashes_has_failed_with_the_signal(
    outside: Outside,
) -> None:
    _, outcome = await outside.run(call("crash", signal.SIGSEGV))
    assert outcome == Outcome("failed", 139, "ended by SIGSEGV", "TransientError", "exec")


async def test_a_function_that_leaves_without_a_word_has_failed(outside: Outside) -> None:
    _, outcome = await outside.run(call("leave", 0))
    assert (outcome.status, outcome.exit_code) == ("failed", 0)
    assert "without an outcome" in (outcome.error or "")


async def test_a_function_in_a_process_is_asked_to_stop(outside: Outside, tmp_path: Path) -> None:
    attempt = await outside.claim(call("wait_for_file", f"{tmp_path}/began", f"{tmp_path}/go"))
    running = asyncio.create_task(outside.runner.run(attempt, None))
    await eventually((tmp_path / "began").exists)
    stop(attempt, "soft")
    assert await running == KILLED


async def test_what_a_function_has_left_counts_even_if_a_drain_kills_it(
    outside: Outside, tmp_path: Path
) -> None:
    attempt = await outside.claim(call("wait_for_file", f"{tmp_path}/began", f"{tmp_path}/go"))
    running = asyncio.create_task(outside.runner.run(attempt, None))
    await eventually((tmp_path / "began").exists)
    told = outside.folder / f"{attempt.task_id}.0" / "outcome.json"
    told.write_text('{"status": "succeeded", "exit_code": 0, "result": "7"}')
    running.cancel()
    assert await running == Outcome("succeeded", 0, result="7")


@pytest.mark.parametrize("status", ["handed_back", "worker_failed", "killed"])
async def test_a_function_cannot_buy_a_retry_by_what_it_leaves(
    outside: Outside, status: str
) -> None:
    text = json.dumps({"status": status})
    _, outcome = await outside.run(call("leave_a_file", "../outcome.json", text))
    assert (outcome.status, outcome.stage) == ("failed", "output")


async def test_a_command_does_not_say_how_it_ended_but_by_its_status(outside: Outside) -> None:
    line = """echo '{"status": "handed_back"}' > ../outcome.json; exit 3"""
    _, outcome = await outside.run(line)
    assert (outcome.status, outcome.exit_code) == ("failed", 3)
