"""What looks for what is due reads nothing else: a volatile clock in a comparison ends no index.

Chores look several times a second. Whatever waits for tomorrow, a million tasks perhaps, must not
be read to find that nothing is due.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.operations.submitting.submit import submit
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database
from holdfast.store.statements import load_statements

MANY = 1000
SOON = "now() + interval '1 day'"
FILLINGS = [
    f"outbox (kind, job_id, created_at, due_at) select kind, job_id, now(), {SOON} from "
    "unnest('{sweep,job_ended,release}'::text[]) as kind, holdfast.tasks",
    f"waiting (job_id, task_index, eligible_at) select job_id, 0, {SOON} from holdfast.tasks",
    "ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at) "
    f"select 'q', 0, now(), job_id, 0, {SOON} from holdfast.tasks",
    "gated (job_id, task_index, queue, urgency, eligible_at, unschedulable_at, bucket_id, "
    f"gated_at) select job_id, 0, 'q', 0, now(), {SOON}, 1, now() from holdfast.tasks",
    f"expiries (job_id, expires_at) select job_id, {SOON} from holdfast.tasks",
    "notes (job_id, task_index, attempt, kind, ts, payload, expires_at) "
    f"select job_id, 0, 0, 'x', now(), '{{}}', {SOON} from holdfast.tasks",
    "idempotency_keys (scope, key, request_digest, created_at) "
    "select 'x', 'k' || job_id, '', now() from holdfast.tasks",
    "type_samples (at, server_id, type, attempts, failures, waits, runs) select "
    "date_trunc('hour', now()), 's', 't' || job_id, 1, 0, array_fill(0, '{17}'), "
    "array_fill(0, '{17}') from holdfast.tasks",
    "worker_samples (at, server_id, worker_id, succeeded, failed, worker_failed, killed) "
    "select date_trunc('hour', now()), 's', 'w' || job_id, 1, 0, 0, 0 from holdfast.tasks",
    "trigger_runs (dataset, trigger, version, requested_at, due_at) "
    f"select 'd', 't', job_id, now(), {SOON} from holdfast.tasks",
]
BATCH = {"batch_max": 1000}
NONE: dict[str, Any] = {"except_jobs": [], **BATCH}
OLD = {"older_than": timedelta(days=1), **BATCH}
LOOKS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("work/ready", "lock_due", "waiting", NONE),
    ("work/ready", "list_overdue", "ready", NONE),
    ("limits/limits", "list_overdue_gated", "gated", NONE),
    ("submitting/expiries", "list_unstarted", "expiries", NONE),
    ("submitting/expiries", "delete_expiries", "expiries", BATCH),
    ("upkeep/outbox", "list_outbox", "outbox", {"kinds": ["sweep", "job_ended"], **BATCH}),
    ("upkeep/outbox", "take_outbox", "outbox", {"kind": "sweep", "ids": None, **BATCH}),
    ("upkeep/outbox", "take_small_sweeps", "outbox", {"tasks_max": 100, **BATCH}),
    ("upkeep/outbox", "drop_childless_ends", "outbox", BATCH),
    ("order/dependencies", "list_waiting_dependents", "outbox", {"ended_max": 100, **NONE}),
    ("output/events", "prune_notes", "notes", BATCH),
    ("access/keys", "prune_keys", "idempotency_keys", OLD),
    ("upkeep/samples", "prune_type_samples", "type_samples", OLD),
    ("upkeep/samples", "prune_worker_samples", "worker_samples", OLD),
    ("datasets/triggers", "list_due_runs", "trigger_runs", BATCH),
]


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _count_read(plan: dict[str, Any], table: str) -> int:
    """Count the rows of a table that were looked at, whether they were wanted or not."""
    read = 0
    for node in _nodes(plan):
        if node.get("Relation Name") == table and node["Node Type"] != "ModifyTable":
            seen = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            read += round(seen * node["Actual Loops"])
    return read


async def _list_reads(connection: asyncpg.Connection) -> dict[str, int]:
    reads = {}
    for file, name, table, values in LOOKS:
        statement = load_statements(file)[name]
        text = f"explain (analyze, format json) {statement.text}"
        found = json.loads(await connection.fetchval(text, *statement.arguments(values)))
        reads[name] = _count_read(found[0]["Plan"], table)
    return {name: count for name, count in reads.items() if count > 0}


@pytest.mark.parametrize("is_analyzed", [False, True])
async def test_what_is_not_due_is_not_read(
    ledger: Ledger, database: Database, *, is_analyzed: bool
) -> None:
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "elsewhere"})
    await submit(ledger, [Submission(spec, ("1",))] * MANY)
    async with database.connection() as connection:
        # Datasets and the like are not looked at: rows need not belong to one.
        await connection.execute("set session_replication_role = replica")
        for filling in FILLINGS:
            await connection.execute(f"insert into holdfast.{filling}")
        if is_analyzed:
            await connection.execute("analyze")
    async with database.transaction() as tx:
        assert await _list_reads(tx.connection) == {}
