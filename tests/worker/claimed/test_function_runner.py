"""Functions within the worker's own process: how they end, and how they are stopped."""

import asyncio
import inspect
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.order import ResultPosition
from holdfast.model.spec import Entrypoint
from holdfast.worker.claimed import function_runner as runner_module
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.claimed.function_runner import FunctionRunner
from holdfast.worker.running.function import HANDED_BACK, KILLED, Callee, Outcome
from tests.waiting import eventually
from tests.worker import sample_tasks
from tests.worker.claims import a_claim, an_attempt


class Inside:
    """A runner, and what it is given to run."""

    def __init__(self) -> None:
        self.runner = FunctionRunner("http://127.0.0.1:1", threads_max=1)

    def begin(
        self, function: Callable[..., Any], *args: Any, **job: Any
    ) -> tuple[Attempt, asyncio.Task[Outcome]]:
        """Begin to run a function as an attempt."""
        found = getattr(function, "function", function)
        signature = inspect.signature(found)
        callee = Callee(
            found,
            signature,
            inspect.iscoroutinefunction(found),
            "ctx" in signature.parameters,
            "auto",
            list(args),
            {},
            pickled=False,
        )
        attempt = an_attempt(**job)
        return attempt, asyncio.create_task(self.runner.run(attempt, callee))

    async def run(self, function: Callable[..., Any], *args: Any) -> Outcome:
        """Run a function to its end."""
        return await self.begin(function, *args)[1]


@pytest.fixture
async def inside() -> AsyncIterator[Inside]:
    """A runner with one thread."""
    inside = Inside()
    yield inside
    inside.runner.close()


def stop(attempt: Attempt, mode: Any) -> None:
    """Ask an attempt to stop, as its worker does."""
    assert attempt.ask_to_stop(mode, None)
    assert attempt.on_stop is not None
    attempt.on_stop(mode)


WAITS = [sample_tasks.wait_for_file, sample_tasks.await_file]


@pytest.mark.parametrize("function", [sample_tasks.add, sample_tasks.add_in_thread])
async def test_what_a_function_returns_is_the_result(inside: Inside, function: Any) -> None:
    assert await inside.run(function, 2, 3) == Outcome("succeeded", 0, result="5")


async def test_a_function_that_is_not_async_runs_in_a_thread(inside: Inside) -> None:
    outcome = await inside.run(lambda: threading.current_thread() is threading.main_thread())
    assert outcome.result == "false"


async def test_a_start_is_noted_when_the_code_begins(inside: Inside) -> None:
    attempt, running = inside.begin(sample_tasks.echo, 1)
    assert attempt.started_at is None
    await running
    assert attempt.started_at is not None


@pytest.mark.parametrize("kind", ["value", "permanent", "invalid", "exit", "odd"])
async def test_whatever_a_thread_raises_is_how_it_failed(inside: Inside, kind: str) -> None:
    outcome = await inside.run(sample_tasks.fail, kind)
    assert (outcome.status, outcome.stage) == ("failed", "exec")
    assert await inside.run(sample_tasks.echo, 1) == Outcome("succeeded", 0, result="1")


@pytest.mark.parametrize(
    "error", [ValueError, SystemExit, KeyboardInterrupt, sample_tasks.OddError]
)
async def test_whatever_a_coroutine_raises_is_how_it_failed(
    inside: Inside, error: type[BaseException]
) -> None:
    async def fail() -> None:
        raise error

    outcome = await inside.run(fail)
    assert (outcome.status, outcome.error_class) == ("failed", error.__name__)


async def test_a_coroutine_that_cancels_itself_has_failed(inside: Inside) -> None:
    async def cancel() -> None:
        raise asyncio.CancelledError

    assert (await inside.run(cancel)).status == "failed"


async def test_bad_arguments_never_reach_the_function(inside: Inside) -> None:
    attempt, running = inside.begin(sample_tasks.echo, 1, 2)
    outcome = await running
    assert (outcome.error_class, outcome.stage) == ("ValidationError", "input")
    assert attempt.started_at is None


async def test_a_call_whose_results_do_not_come_can_be_stopped(inside: Inside) -> None:
    position = ResultPosition(["args", 0], "8")
    entrypoint = Entrypoint(function="a:b", args=[None], results=[position])
    attempt, running = inside.begin(sample_tasks.echo, None, entrypoint=entrypoint)
    await asyncio.wait([running], timeout=0.2)  # nobody answers there
    assert attempt.on_stop is None
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("function", WAITS)
@pytest.mark.parametrize("mode", ["soft", "timeout", "hard", "lost"])
async def test_code_that_asks_nobody_is_interrupted_by_any_request(
    inside: Inside, tmp_path: Path, function: Any, mode: str
) -> None:
    attempt, running = inside.begin(function, f"{tmp_path}/began", f"{tmp_path}/go")
    await eventually((tmp_path / "began").exists)
    stop(attempt, mode)
    assert await running == KILLED


@pytest.mark.parametrize("function", [sample_tasks.wait_for_cancel, sample_tasks.await_cancel])
@pytest.mark.parametrize("mode", ["soft", "timeout"])
async def test_code_that_asks_for_itself_may_finish(
    inside: Inside, tmp_path: Path, function: Any, mode: str
) -> None:
    attempt, running = inside.begin(function, f"{tmp_path}/began")
    await eventually((tmp_path / "began").exists)
    stop(attempt, mode)
    assert await running == Outcome("succeeded", 0, result='"stopped by itself"')


async def test_code_that_could_ask_but_does_not_is_interrupted_in_the_end(
    inside: Inside, tmp_path: Path
) -> None:
    attempt, running = inside.begin(sample_tasks.ignore_cancel, f"{tmp_path}/began")
    await eventually((tmp_path / "began").exists)
    stop(attempt, "soft")
    stop(attempt, "hard")
    assert await running == KILLED


async def test_an_error_after_a_request_to_stop_is_how_it_was_stopped(
    inside: Inside, tmp_path: Path
) -> None:
    attempt, running = inside.begin(sample_tasks.turn_cancel_into_error, f"{tmp_path}/began")
    await eventually((tmp_path / "began").exists)
    stop(attempt, "soft")
    outcome = await running
    assert outcome.status == "killed"
    assert outcome.error is not None
    assert outcome.error.startswith("ConnectionError: cancelled in the middle")


@pytest.mark.parametrize("function", [*WAITS, sample_tasks.ignore_cancel])
async def test_what_a_drain_interrupts_is_handed_back_once_it_is_gone(
    inside: Inside, tmp_path: Path, function: Any
) -> None:
    given = [f"{tmp_path}/began", f"{tmp_path}/go"] if function in WAITS else [f"{tmp_path}/began"]
    _, running = inside.begin(function, *given)
    await eventually((tmp_path / "began").exists)
    running.cancel()
    assert await running == HANDED_BACK


async def test_an_error_because_of_a_drain_is_handed_back(inside: Inside, tmp_path: Path) -> None:
    _, running = inside.begin(sample_tasks.turn_cancel_into_error, f"{tmp_path}/began")
    await eventually((tmp_path / "began").exists)
    running.cancel()
    assert await running == HANDED_BACK


async def test_a_thread_that_cannot_be_interrupted_is_waited_for(inside: Inside) -> None:
    let_go = threading.Event()
    began = threading.Event()

    def wait_for_good() -> str:
        began.set()
        let_go.wait(60)  # one step, in C
        return "over"

    _, waiting = inside.begin(wait_for_good)
    await eventually(began.is_set)
    for _ in range(3):
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
    let_go.set()
    assert await waiting == HANDED_BACK


async def test_a_call_that_is_stopped_before_its_thread_is_free_never_runs(
    inside: Inside, tmp_path: Path
) -> None:
    _, first = inside.begin(sample_tasks.wait_for_file, f"{tmp_path}/one", f"{tmp_path}/go")
    await eventually((tmp_path / "one").exists)
    attempt, second = inside.begin(sample_tasks.wait_for_file, f"{tmp_path}/two", f"{tmp_path}/go")
    await eventually(lambda: attempt.on_stop)
    stop(attempt, "hard")
    (tmp_path / "go").touch()
    assert await second == KILLED
    assert (await first).status == "succeeded"
    assert not (tmp_path / "two").exists()


class Saboteur:
    """Interrupts a call just before a step that the runner takes after the function's end."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.steps_seen = 0
        self.is_retired = False
        self.attempt: Attempt | None = None

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
        elif frame.f_code.co_filename == runner_module.__file__ and event == "line":
            self.steps_seen += 1
            if self.steps_seen == self.step:
                sys.settrace(None)
                assert self.attempt is not None
                interrupting = threading.Thread(target=stop, args=(self.attempt, "hard"))
                interrupting.start()
                interrupting.join(0.05)  # it may wait for what this thread holds
        return self._trace


async def test_an_interruption_that_comes_late_never_hits_anything_else(inside: Inside) -> None:
    # One thread for all: what is aimed at a call that has just ended would hit the one after it.
    for step in range(1, 100):
        saboteur = Saboteur(step)
        saboteur.attempt, running = inside.begin(saboteur)
        assert await running in (KILLED, Outcome("succeeded", 0, result='"returned"'))
        saboteur.is_retired = True
        after = await inside.run(sample_tasks.add_in_thread, 2, 3)
        assert after == Outcome("succeeded", 0, result="5")
        if saboteur.steps_seen < step:
            break
    assert 5 < step < 99


async def test_progress_is_what_was_said_last(inside: Inside) -> None:
    def say(*, ctx: hf.Context) -> None:
        ctx.progress(0.1)
        ctx.progress(0.2, "x" * 1000)

    attempt, running = inside.begin(say)
    await running
    assert attempt.progress is not None
    assert attempt.progress.fraction == 0.2
    assert attempt.progress.message == "x" * 256


async def test_a_function_knows_who_it_is(inside: Inside) -> None:
    def tell(value: Any, *, ctx: hf.Context) -> list[Any]:
        return [value, ctx.task_id, ctx.attempt, ctx.deadline is not None, ctx.cancelled]

    _, running = inside.begin(tell, timeout=5.0, fan_out=True, claim=a_claim(given={"a": 1}))
    assert (await running).result == '[{"a":1},"7.0",0,true,false]'
