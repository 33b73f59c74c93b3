"""The whole system within one process, and nothing of it left afterwards."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest

import holdfast as hf
from holdfast import testing
from holdfast.errors import Invalid
from holdfast.model.submitting.spec import Entrypoint
from holdfast.store.database import Database
from holdfast.testing import System, holdfast_system, running
from holdfast.wire.requests import JobRequest
from tests.audits import assert_audit_is_silent
from tests.client import app
from tests.embedded.users import wait_for

__all__ = ["holdfast_system"]

# Together in one process: they share a Postgres.
pytestmark = pytest.mark.xdist_group("testing")
on_q = pytest.mark.parametrize("holdfast_system", [["q"]], indirect=True)


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    """One system for tests that do not disturb each other."""
    with running(queues=["q"]) as system:
        yield system


@pytest.fixture(autouse=True)
def no_server_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the environment of whoever runs the tests out of them."""
    monkeypatch.delenv("HOLDFAST_SERVER", raising=False)


def test_functions_of_every_kind_run(system: System) -> None:
    assert app.double.submit(21).result(timeout=30) == 42
    assert app.greet.submit("Ada", greeting="hi").result(timeout=30) == "hi Ada by attempt 0"
    assert app.second.submit((1, Path("x"))).result(timeout=30) == Path("x")


def test_values_arrive_as_what_the_annotations_say_and_so_do_results(system: System) -> None:
    order = app.Order(UUID(int=7), date(2030, 1, 31), Decimal("9.90"), b"abc")
    noon = datetime(2030, 1, 31, 12, tzinfo=UTC)
    job = app.describe.submit(order, {"new"}, {1: (2, 3)}, noon, where=Path("a/b"))
    kinds = ["Order", "set", "dict", "tuple", "datetime", type(Path()).__name__]
    assert job.result(timeout=60) == (order, kinds)
    plain = system.client.job(job.id).result(timeout=30)  # without the function: as JSON has it
    assert plain[0]["day"] == "2030-01-31"


def test_results_become_arguments_and_inputs_what_the_annotations_say(system: System) -> None:
    days = app.next_day.map([date(2030, 1, 30), date(2030, 1, 31)])
    counts = app.count_days.submit(days)
    assert days.results(timeout=30) == [date(2030, 1, 31), date(2030, 2, 1)]
    assert counts.result(timeout=30) == {date(2030, 1, 31): 1, date(2030, 2, 1): 1}


def test_a_result_that_is_not_what_the_function_promises_is_said(system: System) -> None:
    job = app.promise_a_number.submit()
    with pytest.raises(Invalid, match=r"does not fit the annotation of its function, int") as bad:
        job.result(timeout=30)
    assert bad.value.field == "result"
    assert system.client.job(job.id).result(timeout=30) == "seven"


def test_an_argument_that_does_not_fit_is_no_failure_to_be_retried(system: System) -> None:
    entrypoint = Entrypoint(function="tests.client.app:greet", args=[["Ada"]])
    request = JobRequest(entrypoint=entrypoint, queue="q", max_retries_failure=5)
    submitted = system.client.jobs.submit(request)
    [outcome] = system.client.job(submitted.job_id).outcomes(timeout=30)
    assert outcome.error_class == "ValidationError"
    assert "name: does not fit its annotation, str: Expected `str`" in (outcome.error or "")
    assert len(system.client.tasks.get(outcome.task_id).attempts or ()) == 1


async def test_functions_are_submitted_by_async_tests(system: System) -> None:
    jobs = await asyncio.gather(*(app.double.submit.aio(number) for number in range(5)))
    results = await asyncio.gather(*(job.result.aio(timeout=30) for job in jobs))
    assert results == [0, 2, 4, 6, 8]


def test_a_function_of_the_test_itself_may_be_pickled(system: System) -> None:
    offset = 40

    @hf.task(queue="q", pickled=True)
    def add(number: int) -> set[int]:
        return {number + offset}

    assert add.map([1, 2]).results(timeout=30) == [{41}, {42}]


def test_a_function_in_a_process_of_its_own_has_its_output_kept(system: System) -> None:
    job = app.say_pid.submit("hello")
    assert job.result(timeout=60) != os.getpid()
    assert b"".join(job.logs()) == b"hello"


def test_what_a_function_prints_is_kept_and_shown_to_the_test(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    """The streams are other ones in each test; the worker is older than these."""

    @hf.task(queue="q", pickled=True)
    def speak(name: str) -> None:
        print("hello", name)  # noqa: T201 - its output is what is tested

    job = speak.submit("Ada")
    assert job.result(timeout=30) is None
    assert b"".join(job.logs()) == b"hello Ada\n"
    assert capsys.readouterr().out == "hello Ada\n"


def test_a_command_runs(system: System) -> None:
    job = system.client.run_command(["sh", "-c", "echo $HOLDFAST_INPUT"], queue="q", inputs=[7])
    assert job.wait(timeout=60).state == "JOB_STATE_SUCCEEDED"
    assert b"".join(job.logs(follow=True)) == b"7\n"


def test_attempts_hand_on_their_checkpoints(system: System) -> None:
    job = app.count_up.submit(3)
    assert job.result(timeout=30) == [0, 1, 2]


@pytest.mark.parametrize("name", ["KeyError", "FileNotFoundError", "TimeoutError", "RuntimeError"])
def test_an_error_comes_back_as_it_was_raised(system: System, name: str) -> None:
    with pytest.raises(hf.TaskFailed) as caught:
        app.fail.submit(name).result(timeout=30)
    kind = type(caught.value)
    assert [base.__name__ for base in kind.__mro__[:2]] == [name, "TaskFailed"]
    assert "as asked" in str(caught.value)
    assert "Traceback" in caught.value.__notes__[0]


@pytest.mark.parametrize("name", ["StopIteration", "SystemExit", "KeyboardInterrupt"])
def test_an_error_that_means_something_to_python_comes_back_plain(
    system: System, name: str
) -> None:
    with pytest.raises(hf.TaskFailed, match=name):
        app.fail.submit(name).result(timeout=30)


def parents(system: System, job: hf.Job[Any]) -> list[str | None]:
    """List the parents of the jobs that were submitted after a job."""
    found = []
    for job_id in range(int(job.id) + 1, int(job.id) + 2):
        found.append(system.client.job(job_id).status().parent_job_id)
    return found


def test_children_of_a_blocking_function_know_their_parent(system: System) -> None:
    job = app.sum_by_children.submit([1, 2, 3])
    assert job.result(timeout=30) == 12
    assert parents(system, job) == [job.id]


def test_children_of_an_awaited_function_know_their_parent(system: System) -> None:
    job = app.double_by_a_child.submit(21)
    assert job.result(timeout=30) == 42
    assert parents(system, job) == [job.id]


def test_a_function_may_block_the_workers_loop(system: System) -> None:
    job = app.block_by_a_child.submit(21)
    assert job.result(timeout=30) == 1
    assert parents(system, job) == [job.id]


def test_a_function_hears_of_a_cancel(system: System) -> None:
    job = app.wait_to_be_stopped.submit()
    wait_for(lambda: job.status().tasks_running == 1)
    assert job.cancel()
    assert job.result(timeout=30) == "stopped"


def test_a_server_that_is_closed_is_not_found_by_chance(system: System) -> None:
    with running(queues=["q"]) as other:
        assert app.double.submit(1).result(timeout=30) == 2
        assert other.url != system.url
        assert other.database_url != system.database_url
        assert other.client.job(1).status().num_tasks == 1
    assert app.double.submit(2).result(timeout=30) == 4


@on_q
def test_the_fixture_serves_the_queues_it_is_told(holdfast_system: System) -> None:
    assert app.double.submit(1).result(timeout=30) == 2


@on_q
async def test_all_jobs_are_waited_for(holdfast_system: System) -> None:
    app.sum_by_children.submit([1, 2])
    app.count_up.submit(2)
    holdfast_system.wait_all()
    states = [holdfast_system.client.job(number).status().state for number in (1, 2, 3)]
    assert states == ["JOB_STATE_SUCCEEDED"] * 3
    holdfast_system.wait_all()
    async with Database(holdfast_system.database_url) as database:
        await assert_audit_is_silent(database)


def test_a_job_that_does_not_end_is_named(holdfast_system: System) -> None:
    job = app.double.submit(1)  # nobody serves its queue
    with pytest.raises(TimeoutError, match=f"job {job.id} is still pending"):
        holdfast_system.wait_all(timeout=0.1)


@on_q
async def test_a_job_that_does_not_end_is_found_behind_a_page_of_others(
    holdfast_system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "PAGE_SIZE", 10)
    job = holdfast_system.client.run_command(["true"], queue="unserved")
    others = await asyncio.gather(*(app.double.submit.aio(number) for number in range(15)))
    await asyncio.gather(*(other.wait.aio(timeout=60) for other in others))
    with pytest.raises(TimeoutError, match=f"job {job.id} is still pending"):
        holdfast_system.wait_all(timeout=0.1)


def list_threads() -> set[threading.Thread]:
    """List the threads of this process, once the worker around has started all of its own."""
    wait_for(lambda: any(thread.name == "holdfast-keeper" for thread in threading.enumerate()))
    return set(threading.enumerate())


def test_nothing_is_left_of_a_block(system: System) -> None:
    threads, children = list_threads(), set(psutil.Process().children())
    with running(queues=["q"]) as other:
        app.hang.submit()
        app.sum_by_children.submit([1])
        wait_for(lambda: other.client.job(1).status().tasks_running == 1)
        other.client.job(1).cancel("hard")
        other.wait_all()
    wait_for(lambda: set(threading.enumerate()) <= threads)
    wait_for(lambda: set(psutil.Process().children()) <= children)


def test_a_block_that_fails_leaves_nothing_either(system: System) -> None:
    threads = list_threads()
    with pytest.raises(ZeroDivisionError), running(queues=["q"]) as other:
        other.client.job(1 // 0)
    wait_for(lambda: set(threading.enumerate()) <= threads)


SUITE = """
import pytest
import holdfast as hf
from holdfast import testing

@hf.task
def double(number: int) -> int:
    return number * 2

@hf.task(queue="other")
async def greet(name: str) -> str:
    return f"hello {name}"

def test_first(holdfast_system):
    assert double.submit(1).result(timeout=30) == 2
    assert holdfast_system.client.job(1).status().num_tasks == 1

async def test_second(holdfast_system):
    job = await double.submit.aio(2)
    assert await job.result.aio(timeout=30) == 4
    assert job.id == "1"

@pytest.mark.parametrize("holdfast_system", [["other"]], indirect=True)
def test_third(holdfast_system):
    assert greet.submit("Ada").result(timeout=30) == "hello Ada"
"""


@pytest.mark.parametrize(
    "way",
    [
        pytest.param('pytest_plugins = ["holdfast.testing"]', id="plugin"),
        pytest.param(
            "from holdfast.testing import holdfast_system", id="import", marks=pytest.mark.nightly
        ),
    ],
)
def test_a_suite_of_a_user_runs_and_leaves_nothing(tmp_path: Path, way: str) -> None:
    suite, scratch = tmp_path / "suite", tmp_path / "scratch"
    suite.mkdir()
    scratch.mkdir()
    (suite / "conftest.py").write_text(way)
    (suite / "test_user.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-o", "asyncio_mode=auto"]
    command += ["-o", "asyncio_default_fixture_loop_scope=function"]
    ended = subprocess.run(
        [*command, "-p", "no:cacheprovider", str(suite)],
        cwd=suite,
        env=os.environ | {"TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    assert "3 passed" in ended.stdout
    assert list(scratch.iterdir()) == []
    assert not [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(scratch) in " ".join(process.info["cmdline"] or ())
    ]
