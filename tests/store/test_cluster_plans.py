"""What the leader reads and writes each tick is found by an index, however much is in line.

Planned as the leader plans it: on an empty database, and on one that has grown since it was
analyzed with a handful of rows.
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

# By which index each table is read; rows found before are met again by their place.
LINE = "ready_to_be_placed"
LEASE_OF_TASK, PLACED = "one_unreleased_attempt_per_task", "placed_leases_of_a_worker"
EXPECTED: dict[str, dict[str, str | tuple[str, ...]]] = {
    "read_called_workers": {"workers": "worker"},
    "read_wanted": {"leases": PLACED, "tasks": "tasks"},
    "read_gangs": {
        "tasks": "tasks",
        "leases": LEASE_OF_TASK,
        "attempts": "attempts",
        "attempt_usage": "one_account_per_attempt",
        "workers": "worker",
    },
    "list_placed_stops": {"leases": "leases_asked_to_stop"},
    "list_unfinished_losses": {"leases": PLACED, "workers": "worker"},
    "hold_workers": {"workers": "worker"},
    "renew_placed": {"leases": LEASE_OF_TASK},
    "record_answers": {"workers": "worker"},
    "count_failures": {"workers": "worker"},
    "mark_lost": {"workers": "worker"},
    "list_booked": {
        "leases": (PLACED, "claimed_leases_of_a_book"),
        "tasks": "tasks",
        "workers": "worker",
    },
    "list_ports": {"leases": PLACED, "workers": "worker"},
    "list_devices": {"leases": PLACED, "workers": "worker"},
    "find_placed_ready": {"ready": LINE},
    "list_demands": {"ready": LINE, "jobs": "jobs_pkey"},
    "drop_ready_of_ended_jobs": {"ready": LINE},
    "hold_open_workers": {"workers": "worker"},
    "take_ready_of_jobs": {"ready": LINE, "tasks": "tasks", "jobs": "jobs_pkey"},
    "place_tasks": {"tasks": "tasks"},
    "find_leases_of_worker": {"leases": LEASE_OF_TASK},
}
STATEMENTS = load_statements("workers/cluster")


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


async def _explain(database: Database, statement: Statement) -> dict[str, Any]:
    async with database.transaction() as tx:
        prepared = await tx.connection.prepare(statement.text)
        nulls = ", ".join(["null"] * len(prepared.get_parameters()))
        await tx.connection.execute(f"prepare planned as {statement.text}")
        call = f"planned({nulls})" if nulls else "planned"
        text = await tx.connection.fetchval(f"explain (format json) execute {call}")
        await tx.connection.execute("deallocate planned")
    plan: dict[str, Any] = json.loads(text)[0]["Plan"]
    return plan


async def _misreads(database: Database, name: str) -> list[str]:
    """List what a statement reads otherwise than it should."""
    misread = []
    met = set()
    for node in _nodes(await _explain(database, STATEMENTS[name])):
        relation, kind = node.get("Relation Name"), node["Node Type"]
        if relation is None or kind in ("ModifyTable", "Tid Scan"):
            continue
        table = relation.rstrip("0123456789").rstrip("_")
        met.add(table)
        index = node.get("Index Name", "none")
        expected = EXPECTED[name].get(table, "no index at all")
        if kind not in ("Index Scan", "Index Only Scan") or not index.startswith(expected):
            misread.append(f"{kind} of {table} by {index}, not by {expected}")
    return misread + [f"{table} is not read" for table in EXPECTED[name].keys() - met]


@pytest.mark.parametrize("name", EXPECTED)
async def test_a_statement_of_the_leader_finds_its_rows_by_index(
    database: Database, name: str
) -> None:
    assert await _misreads(database, name) == []


async def test_they_do_so_once_tables_have_outgrown_their_statistics(
    database: Database, ledger: Ledger
) -> None:
    spec = parse_spec({"entrypoint": {"function": "app:work"}})
    await submit_one(ledger, Submission(spec, ("1", "2", "3")))
    async with database.connection() as connection:
        await connection.execute("analyze")
    await submit_one(ledger, Submission(spec, ("1",) * 2000))
    await submit(ledger, [Submission(spec, ("1",))] * 500)
    misread = {name: await _misreads(database, name) for name in EXPECTED}
    assert {name: found for name, found in misread.items() if found} == {}


async def test_the_check_sees_a_plan_that_reads_too_much(database: Database) -> None:
    """A control: without the index of placed work, its line is caught."""
    async with database.connection() as connection:
        await connection.execute(f"drop index holdfast.{LINE}")
    assert await _misreads(database, "list_demands") != []
