"""Code that does not stop when it must: it goes, with its worker; its neighbours do not pay.

The network is up all the time: what ends the worker is not a lease that cannot be renewed.
"""

import base64
import signal
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from holdfast.worker.exit_codes import EXIT_OVERRUN, EXIT_UNSTOPPABLE
from tests.audits import assert_audit_is_silent
from tests.waiting import eventually
from tests.worker.claimed.test_worker_processes import exit_of, pid_in
from tests.worker.living import lives
from tests.worker.sample_tasks import wait_for_file
from tests.worker.workplace import Workplace, call

AT_ONCE: dict[str, Any] = {"backoff": {"base": 0.0}}


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("receive", "timeout"),
        ("receive", "soft"),
        ("receive", "hard"),
        ("refuse_to_stop", "hard"),
        ("block_the_loop", "timeout"),
        ("block_the_loop", "hard"),
    ],
)
async def test_code_that_does_not_stop_ends_its_worker(
    workplace: Workplace, tmp_path: Path, name: str, how: Any
) -> None:
    seconds = [600] if name == "block_the_loop" else []
    timeout = 0.5 if how == "timeout" else None
    stuck = await workplace.submit(
        call(name, f"{tmp_path}/began", *seconds), lease=3.0, grace=0.2, timeout=timeout
    )
    worker = workplace.launch()
    await eventually((tmp_path / "began").exists)
    if how != "timeout":
        await workplace.cancel(stuck, how)
    assert await exit_of(worker) in (
        EXIT_OVERRUN,
        EXIT_UNSTOPPABLE,
    )  # by its loop, or a little later its keeper
    attempt = await workplace.ended(stuck)
    assert attempt["state"] == (5 if how == "timeout" else 6)


async def test_a_task_whose_code_was_stuck_is_tried_again_by_the_next_worker(
    workplace: Workplace, tmp_path: Path, database: Any
) -> None:
    entrypoint = call("receive", f"{tmp_path}/began")
    spec: dict[str, Any] = {"lease": 120.0, "timeout": 0.5, "grace": 0.2, "max_retries_failure": 1}
    task_id = await workplace.submit(entrypoint, **spec, **AT_ONCE)
    worker = workplace.launch(go_seconds=2.0)
    assert await exit_of(worker) == EXIT_UNSTOPPABLE
    workplace.launch()
    task = await workplace.reach(task_id, "SUCCEEDED")
    assert (task["result"], task["failure_count"], task["preemption_count"]) == (
        '"not again"',
        1,
        0,
    )
    await assert_audit_is_silent(database)


async def test_the_neighbours_of_stuck_code_finish_or_are_handed_back(
    workplace: Workplace, tmp_path: Path
) -> None:
    lasting = [
        await workplace.submit(call(name, f"{tmp_path}/{name}", f"{tmp_path}/never"))
        for name in ("wait_for_file", "await_file")
    ]
    brief = await workplace.submit(call("wait_for_file", f"{tmp_path}/brief", f"{tmp_path}/go"))
    worker = workplace.launch(go_seconds=6.0)
    for name in ("wait_for_file", "await_file", "brief"):
        await eventually((tmp_path / name).exists)
    stuck = await workplace.submit(call("receive", f"{tmp_path}/began"), lease=30.0)
    await eventually((tmp_path / "began").exists)
    await workplace.cancel(stuck, "hard")
    (tmp_path / "go").touch()
    assert await exit_of(worker) == EXIT_UNSTOPPABLE
    assert await workplace.state(brief) == "SUCCEEDED"
    for task_id in lasting:
        [attempt] = await workplace.attempts(task_id)
        assert attempt["error"] == "handed back"
        [task] = await workplace.about("tasks", task_id)
        assert (task["state"], task["preemption_count"]) == (1, 0)


@pytest.mark.parametrize("name", ["hold_the_interpreter", "match_for_ever"])
async def test_code_that_lets_nobody_else_run_is_ended_by_the_watchdog(
    workplace: Workplace, tmp_path: Path, name: str
) -> None:
    stuck = await workplace.submit(call(name, f"{tmp_path}/began"), lease=2.0)
    worker = workplace.launch()
    assert await exit_of(worker) == -signal.SIGKILL
    attempt = await workplace.ended(stuck)
    assert attempt["error"] == "lease expired"


async def test_an_import_that_lets_nobody_else_run_is_ended_by_the_watchdog(
    workplace: Workplace, tmp_path: Path
) -> None:
    (tmp_path / "greedy.py").write_text("import ctypes\nctypes.PyDLL(None).sleep(600)\n")
    task_id = await workplace.submit({"function": "greedy:f"}, lease=2.0)
    worker = workplace.launch()
    assert await exit_of(worker) == -signal.SIGKILL
    attempt = await workplace.ended(task_id)
    assert attempt["error"] == "lease expired"


async def test_a_process_that_ignores_its_request_to_stop_is_killed_and_its_worker_goes_on(
    workplace: Workplace, tmp_path: Path
) -> None:
    stuck = await workplace.submit(call("ignore_sigterm", f"{tmp_path}/began"), grace=0.5)
    worker = workplace.launch()
    process = await pid_in(tmp_path / "began")
    await workplace.cancel(stuck, "soft")
    await workplace.ended(stuck)
    assert not lives(process)
    await workplace.reach(await workplace.submit(call("add", 1)), "SUCCEEDED")
    assert worker.poll() is None


class Blocking:
    """Cannot be unpickled before a file is there."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths

    def __reduce__(self) -> Any:
        return wait_for_file, self.paths


def blocked(kind: str, folder: Path) -> dict[str, Any]:
    """Write an entrypoint that waits for a file where it should not."""
    began, go = f"{folder}/began", f"{folder}/go"
    if kind == "import":
        text = f"from tests.worker.sample_tasks import *\nwait_for_file({began!r}, {go!r})\n"
        (folder / "slow.py").write_text(text)
        return {"function": "slow:echo", "args": [1]}
    if kind == "unpickle":
        packed = cloudpickle.dumps((Blocking(began, go), [], {}))
        return {"pickle": base64.b64encode(packed).decode()}
    return call("block_the_loop", began, 600)


@pytest.mark.parametrize("kind", ["import", "unpickle", "coroutine"])
async def test_a_worker_claims_and_leaves_while_code_blocks(
    workplace: Workplace, tmp_path: Path, kind: str
) -> None:
    stuck = await workplace.submit(blocked(kind, tmp_path), lease=2.0)
    worker = workplace.launch(drain_seconds=0.2, stop_seconds=0.5)
    await eventually((tmp_path / "began").exists)
    await workplace.reach(stuck, "RUNNING")
    other = await workplace.submit(call("add_in_thread", 1))
    await workplace.reach(other, "SUCCEEDED")
    worker.terminate()
    assert await exit_of(worker) in (0, EXIT_UNSTOPPABLE)


async def test_coroutines_that_wait_for_a_blocked_loop_are_handed_back(
    workplace: Workplace, tmp_path: Path
) -> None:
    await workplace.submit(call("block_the_loop", f"{tmp_path}/began", 600))
    workplace.launch(blocked_seconds=0.5)
    await eventually((tmp_path / "began").exists)
    waiting = await workplace.submit(call("add", 1))
    attempt = await workplace.ended(waiting)
    assert attempt["error"] == "handed back"
    workplace.launch()
    await workplace.reach(waiting, "SUCCEEDED")
