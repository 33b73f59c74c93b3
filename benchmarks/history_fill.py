"""A ledger with very many finished tasks: jobs of a hundred each, with attempts and every event.

Copies of one that was really submitted, written past the triggers and constraints of references,
in partitions as the program makes them.
"""

import asyncio
import sys
import time
from contextlib import AsyncExitStack

import asyncpg

from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.upkeep.partitions import ensure_partitions
from holdfast.rules.partitions import SPAN_MAX
from holdfast.rules.submitting.submission import parse_inputs, parse_spec

JOB_TASKS = 100
BATCH_JOBS = 2000
CONNECTIONS = 2
STATEMENT_SECONDS_MAX = 600

# As if a hundred jobs had been submitted a second, up to an hour ago; all of them have succeeded.
JOBS = """
insert into holdfast.jobs
select copy.*
  from holdfast.jobs as template,
       generate_series($2::bigint, $3::bigint) as n,
       lateral (select holdfast.now() - interval '1 h' - ($4 - n) * interval '10 ms') as told(at),
       lateral jsonb_populate_record(template, jsonb_build_object(
           'job_id', n, 'name', 'job-' || n % 5000, 'type', 'type-' || n % 40,
           'owner', 'team-' || n % 50, 'queue', 'q' || n % 20,
           'correlation_id', 'c' || n, 'idempotency_key', null,
           'created_at', told.at, 'submitted_at', told.at, 'event_at', told.at + interval '3 s',
           'state', 4, 'started_at', told.at + interval '1 s',
           'finished_at', told.at + interval '3 s',
           'num_tasks', {tasks}, 'fan_out', true, 'pending', 0, 'succeeded', {tasks})) as copy
 where template.job_id = $1
""".format(tasks=JOB_TASKS)  # noqa: UP032 - the braces of SQL stay as they are
TASKS = """
insert into holdfast.tasks (job_id, task_index, state, attempt, seq, placed, eligible_at,
                            submitted_at, started_at, finished_at, moved_at, input, result)
select job_id, task_index, 4, 0, 3, false, submitted_at, submitted_at, started_at, finished_at,
       finished_at, '{"n": 1}', '1'::json
  from holdfast.jobs, generate_series(0, num_tasks - 1) as task_index
 where job_id between $1 and $2
"""
ATTEMPTS = """
insert into holdfast.attempts (job_id, task_index, attempt, worker_id, state, created_at,
                               started_at, finished_at, released_at, lease_token,
                               last_lease_expires_at, reported)
select job_id, task_index, 0, 'worker-' || job_id % 200, 4, started_at, started_at, finished_at,
       finished_at, gen_random_uuid(), finished_at + interval '30 s', true
  from holdfast.jobs, generate_series(0, num_tasks - 1) as task_index
 where job_id between $1 and $2
"""
EVENTS = """
insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, txid)
select job_id, -1, step, -1, kind::holdfast.event_type, submitted_at + step * interval '1 s',
       pg_current_xact_id()::text::bigint
  from holdfast.jobs,
       lateral (values (0, 'submitted'), (1, 'started'), (2, 'succeeded')) as happened(step, kind)
 where job_id between $1 and $2
"""
TASK_EVENTS = """
insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, txid)
select job_id, task_index, step, 0, kind::holdfast.event_type,
       submitted_at + (step + 1) * interval '1 s', pg_current_xact_id()::text::bigint
  from holdfast.jobs, generate_series(0, num_tasks - 1) as task_index,
       lateral (values (0, 'claimed'), (1, 'started'), (2, 'succeeded')) as happened(step, kind)
 where job_id between $1 and $2
"""


async def fill_history(ledger: Ledger, url: str, *, tasks: int, seconds_max: float) -> int:
    """Write finished jobs until there are so many tasks or the time is up; returns how many."""
    template = await _submit(ledger)
    first, last = template + 1, template + tasks // JOB_TASKS
    await ensure_partitions(ledger, last + SPAN_MAX // 100)
    batches = [
        (begin, min(begin + BATCH_JOBS - 1, last)) for begin in range(first, last + 1, BATCH_JOBS)
    ]
    ends_at = time.monotonic() + seconds_max
    filled = 0

    async def work(connection: asyncpg.Connection) -> None:
        nonlocal filled
        while batches and time.monotonic() < ends_at:
            begin, end = batches.pop(0)
            await connection.execute(
                JOBS, template, begin, end, last, timeout=STATEMENT_SECONDS_MAX
            )
            for statement in (TASKS, ATTEMPTS, EVENTS, TASK_EVENTS):
                await connection.execute(statement, begin, end, timeout=STATEMENT_SECONDS_MAX)
            filled += (end - begin + 1) * JOB_TASKS
            print(f"history: {filled:,} tasks", file=sys.stderr)

    async with AsyncExitStack() as stack:
        connections = [await asyncpg.connect(url, timeout=60) for _ in range(CONNECTIONS)]
        for connection in connections:
            stack.push_async_callback(connection.close)
            await connection.execute("set session_replication_role = replica")
            await connection.execute("set synchronous_commit = off")
        await asyncio.gather(*(work(connection) for connection in connections))
        await connections[0].execute("select setval('holdfast.job_ids', $1)", last)
        # A server would have done both all along.
        await connections[0].execute("vacuum analyze", timeout=STATEMENT_SECONDS_MAX)
        await connections[0].execute("checkpoint", timeout=STATEMENT_SECONDS_MAX)
    return filled


async def _submit(ledger: Ledger) -> int:
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "old", "name": "old"})
    submitted: Submitted = await submit_one(ledger, Submission(spec, parse_inputs([1])))
    return submitted.job_id
