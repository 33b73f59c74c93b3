"""A function in a process of its own: its call, its outcome, and requests to stop."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from holdfast.client.context import Identity
from holdfast.model.submitting.spec import Entrypoint
from holdfast.worker.running.attempt_outcome import STOPPED, Outcome
from holdfast.worker.running.child import CALL_FILE, ChildCall, run
from holdfast.worker.running.outcome_file import read_outcome
from tests.embedded.users import ROOT
from tests.waiting import eventually
from tests.worker.workplace import call

NOWHERE = "http://127.0.0.1:1"
Start = Callable[..., subprocess.Popen[bytes]]


def a_call(entrypoint: dict[str, Any], *, imports: list[str] | None = None) -> ChildCall:
    identity = Identity(
        server=NOWHERE,
        task_id="7.3",
        attempt=2,
        lease_token=uuid4(),
        job_name="sample",
        num_tasks=4,
        correlation_id="c",
    )
    found = msgspec.convert(entrypoint, Entrypoint)
    return ChildCall(identity, found, False, imports or [])


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start children in the test's folder; all are gone in the end."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(name: str, *args: Any) -> subprocess.Popen[bytes]:
        (tmp_path / CALL_FILE).write_bytes(msgspec.json.encode(a_call(call(name, *args))))
        command = [sys.executable, "-m", "holdfast.worker.running.child", str(tmp_path)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        started.append(subprocess.Popen(command, env=environment, cwd=tmp_path))
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.wait()


def outcome_in(folder: Path) -> Outcome:
    outcome = read_outcome(folder, was_asked_to_stop=False)
    assert outcome is not None
    return outcome


@pytest.mark.parametrize("name", ["add", "add_in_thread"])
def test_the_outcome_is_left_in_a_file(start: Start, tmp_path: Path, name: str) -> None:
    assert start(name, 2, 3).wait(60) == 0
    assert outcome_in(tmp_path) == Outcome("succeeded", 0, result="5")


def test_a_failure_is_an_outcome_too(start: Start, tmp_path: Path) -> None:
    assert start("fail", "exit").wait(60) == 0
    outcome = outcome_in(tmp_path)
    assert (outcome.status, outcome.error_class, outcome.stage) == ("failed", "SystemExit", "exec")


def test_a_crash_leaves_no_outcome(start: Start, tmp_path: Path) -> None:
    assert start("crash", 6).wait(60) == -6
    assert read_outcome(tmp_path, was_asked_to_stop=False) is None


@pytest.mark.parametrize("name", ["wait_for_file", "await_file"])
async def test_a_function_that_asks_nobody_is_interrupted(
    start: Start, tmp_path: Path, name: str
) -> None:
    child = start(name, f"{tmp_path}/began", f"{tmp_path}/go")
    await eventually((tmp_path / "began").exists)
    child.terminate()
    assert await asyncio.to_thread(child.wait, 60) == 0
    assert outcome_in(tmp_path) == STOPPED


@pytest.mark.parametrize("name", ["wait_for_cancel", "await_cancel", "catch_sigterm"])
async def test_a_function_that_hears_for_itself_may_finish(
    start: Start, tmp_path: Path, name: str
) -> None:
    child = start(name, f"{tmp_path}/began")
    await eventually((tmp_path / "began").exists)
    child.terminate()
    assert await asyncio.to_thread(child.wait, 60) == 0
    assert outcome_in(tmp_path).status == "succeeded"


async def test_an_error_after_a_request_to_stop_is_how_it_was_stopped(
    start: Start, tmp_path: Path
) -> None:
    child = start("turn_cancel_into_error", f"{tmp_path}/began")
    await eventually((tmp_path / "began").exists)
    child.terminate()
    assert await asyncio.to_thread(child.wait, 60) == 0
    outcome = read_outcome(tmp_path, was_asked_to_stop=True)
    assert outcome is not None
    assert outcome.status == "killed"
    assert outcome.error is not None
    assert outcome.error.startswith("ConnectionError")


def test_neither_threads_nor_words_about_progress_keep_a_child_that_is_done(
    start: Start, tmp_path: Path
) -> None:
    # There is no server to hear of the progress, and the function does not care.
    assert start("leave_a_thread").wait(60) == 0
    assert outcome_in(tmp_path) == Outcome("succeeded", 0, result='["7.3",2]')


@pytest.mark.parametrize("code", ["import no_such_module", "import sys; sys.exit(1)", "1 +"])
def test_a_module_that_cannot_be_imported_is_a_failure_to_fetch(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"broken_{uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    outcome = run(a_call(call("echo", 1), imports=[name]))
    assert (outcome.status, outcome.stage) == ("failed", "fetch")


def test_what_cannot_be_called_is_told_by_its_stage() -> None:
    assert run(a_call({"function": "no.such:thing"})).stage == "fetch"
    assert run(a_call(call("echo", 1, 2))).stage == "input"
