"""A release costs what it releases: neither the other parents of a job nor its other children."""

import json
from collections.abc import Iterator
from typing import Any

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.operations.claiming.turn import take_turns
from holdfast.store.database import Database
from holdfast.store.statements import Statement, load_statements
from holdfast.store.tables.work.attempts import Success
from tests.store.reading import reads
from tests.world import World, fence_of

_ORDER = load_statements("order/dependencies")
MANY = 10_000
WIDE = 1_000_000  # the job that waits for many; above it, the many that wait for job 1


async def read_rows(database: Database, statement: Statement, **values: Any) -> dict[str, int]:
    """Run a statement as the writers run it, and count the rows that it has read of each table."""
    async with database.transaction() as tx:
        text = f"explain (analyze, format json) {statement.text}"
        plan = json.loads(await tx.connection.fetchval(text, *statement.arguments(values)))
        await tx.connection.execute("rollback")
        await tx.connection.execute("begin")
    read: dict[str, int] = {}
    for node in _nodes(plan[0]["Plan"]):
        if "Relation Name" in node and node["Node Type"] != "ModifyTable":
            rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            table = node["Relation Name"]
            read[table] = read.get(table, 0) + round(rows * node["Actual Loops"])
    return read


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


async def test_ten_thousand_parents_or_children_are_not_read_for_the_sake_of_one(
    world: World, database: Database
) -> None:
    first, second = await world.submit(), await world.submit()
    await world.clock.fetch(
        "insert into holdfast.dependencies (job_id, depends_on, condition) "
        "select $1, n, 'succeeded' from generate_series(1, $2) as n "
        "union all select $1 + n, 1, 'succeeded' from generate_series(1, $2) as n",
        WIDE,
        MANY,
    )
    for job_id in (first, second):
        mine = await world.claim_by_id(TaskId(job_id, 0))
        await world.start(mine)
        async with Database(database.url, connections_max=1) as alone, reads(alone) as ending:
            await take_turns(Ledger(alone), [Success(fence_of(mine), None)], [])
        assert ending.rows["dependencies"] == 1

    close, wanted = _ORDER["close_dependencies"], {"among": None}
    read = await read_rows(database, close, ended_job_ids=[second], **wanted, batch_max=2000)
    assert read == {"jobs": 1, "dependencies": 2}  # found, and written to
    read = await read_rows(database, close, ended_job_ids=[first, second], **wanted, batch_max=100)
    assert read == {"jobs": 1, "dependencies": 200}
    read = await read_rows(database, _ORDER["walk_open_dependencies"], after=0, batch_max=100)
    assert read["dependencies"] <= 200
