"""Workers as processes: frozen, blocked, killed; no code outlives its lease or its worker."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil

import holdfast as hf
from holdfast.worker.exit_codes import EXIT_OVERRUN, EXIT_UNSTOPPABLE
from tests.audits import assert_audit_is_silent
from tests.waiting import eventually
from tests.worker.faulty_proxy import FaultyProxy
from tests.worker.living import lives
from tests.worker.workplace import Workplace, call

SHELL = "echo $$ > {0}/pid.partial; mv {0}/pid.partial {0}/pid; trap '' TERM; exec sleep 600"


async def pid_in(path: Path) -> psutil.Process:
    """Wait until a process has told its number."""
    text = await eventually(lambda: path.exists() and path.read_text())
    return psutil.Process(int(text))


async def exit_of(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a worker."""
    return await asyncio.to_thread(process.wait, 60)


async def test_a_killed_worker_takes_its_commands_along_and_the_next_one_takes_over(
    workplace: Workplace, tmp_path: Path, database: Any
) -> None:
    task_id = await workplace.submit({"shell": SHELL.format(tmp_path)}, lease=120.0)
    worker = workplace.launch()
    sleeper = await pid_in(tmp_path / "pid")
    worker.kill()
    await exit_of(worker)
    await eventually(lambda: not lives(sleeper))
    (tmp_path / "pid").unlink()
    workplace.launch()
    await pid_in(tmp_path / "pid")
    [attempt] = await workplace.attempts(task_id)
    assert attempt["error"] == "worker replaced after it was gone"
    assert not list((tmp_path / "slot-0" / "attempts").glob(f"{task_id}.0"))
    await assert_audit_is_silent(database)


async def test_a_frozen_worker_does_not_wake_up_with_code_of_a_lost_lease(
    workplace: Workplace, tmp_path: Path
) -> None:
    entrypoint = call("wait_for_file", f"{tmp_path}/began", f"{tmp_path}/go")
    task_id = await workplace.submit(entrypoint, lease=1.5)
    worker = workplace.launch()
    await eventually((tmp_path / "began").exists)
    worker.send_signal(signal.SIGSTOP)
    assert await exit_of(worker) == -signal.SIGKILL
    attempt = await workplace.ended(task_id)
    assert attempt["error"] == "lease expired"


async def test_the_commands_of_a_frozen_worker_end_and_it_goes_on_when_it_wakes_up(
    workplace: Workplace, tmp_path: Path
) -> None:
    task_id = await workplace.submit(
        {"shell": SHELL.format(tmp_path)}, lease=1.5, max_retries_preemption=0, on_exhausted="fail"
    )
    worker = workplace.launch()
    sleeper = await pid_in(tmp_path / "pid")
    worker.send_signal(signal.SIGSTOP)
    await eventually(lambda: not lives(sleeper))
    worker.send_signal(signal.SIGCONT)
    attempt = await workplace.ended(task_id)
    assert attempt["state"] == 7  # no failure of the task
    await workplace.reach(await workplace.submit(call("add", 1)), "SUCCEEDED")
    assert worker.poll() is None


async def test_code_that_blocks_the_loop_keeps_its_lease(
    workplace: Workplace, tmp_path: Path
) -> None:
    entrypoint = call("block_the_loop", f"{tmp_path}/began", 2.5)
    task_id = await workplace.submit(entrypoint, lease=1.5)
    workplace.launch()
    await workplace.reach(task_id, "SUCCEEDED")
    [attempt] = await workplace.attempts(task_id)
    assert attempt["attempt"] == 0


async def test_code_that_lets_no_thread_run_ends_with_its_worker(
    workplace: Workplace, tmp_path: Path
) -> None:
    task_id = await workplace.submit(call("hog", f"{tmp_path}/began"), lease=1.5)
    worker = workplace.launch()
    assert await exit_of(worker) == -signal.SIGKILL
    attempt = await workplace.ended(task_id)
    assert attempt["error"] == "lease expired"


async def test_code_that_cannot_be_stopped_ends_its_worker_before_the_lease_ends(
    workplace: Workplace, tmp_path: Path
) -> None:
    entrypoint = call("sleep", f"{tmp_path}/began", 600)
    task_id = await workplace.submit(entrypoint, lease=2.0)
    async with FaultyProxy(workplace.url) as proxy:
        worker = workplace.launch(server=proxy.url)
        await eventually((tmp_path / "began").exists)
        await proxy.cut()
        # By itself, or by its keeper: whoever is first.
        assert await exit_of(worker) in (EXIT_UNSTOPPABLE, EXIT_OVERRUN)
        assert await workplace.about("leases", task_id)  # nobody has taken it away yet
        [task] = await workplace.about("tasks", task_id)
        assert task["attempt"] == 0


async def test_a_drained_worker_ends_even_if_its_code_does_not(
    workplace: Workplace, tmp_path: Path
) -> None:
    stuck = await workplace.submit(call("sleep", f"{tmp_path}/began", 600))
    command = await workplace.submit({"shell": SHELL.format(tmp_path)})
    worker = workplace.launch(drain_seconds=0.0, stop_seconds=0.5)
    await eventually((tmp_path / "began").exists)
    sleeper = await pid_in(tmp_path / "pid")
    worker.terminate()
    assert await exit_of(worker) == EXIT_UNSTOPPABLE
    assert not lives(sleeper)
    assert (await workplace.attempts(command))[0]["error"] == "handed back"
    assert not await workplace.attempts(stuck)  # nobody says that it is gone


async def test_a_worker_that_is_idle_outlives_the_leases_it_had(
    workplace: Workplace,
) -> None:
    worker = workplace.launch(drain_seconds=60.0)
    await workplace.reach(await workplace.submit(call("add", 1), lease=0.6), "SUCCEEDED")
    # Longer than that lease; what runs meanwhile is not in the worker's own process.
    await workplace.reach(await workplace.submit({"shell": "sleep 1"}), "SUCCEEDED")
    await workplace.reach(await workplace.submit(call("add", 1)), "SUCCEEDED")
    assert worker.poll() is None
    worker.terminate()
    assert await exit_of(worker) == 0


async def test_programs_that_a_function_has_started_end_with_a_marked_worker(
    workplace: Workplace, tmp_path: Path
) -> None:
    task_id = await workplace.submit(call("start_a_program", f"{tmp_path}/pid"))
    worker = workplace.launch(mark=f"HOLDFAST_WORKER={os.getpid()}-{task_id}")
    program = await pid_in(tmp_path / "pid")
    await workplace.reach(task_id, "SUCCEEDED")
    assert lives(program)
    worker.kill()
    await exit_of(worker)
    await eventually(lambda: not lives(program))


async def test_what_a_command_uses_is_shown_while_it_runs_and_when_it_has_ended(
    workplace: Workplace, tmp_path: Path
) -> None:
    line = f"touch {tmp_path}/began; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    task_id = await workplace.submit({"shell": line}, lease=120.0)
    workplace.launch()
    async with hf.Client(workplace.url) as client:

        async def used() -> Any:
            task = await client.tasks.get.aio(task_id)
            return task if task.attempts and task.attempts[0].usage else None

        task = await eventually(used)
        assert task.state == "TASK_STATE_RUNNING"
        assert task.attempts[0].usage == task.resource_usage
        assert task.resource_usage.memory_peak_bytes > 0
        [account] = await workplace.about("attempt_usage", task_id)
        assert not account["is_final"]
        (tmp_path / "go").touch()
        await workplace.reach(task_id, "SUCCEEDED")
        ended = (await client.tasks.get.aio(task_id)).resource_usage
    assert ended is not None
    assert ended.cpu_seconds >= task.resource_usage.cpu_seconds
    [account] = await workplace.about("attempt_usage", task_id)
    assert account["is_final"]
