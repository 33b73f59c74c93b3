"""Read what a run has left: the record of the work, and the ledger's tables as they are."""

from typing import Any

import psycopg

from chaos.checker.history import (
    AttemptRow,
    Entry,
    Event,
    Finding,
    Firing,
    History,
    JobRow,
    LeaseRow,
    Mark,
    State,
    TaskRow,
    Write,
)
from holdfast.operations.upkeep.audit import audit
from holdfast.store.database import Database

COUNTED = (
    State.PENDING, State.ASSIGNED, State.BUILDING, State.RUNNING, State.SUCCEEDED, State.FAILED,
    State.KILLED, State.WORKER_FAILED, State.UNSCHEDULABLE, State.DEAD_LETTERED,
)  # fmt: skip
_COUNTS = ", ".join(state.name.lower() for state in COUNTED)
# Tables that are empty when nothing is left to do.
WORK_TABLES = ("leases", "outbox", "ready", "gated", "waiting", "unique_jobs")
# What the audit sees where somebody has set the clock of the database back, and only that.
CLOCK_RAN_BACKWARD = "time_runs_backward"
_LIVE = """
select count(*) from holdfast.jobs
 where finished_at is null and submitted_at is not null
"""
_REASONS = """
select job_id || '.' || task_index,
       concat_ws(', ', case when jobs.unmet > 0 then 'waits for ' || jobs.unmet || ' jobs' end,
                 case when gated.job_id is not null then 'stands behind a limit' end,
                 case when ready.job_id is not null then 'stands in line' end,
                 case when leases.job_id is not null then 'is with ' || leases.worker_id end,
                 case when waiting.job_id is not null
                      then 'waits until ' || waiting.eligible_at end)
  from holdfast.tasks join holdfast.jobs using (job_id)
  left join holdfast.gated using (job_id, task_index)
  left join holdfast.leases using (job_id, task_index)
  left join holdfast.waiting using (job_id, task_index)
  left join (select distinct job_id, task_index from holdfast.ready) as ready
      using (job_id, task_index)
 where tasks.finished_at is null
"""
_FIRINGS = """
select name, instant, job_id from holdfast.schedule_firings join holdfast.schedules
 using (schedule_id)
"""
_ENTRIES = """
select dataset, version, key, job_id || '.' || task_index from holdfast.dataset_entries
 where copied_from is null
"""


def count_left(connection: "psycopg.Connection[Any]") -> dict[str, int]:
    """Count the jobs that have not ended, and what else is left to do."""
    counts = {"jobs": _value(connection, _LIVE)}
    for table in WORK_TABLES:
        counts[table] = _value(connection, f"select count(*) from holdfast.{table}")
    return {name: count for name, count in counts.items() if count}


def read_record(history: History, url: str) -> None:
    """Read what the work has noted of itself."""
    with psycopg.connect(url, autocommit=True) as connection:
        marks = "select task, attempt, kind, at, worker, key from marks order by number"
        history.marks = [Mark(*row) for row in connection.execute(marks)]
        writes = "select number, task, attempt from writes order by number"
        history.writes = [Write(*row) for row in connection.execute(writes)]


def read_ledger(history: History, url: str) -> None:
    """Read the tables, all at one moment."""
    with psycopg.connect(url) as connection:
        connection.execute("set transaction isolation level repeatable read")
        history.effects = _rows(connection, "select task, attempt from public.effects")
        events = """select job_id, task_index, seq, attempt, type::text, id, txid, ts, cause
                      from holdfast.events order by id"""
        history.events = [Event(*row) for row in _rows(connection, events)]
        reasons = dict(_rows(connection, _REASONS))
        tasks = """select job_id, task_index, state, attempt, finished_at is not null, result
                     from holdfast.tasks"""
        history.tasks = [
            TaskRow(
                row[0],
                row[1],
                State(row[2]),
                row[3],
                row[4],
                row[5],
                reasons.get(f"{row[0]}.{row[1]}", ""),
            )
            for row in _rows(connection, tasks)
        ]
        jobs = f"""select job_id, state, num_tasks, finished_at is not null, idempotency_key,
                          compensates_job_id, type, {_COUNTS} from holdfast.jobs"""
        history.jobs = [
            JobRow(row[0], State(row[1]), row[2], row[3], _count(row[7:]), *row[4:7])
            for row in _rows(connection, jobs)
        ]
        attempts = """select job_id, task_index, attempt, attempts.state, released_at is not null,
                             workers.name, error_class
                        from holdfast.attempts left join holdfast.workers using (worker_id)"""
        history.attempts = [
            AttemptRow(row[0], row[1], row[2], State(row[3]), *row[4:])
            for row in _rows(connection, attempts)
        ]
        leases = "select job_id, task_index, attempt, worker_id from holdfast.leases"
        history.leases = [LeaseRow(*row) for row in _rows(connection, leases)]
        history.firings = [Firing(*row) for row in _rows(connection, _FIRINGS)]
        history.entries = [Entry(*row) for row in _rows(connection, _ENTRIES)]
        for table in WORK_TABLES:
            history.left[table] = _value(connection, f"select count(*) from holdfast.{table}")


async def read_audit(url: str, *, backward: bool) -> list[Finding]:
    """Ask the audit; that the clock was set back is no finding where it was."""
    async with Database(url) as database:
        return [
            Finding("audit", found.subject, f"{found.invariant}: {found.detail}")
            async for found in audit(database)
            if not (backward and found.invariant == CLOCK_RAN_BACKWARD)
        ]


def _count(row: tuple[int, ...]) -> dict[State, int]:
    return dict(zip(COUNTED, row, strict=True))


def _rows(connection: "psycopg.Connection[Any]", query: str) -> list[Any]:
    return connection.execute(query).fetchall()


def _value(connection: "psycopg.Connection[Any]", query: str) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])
