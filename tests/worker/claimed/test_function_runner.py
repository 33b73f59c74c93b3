"""Functions within the worker's own process: where they run, and how they end."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.submitting.order import ResultPosition
from holdfast.model.submitting.spec import Entrypoint
from holdfast.worker.running.attempt_outcome import HANDED_BACK, KILLED, Outcome
from tests.waiting import eventually
from tests.worker import sample_tasks
from tests.worker.claimed.inside import PROCESS, Inside
from tests.worker.claims import a_claim


@pytest.mark.parametrize("function", [sample_tasks.add, sample_tasks.add_in_thread])
async def test_what_a_function_returns_is_the_result(inside: Inside, function: Any) -> None:
    assert await inside.run(function, 2, 3) == Outcome("succeeded", 0, result="5")


async def test_a_function_that_is_not_async_runs_in_a_thread(inside: Inside) -> None:
    outcome = await inside.run(lambda: threading.current_thread() is threading.main_thread())
    assert outcome.result == "false"


async def test_an_import_is_not_broken_half_way_by_a_request_to_stop(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go = tmp_path / "began", tmp_path / "go"
    (tmp_path / "registering_module.py").write_text(
        "from tests.worker.sample_tasks import *\n"
        "assert not add.__dict__.get('is_registered'), 'registered twice'\n"
        "add.__dict__['is_registered'] = True\n"
        f"wait_for_file({str(began)!r}, {str(go)!r})\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    entrypoint = Entrypoint(function="registering_module:echo")
    call, running = inside.begin(sample_tasks.echo, 1, entrypoint=entrypoint)
    await eventually(began.exists)
    inside.stop(call, "soft")
    go.touch()
    assert await running == KILLED
    assert call.has_begun is False
    _, again = inside.begin(
        sample_tasks.echo, entrypoint=Entrypoint(function="registering_module:echo", args=[1])
    )
    assert await again == Outcome("succeeded", 0, result="1")


async def test_a_start_is_noted_when_its_code_begins_with_the_import(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go = tmp_path / "began", tmp_path / "go"
    text = f"from tests.worker.sample_tasks import *\nwait_for_file({str(began)!r}, {str(go)!r})\n"
    (tmp_path / "slow_module.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    call, running = inside.begin(
        sample_tasks.echo, 1, entrypoint=Entrypoint(function="slow_module:echo")
    )
    await eventually(began.exists)
    assert call.attempt.started_at is not None
    inside.runner.interrupt(call)
    go.touch()
    assert await running == HANDED_BACK


async def test_code_does_not_begin_when_its_lease_is_about_to_end(inside: Inside) -> None:
    for function in (sample_tasks.add, sample_tasks.add, sample_tasks.add_in_thread):
        assert (await inside.run(function, 1)).status == "succeeded"
        late = a_claim(remaining=-1.0)
        call, running = inside.begin(function, 1, claim=late)
        assert await running == HANDED_BACK
        assert call.attempt.started_at is None


async def test_a_function_that_asks_for_a_process_is_not_run_here(inside: Inside) -> None:
    for _ in range(2):  # it is found at first, and known then
        call, running = inside.begin(sample_tasks.add_in_process, 1)
        assert await running is PROCESS
        assert call.has_begun is False


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


class Nameless(type):
    """Classes of errors that cannot even be named."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise LookupError


class NamelessError(Exception, metaclass=Nameless):
    """An error that nobody can describe."""


async def test_an_error_that_breaks_the_runner_ends_the_call_too(inside: Inside) -> None:
    def fail() -> None:
        raise NamelessError

    async def fail_on_the_loop() -> None:
        raise NamelessError

    for function in (fail, fail_on_the_loop):
        with pytest.raises(LookupError):
            await inside.run(function)


async def test_a_coroutine_that_cancels_itself_has_failed(inside: Inside) -> None:
    async def cancel() -> None:
        raise asyncio.CancelledError

    assert (await inside.run(cancel)).status == "failed"


async def test_bad_arguments_never_reach_the_function(inside: Inside) -> None:
    for _ in range(2):
        call, running = inside.begin(sample_tasks.echo, 1, 2)
        outcome = await running
        assert (outcome.error_class, outcome.stage) == ("ValidationError", "input")
        assert call.has_begun is False


async def test_a_call_whose_results_do_not_come_can_be_stopped(inside: Inside) -> None:
    position = ResultPosition(["args", 0], "8")
    path = "tests.worker.sample_tasks:echo"
    entrypoint = Entrypoint(function=path, args=[None], results=[position])
    call, running = inside.begin(sample_tasks.echo, None, entrypoint=entrypoint)
    await asyncio.wait([running], timeout=0.2)  # nobody answers there
    assert not running.done()
    inside.stop(call, "soft")
    assert await running == KILLED


async def test_progress_is_what_was_said_last(inside: Inside) -> None:
    def say(*, ctx: hf.Context) -> None:
        ctx.progress(0.1)
        ctx.progress(0.2, "x" * 1000)

    call, running = inside.begin(say)
    await running
    assert call.attempt.progress is not None
    assert call.attempt.progress.fraction == 0.2
    assert call.attempt.progress.message == "x" * 256


async def test_a_function_knows_who_it_is(inside: Inside) -> None:
    def tell(value: Any, *, ctx: hf.Context) -> list[Any]:
        return [value, ctx.task_id, ctx.attempt, ctx.deadline is not None, ctx.cancelled]

    _, running = inside.begin(tell, timeout=5.0, fan_out=True, claim=a_claim(given={"a": 1}))
    assert (await running).result == '[{"a":1},"7.0",0,true,false]'
