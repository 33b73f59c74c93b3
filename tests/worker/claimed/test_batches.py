"""Functions that are called once for many tasks, in a real worker: each task ends by itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.work.outcomes import CancelMode
from holdfast.model.work.states import TaskState
from tests.audits import assert_audit_is_silent
from tests.waiting import eventually
from tests.worker import waiting_tasks
from tests.worker.workplace import Workplace


def call(name: str, *args: Any) -> dict[str, Any]:
    """Write the entrypoint of a function that waits."""
    return {"function": f"{waiting_tasks.__name__}:{name}", "args": list(args)}


async def submit(
    workplace: Workplace, folder: Path, name: str, numbers: list[int], **spec: Any
) -> list[str]:
    """Submit a job with a task for each number; returns their ids."""
    inputs = [{"n": n, "folder": str(folder)} for n in numbers]
    job_id = (await workplace.submit(call(name), inputs, **spec)).partition(".")[0]
    return [f"{job_id}.{index}" for index in range(len(numbers))]


def calls_in(folder: Path) -> list[list[int]]:
    """Read what each call was given."""
    file = folder / "calls"
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return [sorted(json.loads(line)) for line in lines]


@pytest.mark.parametrize("name", ["double_all", "double_all_async"])
async def test_tasks_share_a_call_and_have_a_result_each(
    workplace: Workplace, tmp_path: Path, name: str
) -> None:
    task_ids = await submit(workplace, tmp_path, name, list(range(10)))
    workplace.hire(concurrency=20)
    for number, task_id in enumerate(task_ids):
        task = await workplace.reach(task_id, "SUCCEEDED")
        assert json.loads(task["result"]) == 2 * number
        assert (await workplace.ended(task_id))["exit_code"] == 0
    calls = calls_in(tmp_path)
    assert sorted(n for numbers in calls for n in numbers) == list(range(10))
    assert all(len(numbers) <= 4 for numbers in calls)
    # Of the first claim each waits for the function to be found; from then on they fill calls.
    assert len(calls) <= 5
    await assert_audit_is_silent(workplace.server.runtime.ledger.database)


async def test_what_is_wrong_with_one_costs_the_others_nothing(
    workplace: Workplace, tmp_path: Path
) -> None:
    numbers = [1, 13, 2]
    task_ids = await submit(
        workplace, tmp_path, "double_all", numbers, max_retries_failure=0, on_exhausted="fail"
    )
    workplace.hire(concurrency=20)
    for task_id, state in zip(task_ids, ("SUCCEEDED", "FAILED", "SUCCEEDED"), strict=True):
        await workplace.reach(task_id, state)
        assert await workplace.log(task_id) == b"doubling\n"
    assert (await workplace.ended(task_ids[1]))["error"].startswith("ValueError: thirteen")


@pytest.mark.parametrize(
    ("first", "error"),
    [
        (0, "ValueError: all of it"),
        (1, "PermanentError: the batch returned 1 results for 2 tasks; return one for each"),
    ],
)
async def test_an_error_of_the_call_is_that_of_each(
    workplace: Workplace, tmp_path: Path, first: int, error: str
) -> None:
    spec = {"max_retries_failure": 0, "on_exhausted": "fail"}
    task_ids = await submit(workplace, tmp_path, "fail_all", [first, 7], **spec)
    workplace.hire(concurrency=20)
    for task_id in task_ids:
        task = await workplace.reach(task_id, "FAILED")
        assert task["failure_count"] == 1
        assert (await workplace.ended(task_id))["error"].startswith(error)


@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_the_cancel_of_one_leaves_the_others_alone(
    workplace: Workplace, tmp_path: Path, mode: CancelMode
) -> None:
    one, two, three = await submit(workplace, tmp_path, "double_slowly", [1, 2, 3])
    workplace.hire(concurrency=20)
    await eventually(lambda: calls_in(tmp_path))
    await workplace.cancel(two, mode)
    assert (await workplace.ended(two))["state"] == TaskState.KILLED
    assert await workplace.state(one) == "RUNNING"
    (tmp_path / "go").touch()
    for task_id, result in ((one, 2), (three, 6)):
        assert json.loads((await workplace.reach(task_id, "SUCCEEDED"))["result"]) == result
    assert calls_in(tmp_path) == [[1, 2, 3]]


async def test_a_batch_that_nobody_waits_for_is_interrupted(
    workplace: Workplace, tmp_path: Path
) -> None:
    task_ids = await submit(workplace, tmp_path, "double_slowly", [1, 2, 3])
    workplace.hire(concurrency=3)
    await eventually(lambda: calls_in(tmp_path))
    for task_id in task_ids:
        await workplace.cancel(task_id)
        await workplace.ended(task_id)
    (tmp_path / "go").touch()
    more = await submit(workplace, tmp_path, "double_slowly", [4, 5, 6])
    for task_id in more:
        await workplace.reach(task_id, "SUCCEEDED")


async def test_leases_are_renewed_while_a_batch_runs(workplace: Workplace, tmp_path: Path) -> None:
    task_ids = await submit(workplace, tmp_path, "double_slowly", [1, 2, 3], lease=2.0)
    workplace.hire(concurrency=20)
    await eventually(lambda: calls_in(tmp_path))

    async def ends() -> list[Any]:
        return [(await workplace.about("leases", task_id))[0]["expires_at"] for task_id in task_ids]

    first = await ends()
    for index, end in enumerate(first):

        async def has_grown(index: int = index, end: Any = end) -> bool:
            return bool((await ends())[index] > end)

        await eventually(has_grown)
    (tmp_path / "go").touch()
    for task_id in task_ids:
        assert (await workplace.reach(task_id, "SUCCEEDED"))["attempt"] == 0


async def test_what_waits_for_others_is_given_back_by_a_worker_that_leaves(
    workplace: Workplace, tmp_path: Path
) -> None:
    [task_id] = await submit(workplace, tmp_path, "double_slowly", [1])
    worker, running = workplace.hire(concurrency=20)
    await workplace.reach(task_id, "RUNNING")
    worker.drain()
    await running
    assert (await workplace.ended(task_id))["error"] == "handed back"
    assert calls_in(tmp_path) == []


async def test_in_a_process_of_its_own_a_batch_is_of_one(
    workplace: Workplace, tmp_path: Path
) -> None:
    task_ids = await submit(workplace, tmp_path, "double_all", [1, 2])
    workplace.hire(concurrency=20, isolation="process")
    for task_id in task_ids:
        await workplace.reach(task_id, "SUCCEEDED")
    assert sorted(calls_in(tmp_path)) == [[1], [2]]
