"""Functions within the worker's own process: how they are stopped, begun or not, blocked or not."""

import asyncio
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from holdfast.worker.claimed import function_runner as runner_module
from holdfast.worker.claimed import interruptible as interruptible_module
from holdfast.worker.running.attempt_outcome import HANDED_BACK, KILLED, Outcome
from tests.waiting import eventually
from tests.worker import sample_tasks
from tests.worker.claimed.inside import Inside

RUNNER_FILES = (runner_module.__file__, interruptible_module.__file__)
WAITS = [sample_tasks.wait_for_file, sample_tasks.await_file]


@pytest.mark.parametrize("function", WAITS)
@pytest.mark.parametrize("mode", ["soft", "timeout", "hard", "lost"])
async def test_code_that_asks_nobody_is_interrupted_by_any_request(
    inside: Inside, tmp_path: Path, function: Any, mode: str
) -> None:
    call, running = inside.begin(function, f"{tmp_path}/began", f"{tmp_path}/go")
    await eventually((tmp_path / "began").exists)
    inside.stop(call, mode)
    assert await running == KILLED


@pytest.mark.parametrize("function", [sample_tasks.wait_for_cancel, sample_tasks.await_cancel])
@pytest.mark.parametrize("mode", ["soft", "timeout"])
async def test_code_that_asks_for_itself_may_finish(
    inside: Inside, tmp_path: Path, function: Any, mode: str
) -> None:
    call, running = inside.begin(function, f"{tmp_path}/began")
    await eventually((tmp_path / "began").exists)
    inside.stop(call, mode)
    assert await running == Outcome("succeeded", 0, result='"stopped by itself"')


async def test_code_that_could_ask_but_does_not_is_interrupted_in_the_end(
    inside: Inside, tmp_path: Path
) -> None:
    call, running = inside.begin(sample_tasks.ignore_cancel, f"{tmp_path}/began")
    await eventually((tmp_path / "began").exists)
    inside.stop(call, "soft")
    inside.stop(call, "hard")
    assert await running == KILLED


async def test_an_error_after_a_request_to_stop_is_how_it_was_stopped(
    inside: Inside, tmp_path: Path
) -> None:
    call, running = inside.begin(sample_tasks.turn_cancel_into_error, f"{tmp_path}/began")
    await eventually((tmp_path / "began").exists)
    inside.stop(call, "soft")
    outcome = await running
    assert outcome.status == "killed"
    assert outcome.error is not None
    assert outcome.error.startswith("ConnectionError: cancelled in the middle")


@pytest.mark.parametrize("function", [*WAITS, sample_tasks.ignore_cancel])
async def test_what_a_drain_interrupts_is_handed_back_once_it_is_gone(
    inside: Inside, tmp_path: Path, function: Any
) -> None:
    given = [f"{tmp_path}/began", f"{tmp_path}/go"] if function in WAITS else [f"{tmp_path}/began"]
    call, running = inside.begin(function, *given)
    await eventually((tmp_path / "began").exists)
    inside.runner.interrupt(call)
    assert await running == HANDED_BACK


async def test_an_error_because_of_a_drain_is_handed_back(inside: Inside, tmp_path: Path) -> None:
    call, running = inside.begin(sample_tasks.turn_cancel_into_error, f"{tmp_path}/began")
    await eventually((tmp_path / "began").exists)
    inside.runner.interrupt(call)
    assert await running == HANDED_BACK


async def test_a_thread_that_cannot_be_interrupted_is_waited_for(inside: Inside) -> None:
    let_go = threading.Event()
    began = threading.Event()

    def wait_for_good() -> str:
        began.set()
        let_go.wait(60)  # one step, in C
        return "over"

    call, waiting = inside.begin(wait_for_good)
    await eventually(began.is_set)
    for _ in range(3):
        inside.runner.interrupt(call)
        await asyncio.sleep(0)
        assert not waiting.done()
    let_go.set()
    assert await waiting == HANDED_BACK


async def test_a_call_that_is_stopped_before_its_thread_is_free_never_runs(
    inside: Inside, tmp_path: Path
) -> None:
    _, first = inside.begin(sample_tasks.wait_for_file, f"{tmp_path}/one", f"{tmp_path}/go")
    await eventually((tmp_path / "one").exists)
    call, second = inside.begin(sample_tasks.wait_for_file, f"{tmp_path}/two", f"{tmp_path}/go")
    inside.stop(call, "hard")
    (tmp_path / "go").touch()
    assert await second == KILLED
    assert (await first).status == "succeeded"
    assert not (tmp_path / "two").exists()


class Saboteur:
    """Interrupts a call just before a step that the runner takes after the function's end."""

    def __init__(self, inside: Inside, step: int) -> None:
        self.inside = inside
        self.step = step
        self.steps_seen = 0
        self.is_retired = False

    def __call__(self) -> str:
        """Be the function: all that follows in this thread is watched."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            frame.f_trace = self._trace
            frame = frame.f_back
        sys.settrace(self._trace)
        return "returned"

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if self.is_retired:
            sys.settrace(None)
        elif frame.f_code.co_filename in RUNNER_FILES and event == "line":
            self.steps_seen += 1
            if self.steps_seen == self.step:
                sys.settrace(None)
                stop = (self.inside.latest, "hard")
                interrupting = threading.Thread(target=self.inside.stop, args=stop)
                interrupting.start()
                interrupting.join(0.05)  # it may wait for what this thread holds
        return self._trace


async def test_an_interruption_that_comes_late_never_hits_anything_else(inside: Inside) -> None:
    # One thread for all: what is aimed at a call that has just ended would hit the one after it.
    for step in range(1, 100):
        saboteur = Saboteur(inside, step)
        _, running = inside.begin(saboteur)
        assert await running in (KILLED, Outcome("succeeded", 0, result='"returned"'))
        saboteur.is_retired = True
        after = await inside.run(sample_tasks.add_in_thread, 2, 3)
        assert after == Outcome("succeeded", 0, result="5")
        if saboteur.steps_seen < step:
            break
    assert 5 < step < 99


async def test_a_coroutine_that_waits_for_a_blocked_loop_can_be_stopped_before_it_begins(
    inside: Inside,
) -> None:
    assert (await inside.run(sample_tasks.add, 1)).status == "succeeded"
    began, let_go = threading.Event(), threading.Event()

    async def block() -> None:
        began.set()
        let_go.wait(60)

    _, blocking = inside.begin(block)
    await eventually(began.is_set)
    killed, first = inside.begin(sample_tasks.add, 1)
    inside.stop(killed, "soft")
    assert await first == KILLED
    drained, second = inside.begin(sample_tasks.add, 1)
    inside.runner.interrupt(drained)
    assert await second == HANDED_BACK
    _, third = inside.begin(sample_tasks.add, 1)
    let_go.set()
    assert (await blocking).status == (await third).status == "succeeded"


async def test_coroutines_that_wait_too_long_are_handed_back_and_a_blocked_loop_goes_on(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runner_module, "BLOCKED_SECONDS_MAX", 0.2)
    assert (await inside.run(sample_tasks.add, 1)).status == "succeeded"
    began, let_go = threading.Event(), threading.Event()

    async def block_for_good() -> None:
        began.set()
        let_go.wait(60)

    _, blocking = inside.begin(block_for_good)
    await eventually(began.is_set)
    waiting = [inside.begin(sample_tasks.add, 1)[1] for _ in range(3)]
    assert await asyncio.gather(*waiting) == [HANDED_BACK] * 3
    assert inside.runner.is_blocked
    assert "in block_for_good" in caplog.text  # it says where
    let_go.set()
    assert (await blocking).status == "succeeded"
    await eventually(lambda: inside.times_unblocked and not inside.runner.is_blocked)
    assert (await inside.run(sample_tasks.add, 1)).status == "succeeded"


async def test_a_coroutine_that_stops_its_loop_or_breaks_out_of_it_harms_nobody(
    inside: Inside,
) -> None:
    async def stop_the_loop() -> None:
        asyncio.get_running_loop().stop()

    async def break_out() -> None:
        asyncio.get_running_loop().call_soon(sys.exit)

    async def cancel_all() -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    for function in (stop_the_loop, break_out, cancel_all):
        assert (await inside.run(function)).status == "succeeded"
        assert (await inside.run(sample_tasks.add, 1)).status == "succeeded"
    both_wait = threading.Event()

    async def block() -> None:
        both_wait.wait(10)

    both_wait.set()
    await inside.run(block)  # once, so that it is known and begins without a thread
    both_wait.clear()
    blocking = inside.begin(block)[1]
    first, second = [inside.begin(cancel_all)[1] for _ in range(2)]
    both_wait.set()
    assert (await blocking).status == "succeeded"
    assert (await first).status == "succeeded"
    assert (await second).status == "failed"  # it was cancelled before it began
