"""A worker: what it claims, where code runs, and what the ledger says of it afterwards."""

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.work.outcomes import CancelMode
from holdfast.model.work.states import TaskState
from tests.waiting import eventually
from tests.worker.faulty_proxy import FaultyProxy
from tests.worker.workplace import SAMPLES, Workplace, call


@pytest.mark.parametrize("name", ["add", "add_in_thread"])
async def test_a_function_runs_within_the_worker(workplace: Workplace, name: str) -> None:
    task_id = await workplace.submit(call(name, 2, b=3))
    workplace.hire()
    task = await workplace.reach(task_id, "SUCCEEDED")
    assert task["result"] == "5"
    assert (await workplace.ended(task_id))["exit_code"] == 0


@pytest.mark.parametrize(
    ("name", "options"),
    [("add_in_process", {}), ("report", {"isolation": "process", "imports": (SAMPLES,)})],
)
async def test_a_function_runs_in_a_process_of_its_own_where_that_is_asked_for(
    workplace: Workplace, name: str, options: Any
) -> None:
    task_id = await workplace.submit(call(name, 1))
    workplace.hire(**options)
    task = await workplace.reach(task_id, "SUCCEEDED")
    assert os.getpid() not in json.loads(task["result"])


async def test_a_command_runs_and_its_output_is_kept(workplace: Workplace) -> None:
    task_id = await workplace.submit({"command": ["sh", "-c", "echo one; echo two >&2; exit 3"]})
    workplace.hire()
    attempt = await workplace.ended(task_id)
    assert (attempt["exit_code"], attempt["error"]) == (3, "exit code 3")
    assert await workplace.log(task_id) == b"one\ntwo\n"


FAILURES = [
    (call("fail", "value"), "ValueError", "exec"),
    (call("fail", "permanent"), "PermanentError", "exec"),
    (call("fail", "odd"), "OddError", "exec"),
    (call("echo", 1, 2), "ValidationError", "input"),
    ({"function": "no.such.module:f"}, "ModuleNotFoundError", "fetch"),
    ({"command": ["no-such-program"]}, "PermanentError", "fetch"),
    (call("give", "nan"), "PermanentError", "output"),
    (call("give", "object"), "PermanentError", "output"),
    (call("give", "large"), "PermanentError", "output"),
    (call("give", "half"), "PermanentError", "output"),
]


async def test_a_failure_is_told_with_its_class_and_stage(workplace: Workplace) -> None:
    workplace.hire()
    for entrypoint, error_class, stage in FAILURES:
        task_id = await workplace.submit(entrypoint, on_exhausted="fail")
        await workplace.reach(task_id, "FAILED")
        attempt = await workplace.ended(task_id)
        assert (attempt["error_class"], attempt["stage"]) == (error_class, stage)


@pytest.mark.parametrize("name", ["put_off", "put_off_in_thread", "put_off_in_process"])
async def test_a_function_may_ask_to_be_called_later_at_no_cost(
    workplace: Workplace, name: str
) -> None:
    task_id = await workplace.submit(call(name), on_exhausted="fail")
    workplace.hire()
    task = await workplace.reach(task_id, "SUCCEEDED")
    assert (task["result"], task["failure_count"]) == ("1", 0)
    attempt = await workplace.ended(task_id)
    assert (attempt["state"], attempt["error_class"]) == (TaskState.FAILED, "RetryAfter")
    assert attempt["error"] == "RetryAfter: put off for 0.01 s at no cost: not yet"


async def test_a_start_is_in_the_ledger_while_the_code_runs(
    workplace: Workplace, tmp_path: Path
) -> None:
    task_id = await workplace.submit(call("await_file", f"{tmp_path}/began", f"{tmp_path}/go"))
    workplace.hire()
    await workplace.reach(task_id, "RUNNING")
    (tmp_path / "go").touch()
    await workplace.reach(task_id, "SUCCEEDED")


@pytest.mark.parametrize("name", ["say_progress", "say_progress_in_process"])
async def test_progress_reaches_the_server(workplace: Workplace, tmp_path: Path, name: str) -> None:
    entrypoint = call(name, f"{tmp_path}/began", f"{tmp_path}/go", "x" * 300)
    task_id = await workplace.submit(entrypoint)
    workplace.hire()

    async def last_word() -> bool:
        notes = await workplace.notes(task_id)
        return bool(notes) and json.loads(notes[-1]["payload"])["fraction"] == 0.5

    await eventually(last_word)
    assert len(await workplace.notes(task_id)) <= 4
    (tmp_path / "go").touch()
    await workplace.reach(task_id, "SUCCEEDED")


async def test_a_function_can_keep_something_for_the_next_attempt(workplace: Workplace) -> None:
    entrypoint = call("remember", {"page": 7})
    task_id = await workplace.submit(entrypoint, max_retries_failure=1, backoff={"base": 0.0})
    workplace.hire()
    task = await workplace.reach(task_id, "SUCCEEDED")
    assert json.loads(task["result"]) == {"page": 7}


async def test_a_cancelled_function_is_gone_and_its_lease_released(
    workplace: Workplace, tmp_path: Path
) -> None:
    workplace.hire()
    modes: list[CancelMode] = ["soft", "hard"]
    for name, mode in product(("wait_for_file", "await_file"), modes):
        began = tmp_path / f"{name}-{mode}"
        task_id = await workplace.submit(call(name, str(began), f"{tmp_path}/go"))
        await eventually(began.exists)
        await workplace.cancel(task_id, mode)
        await workplace.ended(task_id)
        assert await workplace.state(task_id) == "KILLED"
        assert not await workplace.about("leases", task_id)


async def test_a_softly_cancelled_function_that_looks_may_still_succeed(
    workplace: Workplace, tmp_path: Path
) -> None:
    task_id = await workplace.submit(call("wait_for_cancel", f"{tmp_path}/began"))
    workplace.hire()
    await eventually((tmp_path / "began").exists)
    await workplace.cancel(task_id, "soft")
    task = await workplace.reach(task_id, "SUCCEEDED")
    assert task["result"] == '"stopped by itself"'


async def test_a_command_over_its_timeout_is_asked_and_then_killed(
    workplace: Workplace, tmp_path: Path
) -> None:
    line = f"trap 'touch {tmp_path}/asked' TERM; while :; do sleep 0.01; done"
    task_id = await workplace.submit({"shell": line}, timeout=0.1, grace=0.1)
    workplace.hire()
    attempt = await workplace.ended(task_id)
    assert attempt["error_class"] == "Timeout"
    assert (tmp_path / "asked").exists()


async def test_the_lease_of_a_task_that_has_ended_is_let_go(workplace: Workplace) -> None:
    workplace.hire()
    await workplace.reach(await workplace.submit({"shell": "true"}, lease=2.0), "SUCCEEDED")
    # Long enough for a renewal of that lease, which would be refused.
    await workplace.reach(await workplace.submit({"shell": "sleep 1.5"}), "SUCCEEDED")
    assert b"holdfast_lease_conflicts_total 0.0" in await workplace.server.runtime.scrape()


async def test_a_task_is_retried_by_the_same_worker(workplace: Workplace) -> None:
    spec: dict[str, Any] = {
        "max_retries_failure": 2,
        "backoff": {"base": 0.0},
        "on_exhausted": "fail",
    }
    task_id = await workplace.submit(call("fail", "value"), **spec)
    workplace.hire()
    await workplace.reach(task_id, "FAILED")
    assert len(await workplace.attempts(task_id)) == 3


async def test_work_goes_on_after_the_server_was_away(workplace: Workplace, tmp_path: Path) -> None:
    entrypoint = call("await_file", f"{tmp_path}/began", f"{tmp_path}/go")
    task_id = await workplace.submit(entrypoint)
    async with FaultyProxy(workplace.url) as proxy:
        worker, running = workplace.hire(server=proxy.url)
        await eventually((tmp_path / "began").exists)
        await proxy.cut()
        (tmp_path / "go").touch()
        later = await workplace.submit(call("add", 1))
        proxy.mend()
        await workplace.reach(task_id, "SUCCEEDED")
        await workplace.reach(later, "SUCCEEDED")
        assert len(await workplace.attempts(task_id)) == 1
        worker.drain()
        await running


async def test_a_fault_of_the_worker_ends_the_attempt_loudly(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    workplace.hire()
    await workplace.reach(await workplace.submit(call("add", 1)), "SUCCEEDED")
    # An entry that no process can be given is not expected anywhere in the worker.
    monkeypatch.setattr(os, "environ", {**os.environ, "BROKEN": 3})
    task_id = await workplace.submit({"shell": "true"}, max_retries_preemption=0)
    attempt = await workplace.ended(task_id)
    monkeypatch.undo()
    assert attempt["state"] == 7
    assert attempt["error"].startswith("a fault of the worker: TypeError")
    assert "broke its worker" in caplog.text
    after = await workplace.submit(call("add", 1))
    await workplace.reach(after, "SUCCEEDED")


async def test_a_claim_of_a_kind_it_does_not_know_costs_its_neighbours_nothing(
    workplace: Workplace, caplog: pytest.LogCaptureFixture
) -> None:
    strange = await workplace.submit(call("add", 1), lease=31.0)
    task_id = await workplace.submit(call("add", 1))
    async with FaultyProxy(workplace.url) as proxy:
        proxy.rewrite(b'"lease":31.0', b'"lease":"31"')
        worker, running = workplace.hire(server=proxy.url)
        await workplace.reach(task_id, "SUCCEEDED")
        assert await workplace.state(strange) == "ASSIGNED"
        assert f"task {strange} cannot be read" in caplog.text
        worker.drain()
        await running
