"""To undo a job costs what the job has done, not what others have written to the same datasets."""

import json
from collections.abc import Iterator
from typing import Any

from holdfast.operations.undoing.compensate import OUTPUTS_BYTES_MAX, OUTPUTS_MAX
from holdfast.store.database import Database
from holdfast.store.statements import load_statements
from tests.datasets import Library, an_entry
from tests.world import World

_UNDO = load_statements("order/undo")
MANY = 5_000


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


async def test_the_outputs_of_a_job_are_found_among_those_of_others(
    world: World, database: Database
) -> None:
    library = Library(world)
    await library.create()
    job_id = await library.write(an_entry("a"), an_entry("b"))
    async with database.connection() as connection:
        await connection.execute("set session_replication_role = replica")
        await connection.execute(
            "insert into holdfast.dataset_entries (dataset, version, key, partition_key, uri, "
            "job_id, task_index, attempt, committed_at, copied_from) "
            "select 'events', 1, 'k' || n, '', 'u', case when n % 2 = 0 then $1 else 9 end, 0, 0, "
            "now(), case when n % 2 = 0 then 1 end from generate_series(1, $2) as n",
            job_id,
            MANY,
        )
        await connection.execute("reset session_replication_role")
        await connection.execute("analyze holdfast.dataset_entries")
    statement = _UNDO["read_undone_outputs"]
    values = {"job_id": job_id, "batch_max": OUTPUTS_MAX, "bytes_max": OUTPUTS_BYTES_MAX}
    async with database.transaction() as tx:
        assert len(await tx.fetch(statement, **values)) == 2
        text = f"explain (analyze, format json) {statement.text}"
        plan = json.loads(await tx.connection.fetchval(text, *statement.arguments(values)))
    scans = [node for node in _nodes(plan[0]["Plan"]) if "Relation Name" in node]
    read = sum(scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0) for scan in scans)
    assert read == 2
