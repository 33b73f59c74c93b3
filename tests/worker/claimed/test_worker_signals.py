"""Functions that wait for signals, in a real worker: the attempt ends, and the next one goes on."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.client import Client
from tests.worker import waiting_tasks
from tests.worker.workplace import Workplace


def call(name: str, *args: Any) -> dict[str, Any]:
    """Write the entrypoint of a function that waits."""
    return {"function": f"{waiting_tasks.__name__}:{name}", "args": list(args)}


async def wait_for_parked(workplace: Workplace, task_id: str, attempt: int) -> Any:
    """Wait until an attempt has ended to wait."""
    ended = await workplace.ended(task_id, attempt + 1)
    assert ended["error"] == "waits for signal approval"
    return ended


@pytest.mark.parametrize("name", ["ask_for_approval", "ask_in_thread", "ask_in_process"])
async def test_a_function_goes_on_with_the_payloads_it_has_waited_for(
    workplace: Workplace, tmp_path: Path, name: str
) -> None:
    began = tmp_path / "began"
    task_id = await workplace.submit(
        call(name, str(began)), max_retries_failure=0, max_retries_preemption=0
    )
    job_id = task_id.partition(".")[0]
    workplace.hire()
    with Client(workplace.url) as client:
        for attempt, payload in enumerate(({"by": "boss"}, "again")):
            await wait_for_parked(workplace, task_id, attempt)
            assert not await workplace.about("leases", task_id)
            status = await client.tasks.get.aio(task_id)
            assert status.waits_for is not None
            assert status.waits_for.name == "approval"
            assert (status.pending_reason or "").startswith("waits for signal approval since ")
            await client.signal.aio(job_id, "approval", payload)
        task = await workplace.reach(task_id, "SUCCEEDED")
        assert json.loads(task["result"]) == [2, {"by": "boss"}, "again"]
        assert (task["failure_count"], task["preemption_count"]) == (0, 0)
        assert (await client.tasks.get.aio(task_id)).waits_for is None
    assert began.read_text(encoding="utf-8") == "0\n1\n2\n"


async def test_coroutines_of_one_function_wait_side_by_side(workplace: Workplace) -> None:
    task_id = await workplace.submit(call("ask_side_by_side"))
    workplace.hire()
    await workplace.ended(task_id)
    with Client(workplace.url) as client:
        await client.signal.aio(task_id.partition(".")[0], "no", 0)
        await workplace.ended(task_id, 2)
        await client.signal.aio(task_id.partition(".")[0], "yes", 1, task=0)
    assert json.loads((await workplace.reach(task_id, "SUCCEEDED"))["result"]) == [1, 0]


async def test_a_wait_in_vain_gives_the_default_or_raises_for_good(workplace: Workplace) -> None:
    task_id = await workplace.submit(
        call("ask_in_vain"), max_retries_failure=5, on_exhausted="fail"
    )
    workplace.hire()
    task = await workplace.reach(task_id, "FAILED")
    assert task["failure_count"] == 1
    [*_, last] = await workplace.attempts(task_id)
    assert last["error"].startswith("SignalTimedOut: signal never has not come in time")
    assert last["error_class"] == "PermanentError"


async def test_a_signal_finds_its_task_though_the_worker_was_killed(
    workplace: Workplace, tmp_path: Path
) -> None:
    began = tmp_path / "began"
    task_id = await workplace.submit(call("ask_for_approval", str(began)))
    first = workplace.launch()
    await wait_for_parked(workplace, task_id, 0)
    first.kill()
    first.wait()
    with Client(workplace.url) as client:
        for payload in (1, 2):
            await client.signal.aio(task_id.partition(".")[0], "approval", payload)
    workplace.launch()
    task = await workplace.reach(task_id, "SUCCEEDED")
    assert json.loads(task["result"]) == [1, 1, 2]
