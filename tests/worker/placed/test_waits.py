"""A placed function that waits for a signal: its worker is free, and another attempt goes on."""

import json
from pathlib import Path

from holdfast.client.client import Client
from tests.worker import waiting_tasks
from tests.worker.placed_workplace import PlacedWorkplace


async def test_a_placed_function_goes_on_with_what_it_has_waited_for(
    placed: PlacedWorkplace, tmp_path: Path
) -> None:
    placed.employ()
    function = f"{waiting_tasks.__name__}:ask_in_process"
    entrypoint = {"function": function, "args": [str(tmp_path / "began")]}
    task_id = await placed.place(entrypoint, max_retries_failure=0, max_retries_preemption=0)
    with Client(placed.url) as client:
        for count, payload in enumerate((1, 2)):
            ended = await placed.ended(task_id, count + 1)
            assert ended["error"] == "waits for signal approval"
            assert not await placed.about("leases", task_id)
            await client.signal.aio(task_id.partition(".")[0], "approval", payload)
    task = await placed.reach(task_id, "SUCCEEDED")
    assert json.loads(task["result"]) == [2, 1, 2]
    assert (task["failure_count"], task["preemption_count"]) == (0, 0)
