"""What people read is found by an index, in its order, however large the ledger has grown.

Planned as readers plan it: on an empty database, on one that has outgrown its statistics, and on
one whose statistics know a single type, owner and queue, for which any index looks as good.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.operations.submitting.submit import submit
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database
from holdfast.store.statements import Statement, load_statements

# What each reads must be bounded by these columns; a list in the index's own order needs no sort.
IN_ORDER = {
    "walk_jobs": {"jobs": "job_id <"},
    "list_actions": {"actions": "action_id <"},
    "walk_jobs_of_type": {"jobs": "type"},
    "walk_jobs_of_owner": {"jobs": "owner"},
    "walk_jobs_of_queue": {"jobs": "queue"},
    "walk_jobs_of_parent": {"jobs": "parent_job_id"},
    "walk_jobs_of_correlation": {"jobs": "correlation_id"},
    "walk_jobs_with_label": {"job_labels": "label"},
    "walk_jobs_in_chunks": {"jobs": "job_id <"},
    "keep_jobs_of_type": {"jobs": "type"},
    "keep_jobs_of_owner": {"jobs": "owner"},
    "keep_jobs_of_queue": {"jobs": "queue"},
    "get_input": {"jobs": "job_id", "tasks": "task_index"},
    "walk_job_log": {"logs": "stored_at"},
    "walk_job_log_back": {"logs": "stored_at"},
    "has_lease": {"leases": "job_id"},
    "list_newest_letters": {"dead_letters": "dead_lettered_at"},
    "measure_letters": {"dead_letters": ""},
    "measure_letters_of_job": {"dead_letters": "job_id ="},
    "read_inputs": {"tasks": "task_index"},
    "measure_inputs": {"tasks": "job_id"},
    "list_names": {"jobs": "name"},
    "walk_tasks": {"tasks": "job_id"},
    "walk_leased_tasks": {"leases": "job_id"},
    "walk_dead_tasks": {"dead_letters": "job_id"},
    "list_attempts": {
        "attempts": "task_index",
        "leases": "task_index",
        "tasks": "task_index",
        "attempt_usage": "attempt",
    },
    "list_results": {"jobs": "job_id", "tasks": "task_index", "attempts": "attempt"},
    "get_job_with_spec": {"jobs": "job_id"},
    "find_terms": {"jobs": "job_id"},
    "count_ahead": {"ready": "urgency"},
    "read_feeding": {"outbox": "job_id"},
    "walk_open_dead_letters": {"dead_letters": "job_id"},
    "walk_dead_letters": {"dead_letters": "job_id"},
    "walk_newest_open_letters": {"dead_letters": "dead_lettered_at"},
    "list_open_ids": {"dead_letters": "job_id"},
    "read_accounts": {"attempt_usage": "attempt"},
    "read_standing": {"ready": "task_index"},
    "count_jobs_in_line": {"ready": "job_id"},
    "count_placed_of_jobs": {"ready": "job_id"},
    "read_resources": {"jobs": "job_id ="},
    "list_unmet": {"dependencies": "job_id =", "jobs": "job_id ="},
    "read_end": {"jobs": "job_id", "events": "task_index", "dependencies": "job_id ="},
    "walk_up": {"dependencies": "job_id ="},
    "walk_down": {"dependencies": "depends_on ="},
    "list_datasets": {"datasets": "name", "dataset_versions": "dataset"},
    "get_dataset": {"datasets": "name", "dataset_versions": "dataset"},
    "list_versions": {"dataset_versions": "dataset"},
    "list_cut_overs": {"cut_overs": "dataset"},
    "list_entries": {"dataset_entries": "dataset"},
}
SORTED = {
    "walk_jobs_named": {"jobs": "name"},
    "walk_jobs_in_states": {"job_states": "state"},
    "read_errors": {"jobs": "job_id ="},
    "list_again": {"jobs": "job_id =", "events": "task_index", "dead_letters": "job_id ="},
    "find_jobs_by_time": {"jobs": "job_id >"},
    "list_job_attempts": {"attempts": "task_index", "leases": "task_index", "tasks": "task_index"},
    "read_stretches": {"logs": "start_offset"},
    "read_around": {"logs": "start_offset"},
    "count_letters": {"dead_letters": ""},
    "count_letters_of_job": {"dead_letters": "job_id ="},
    "list_newest_letters_of_job": {"dead_letters": "job_id ="},
    "read_jobs": {"jobs": "job_id ="},
    "list_waiting_tasks": {"ready": "job_id", "leases": "job_id", "waiting": "job_id"},
    "read_tasks": {
        "tasks": "task_index",
        "leases": "task_index",
        "attempts": "task_index",
        "notes": "task_index",
    },
    "list_events_of_job": {"events": "job_id", "jobs": "job_id"},
    "list_events_of_job_within": {"events": "ts", "jobs": "job_id"},
    "list_events_of_job_before": {"events": "ts", "jobs": "job_id"},
    "list_events_of_task": {"events": "task_index", "jobs": "job_id"},
    "list_notes": {
        "notes": "kind",
        "jobs": "job_id",
        "attempts": "task_index",
        "leases": "task_index",
    },
    "list_user_events": {
        "notes": "job_id",
        "jobs": "job_id",
        "attempts": "task_index",
        "leases": "task_index",
    },
    "list_user_events_of_correlation": {
        "jobs": "correlation_id",
        "notes": "job_id",
        "attempts": "task_index",
        "leases": "task_index",
    },
    "search_user_events": {
        "notes": "ts",
        "jobs": "job_id",
        "attempts": "task_index",
        "leases": "task_index",
    },
    "list_events_of_correlation": {"jobs": "correlation_id", "events": "job_id"},
    "list_events_within": {"events": "ts", "jobs": "job_id"},
    "measure_correlation": {"jobs": "correlation_id"},
    "read_totals": {"tasks": "job_id", "attempt_usage": "job_id", "leases": "job_id"},
    "read_events_between": {"events": "txid", "jobs": "job_id"},
    "read_events_of_job_between": {"events": "job_id", "jobs": "job_id"},
    "list_changed_jobs": {"events": "txid"},
    "count_finished": {"events": "ts", "jobs": "job_id"},
    "count_events_since": {"events": "ts"},
    "read_dead_letters": {"dead_letters": "task_index"},
    "read_letter_errors": {"dead_letters": "task_index"},
    "walk_newest_letters": {"dead_letters": "dead_lettered_at"},
    "list_taken": {"jobs": "job_id ="},
    "list_sized_heads": {"ready": "queue", "jobs": "job_id ="},
    "list_demands_of_job": {"ready": "job_id", "jobs": "job_id"},
    "read_graph_jobs": {"jobs": "= mine.job_id"},
    "walk_attempts_of_worker": {"attempts": "hashtextextended"},
    "list_jobs_of_worker": {"attempts": "hashtextextended"},
    "read_attempts_of_worker": {"attempts": "attempt", "jobs": "job_id"},
    "find_ended_task": {"tasks": "task_index", "attempts": "attempt"},
    "list_edges": {"dependencies": "= mine.job_id"},
    "list_continued": {"jobs": "job_id =", "continuations": "job_id ="},
    "walk_broken": {
        "dependencies": "= broken",
        "jobs": "job_id =",
        "undos": "job_id =",
        "events": "task_index",
    },
    "list_in_vain": {
        "dependencies": "depends_on =",
        "jobs": "job_id =",
        "events": "task_index",
    },
    "read_resumable": {"jobs": "job_id =", "continuations": "job_id =", "undos": "job_id ="},
    "list_replays": {"events": "task_index"},
    "list_parked": {"waiting": "job_id", "tasks": "task_index", "signal_waits": "job_id"},
    "list_kept": {"signals": "job_id", "signal_waits": "job_id"},
    "list_gates": {"gated": "_id", "limit_spent": "bucket_id"},
    "read_turn": {"gated": "_id"},
    "list_holders": {"leases": "held"},
    "list_buckets": {"limit_buckets": "limit_id", "leases": "held", "gated": "bucket_id"},
    "find_schedule": {"schedules": "name"},
    "list_schedules": {"schedules": "name"},
    "list_firings": {"schedule_firings": "schedule_id", "jobs": "job_id"},
    "list_last_firings": {"schedule_firings": "schedule_id", "jobs": "job_id"},
    "count_misses": {"schedule_misses": "schedule_id"},
    "list_last_misses": {"schedule_misses": "schedule_id"},
    "lock_open_letters": {"dead_letters": "job_id ="},
    "lock_streams": {"jobs": "job_id ="},
    "hold_streams": {"jobs": "job_id ="},
    "insert_continuations": {"jobs": "job_id =", "undos": "job_id ="},
    "list_replayed_tasks": {
        "dead_letters": "job_id =",
        "jobs": "job_id =",
        "undos": "job_id =",
        "tasks": "task_index",
    },
}
# What the overview reads of steps, and counts up to a bound.
OVERVIEW = {
    "read_samples": {"samples": "step_seconds"},
    "read_type_samples": {"type_samples": "at >="},
    "read_worker_samples": {"worker_samples": "at >="},
    "read_type_times": {"type_samples": "at >="},
    "count_pending": {"ready": "", "waiting": ""},
    "count_parked": {"waiting": "", "signal_waits": "task_index", "tasks": "task_index"},
    "count_placed": {"ready": ""},
    "count_open_states": {"tasks": "task_index"},
    "count_open_letters": {"dead_letters": ""},
    "list_finishing_queues": {"events": "ts", "jobs": "job_id"},
}
EXPECTED = {**IN_ORDER, **SORTED, **OVERVIEW}
READS = Path(holdfast.__file__).parent / "store" / "sql" / "reads"
STATEMENTS = {
    **{
        name: statement
        for file in READS.rglob("*.sql")
        for name, statement in load_statements(
            str(file.relative_to(READS.parent).with_suffix(""))
        ).items()
    },
    "list_demands_of_job": load_statements("workers/cluster")["list_demands_of_job"],
    **{name: load_statements("work/tasks")[name] for name in ("read_inputs", "measure_inputs")},
    **{name: found for name, found in load_statements("order/resume").items() if name in SORTED},
}
# A walk that starts at the front of an index, or a merge of two answers that are in order.
UNBOUNDED = {
    ("list_names", "jobs"),
    ("count_jobs_in_line", "ready"),
    ("find_jobs_by_time", "jobs"),
    ("list_newest_letters", "dead_letters"),
}
# What is open is looked at once, to take a fair sample of it, or up to a bound.
WHOLE = {("count_open_states", "leases"), ("list_taken", "leases")}
SOME = {
    "int2": "1",
    "int4": "1",
    "int8": "1",
    "float8": "1",
    "text": "'x'",
    "timestamptz": "now()",
    "interval": "'1 s'",
    "int2[]": "array[1]",
    "int4[]": "array[1]",
    "int8[]": "array[1]",
    "text[]": "array['x']",
    "timestamptz[]": "array[now()]",
    "bool": "true",
}


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _problems(name: str, plan: dict[str, Any]) -> list[str]:
    """List what a plan reads otherwise than it should."""
    problems = []
    conditions: dict[str, list[str]] = {}
    bitmaps = [n for n in _nodes(plan) if n["Node Type"] == "Bitmap Index Scan"]
    for node in _nodes(plan):
        relation = node.get("Relation Name")
        kind = node["Node Type"]
        if kind in ("Sort", "Incremental Sort") and name in IN_ORDER and name != "list_attempts":
            problems.append(f"{kind} by {node['Sort Key']}")
        if relation is None or relation == "workers" or (name, relation) in WHOLE:
            continue
        table = relation.rstrip("0123456789").rstrip("_")
        if kind == "Seq Scan":
            problems.append(f"Seq Scan on {table}")
        condition = node.get("Index Cond", "")
        if kind == "Bitmap Heap Scan":
            condition = " ".join(n["Index Cond"] for n in bitmaps)
        conditions.setdefault(table, []).append(condition)
    for table, column in EXPECTED[name].items():
        unbounded = [c for c in conditions.get(table, [""]) if column not in c]
        if unbounded and (name, table) not in UNBOUNDED:
            problems.append(f"{table} is not bounded by {column}: {unbounded}")
    return problems


async def _explain(database: Database, statement: Statement) -> dict[str, Any]:
    async with database.transaction() as tx:
        prepared = await tx.connection.prepare(statement.text)
        # Values that lead to a partition: one that is sure not to match would not be planned for.
        values = ", ".join(SOME[parameter.name] for parameter in prepared.get_parameters())
        await tx.connection.execute(f"prepare planned as {statement.text}")
        text = await tx.connection.fetchval(f"explain (format json) execute planned({values})")
        await tx.connection.execute("deallocate planned")
    plan: dict[str, Any] = json.loads(text)[0]["Plan"]
    return plan


async def _all_problems(database: Database) -> dict[str, list[str]]:
    problems = {
        name: _problems(name, await _explain(database, STATEMENTS[name])) for name in EXPECTED
    }
    return {name: found for name, found in problems.items() if found}


async def _fill(ledger: Ledger, count: int, **fields: Any) -> None:
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"} | fields)
    await submit(ledger, [Submission(spec, ("1",))] * count)


@pytest.mark.parametrize("name", EXPECTED)
async def test_a_read_is_bounded_by_an_index_on_an_empty_database(
    name: str, database: Database
) -> None:
    assert _problems(name, await _explain(database, STATEMENTS[name])) == []


async def test_reads_are_bounded_once_tables_have_outgrown_their_statistics(
    database: Database, ledger: Ledger
) -> None:
    await _fill(ledger, 3)
    async with database.connection() as connection:
        await connection.execute("analyze")
    for number in range(4):
        await _fill(ledger, 500, type=f"t{number}", labels={"n": str(number)})
    assert await _all_problems(database) == {}


async def test_reads_are_bounded_when_statistics_know_a_single_type_owner_and_queue(
    database: Database, ledger: Ledger
) -> None:
    for _ in range(4):
        await _fill(ledger, 500, labels={"team": "search"})
    async with database.connection() as connection:
        await connection.execute("analyze")
    assert await _all_problems(database) == {}


async def test_the_check_sees_a_plan_that_walks_past_every_job(database: Database) -> None:
    """A control: the same list by another order is read past all that are not wanted."""
    greedy = Statement(
        "walk_jobs_of_type",
        "select job_id from holdfast.jobs where type = $1 and job_id < $2"
        " order by job_id desc limit $3",
        ("type", "before_job_id", "count_max"),
    )
    assert _problems("walk_jobs_of_type", await _explain(database, greedy)) != []


# Not bounded by an index, each for a reason.
WHOLE_TABLES = {
    "every worker is looked at, of which there are thousands at most": {
        "list_workers", "count_workers", "count_workers_of_queues", "list_missing_workers",
        "count_serving", "list_serving_workers", "list_serving",
    },
    "every open attempt is looked at, as many as workers hold": {
        "count_leases", "count_running", "has_stranger", "list_held", "list_held_jobs",
        "list_booked_of_workers",
    },
    "from line to line, each counted up to a bound": {"list_lines"},
    "a share of the pages, so that some hundred are read": {
        "sample_depths", "sample_gated", "sample_ready", "sample_waiting",
        "sample_waiting_of_queues",
    },
    "the size of a table, which is not read": {"measure_gated", "measure_ready", "measure_waiting"},
    "the first so many, in the order of an index": {"count_waiting"},
    "the first so many": {"count_gated"},
    "every limit or shared queue, and what stands behind each up to a bound": {
        "count_use", "list_queue_gates", "list_shares", "count_in_shares",
    },
    "a row for each queue that was ever paused": {"list_paused", "read_condition"},
    "no more rows than a dataset may have triggers": {"list_triggers"},
    "every job that is live, or a range of jobs: once a minute, and in no request": {
        "count_live_tasks", "count_bytes",
    },
    "a row for each partition": {"list_ranges"},
    "no table": {
        "read_horizon", "read_stored_until", "list_horizon_holders", "read_position",
        "read_wal_position", "read_replay",
    },
    "the catalogue or the statistics of Postgres, when the doctor is asked": {
        "read_settings", "read_clocks", "count_connections", "read_transaction_id_age",
        "list_missing_rights", "read_role", "list_table_rows", "list_unvacuumed", "list_standbys",
    },
    "what is open now, counted once, when the doctor is asked": {
        "read_ranges", "read_backlog", "read_leader", "list_schedule_problems",
    },
}  # fmt: skip


def test_every_statement_that_people_read_by_has_its_plan_checked_or_a_reason_not_to() -> None:
    excused = [name for names in WHOLE_TABLES.values() for name in names]
    assert sorted(STATEMENTS) == sorted([*EXPECTED, *excused])
