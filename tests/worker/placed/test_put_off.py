"""Placed functions that ask to be called later."""

from tests.worker.placed_workplace import PlacedWorkplace
from tests.worker.workplace import call


async def test_a_function_may_ask_to_be_called_later_at_no_cost(placed: PlacedWorkplace) -> None:
    placed.employ()
    task_id = await placed.place(call("put_off_in_thread"))
    task = await placed.reach(task_id, "SUCCEEDED")
    assert (task["result"], task["attempt"], task["failure_count"]) == ("1", 1, 0)
