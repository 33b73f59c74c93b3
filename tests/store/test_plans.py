"""Plans are kept while tables grow, so each must be right from the first row on.

Every statement of the hot path is planned as the writers plan it, on a database that is empty and
on one that has grown since it was analyzed with a handful of rows. Whatever it reads of the ledger
it must find by key.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.operations.submitting.submit import submit, submit_one
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database
from holdfast.store.statements import Statement, load_statements

KEYS = {
    "tasks": {"job_id", "task_index"},
    "attempts": {"job_id", "task_index"},
    "leases": {"job_id", "task_index"},
    "jobs": {"job_id"},
    "ready": {"queue"},
    "waiting": {"job_id", "task_index"},
    "dependencies": {"depends_on"},
    "dead_letters": {"job_id"},
    "outbox": {"kind"},
}
HOT = {
    "work/tasks": (
        "lock_tasks", "assign_tasks", "assign_running", "start_building", "start_running",
        "end_attempts", "retry_tasks", "dead_letter_tasks", "kill_pending_tasks",
        "give_up_scheduling", "lock_live_tasks", "find_unstopped_task",
    ),
    "work/ready": (
        "share_ready", "take_ready", "take_ready_from", "take_ready_by_id", "explain_unclaimable",
        "promote_waiting", "feed_ready", "drop_stale", "take_overdue", "read_line", "leave_line",
        "drop_stale_heads",
    ),
    "work/leases": (
        "lock_leases", "renew_leases", "find_leases", "find_ended_attempts", "release_leases",
        "request_soft_cancel",
    ),
    "work/jobs": (
        "load_specs", "read_verbosity",
        "read_job_flags", "hold_jobs", "flag_cancel",
    ),
    "order/dependencies": (
        "list_waiting_dependents", "close_dependencies", "lock_dependents", "count_met",
        "walk_open_dependencies",
    ),
    "upkeep/outbox": ("take_outbox",),
    "work/dead_letters": ("reopen_letters",),
}  # fmt: skip
GROWN = {"tasks_1", "jobs", "ready"}
EMPTIED = {"ready", "waiting", "leases"}
STATEMENTS = [load_statements(file)[name] for file, names in HOT.items() for name in names]


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _table(node: dict[str, Any]) -> str | None:
    """Name the ledger table a node reads; partitions count as their parent."""
    name: str | None = node.get("Relation Name")
    return name.rstrip("0123456789").rstrip("_") if name else None


def _is_by_key(node: dict[str, Any], table: str) -> bool:
    if node["Node Type"] == "Tid Scan":
        return True
    condition = node.get("Index Cond", "")
    return all(column in condition for column in KEYS[table])


async def _explain(database: Database, statement: Statement) -> dict[str, Any]:
    async with database.transaction() as tx:
        prepared = await tx.connection.prepare(statement.text)
        types = [parameter.name for parameter in prepared.get_parameters()]
        nulls = ", ".join(["null"] * len(types))
        await tx.connection.execute(f"prepare planned as {statement.text}")
        text = await tx.connection.fetchval(f"explain (format json) execute planned({nulls})")
        await tx.connection.execute("deallocate planned")
    plan: dict[str, Any] = json.loads(text)[0]["Plan"]
    return plan


async def _misreads(
    database: Database, statement: Statement, relations: set[str] | None = None
) -> list[str]:
    """List what a statement reads otherwise than by key, of these relations or of all."""
    return [
        f"{node['Node Type']} on {table}: {node.get('Index Cond')}"
        for node in _nodes(await _explain(database, statement))
        if (table := _table(node)) in KEYS
        and (relations is None or node["Relation Name"] in relations)
        and node["Node Type"] != "ModifyTable"
        and not _is_by_key(node, str(table))
    ]


async def _list_misreads(database: Database, relations: set[str]) -> dict[str, list[str]]:
    misreads = {s.name: await _misreads(database, s, relations) for s in STATEMENTS}
    return {name: found for name, found in misreads.items() if found}


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
async def test_a_hot_statement_finds_its_rows_by_key_on_an_empty_database(
    statement: Statement, database: Database
) -> None:
    assert await _misreads(database, statement) == []


async def test_hot_statements_find_rows_by_key_once_tables_have_outgrown_their_statistics(
    database: Database, ledger: Ledger
) -> None:
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"})
    await submit_one(ledger, Submission(spec, ("1", "2", "3")))
    async with database.connection() as connection:
        await connection.execute("analyze")
    await submit_one(ledger, Submission(spec, ("1",) * 2000))
    await submit(ledger, [Submission(spec, ("1",))] * 500)
    assert await _list_misreads(database, GROWN) == {}
    # As a vacuum leaves them that came after nearly all rows had gone.
    async with database.connection() as connection:
        await connection.execute(
            "update pg_class set reltuples = 100, relpages = 100 where relname = any ($1)",
            list(GROWN),
        )
    assert await _list_misreads(database, GROWN) == {}


async def test_hot_statements_find_rows_by_key_where_a_vacuum_found_a_table_empty(
    database: Database,
) -> None:
    """Leases and lines are often empty; they may grow by millions before they are counted again."""
    async with database.connection() as connection:
        await connection.execute(
            "update pg_class set reltuples = 0, relpages = 1000 where relname = any ($1)",
            list(EMPTIED),
        )
    assert await _list_misreads(database, EMPTIED) == {}


async def test_the_check_sees_a_plan_that_reads_too_much(database: Database) -> None:
    """A control: the same read with the planner left alone on a small table is caught."""
    greedy = Statement("greedy", "select * from holdfast.tasks where job_id = $1", ("job_id",))
    assert await _misreads(database, greedy) != []
