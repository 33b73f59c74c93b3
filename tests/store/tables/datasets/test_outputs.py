"""The table of what jobs write through its functions."""

from holdfast.rules.commits import Target
from holdfast.store.database import Transaction
from holdfast.store.tables.datasets.outputs import (
    NewJobOutput,
    find_declared_outputs,
    find_job_outputs,
    insert_job_outputs,
    list_writers,
)
from holdfast.store.tables.datasets.versions import Version, insert_dataset, open_version
from tests.world import World


async def test_a_job_is_bound_to_a_version(world: World, tx: Transaction) -> None:
    job_id = await world.submit()
    await insert_dataset(tx, "d", actor="me", metadata="{}")
    version = Version("d", await open_version(tx, "d", actor="me"))
    await insert_job_outputs(tx, [NewJobOutput(job_id, "d", 1, "append", "newest")])
    assert await find_job_outputs(tx, [job_id]) == {job_id: {"d": Target(1, "append")}}
    assert await find_declared_outputs(tx, [job_id]) == [(job_id, "d", "newest", "open")]
    assert await list_writers(tx, version, count_max=9) == [job_id]
