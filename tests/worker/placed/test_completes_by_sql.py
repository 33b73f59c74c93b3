"""Placed functions that complete their task in a transaction of their own."""

from pathlib import Path
from typing import Any

from tests.audits import assert_audit_is_silent
from tests.waiting import eventually
from tests.worker.placed_workplace import PlacedWorkplace
from tests.worker.workplace import call


async def test_it_goes_home_undisturbed(
    placed: PlacedWorkplace, database_url: str, database: Any, tmp_path: Path
) -> None:
    await placed.execute("create table public.writes (attempt integer)")
    placed.employ()
    files = f"{tmp_path}/began", f"{tmp_path}/go"
    task_id = await placed.place(call("complete_in_transaction", database_url, *files))
    await placed.reach(task_id, "SUCCEEDED")
    # A heartbeat that ends another has said of this one what there was to say.
    other = await placed.place({"command": ["sleep", "600"]})
    await placed.reach(other, "RUNNING")
    await placed.cancel(other)
    await placed.reach(other, "KILLED")
    (tmp_path / "go").touch()

    async def is_released() -> bool:
        return (await placed.ended(task_id))["released_at"] is not None

    await eventually(is_released)
    assert b"home again" in await placed.log(task_id)
    assert (await placed.reach(task_id, "SUCCEEDED"))["result"] == '"by SQL"'
    await assert_audit_is_silent(database)
