"""A ledger as large as the dashboard must bear: a million jobs by SQL, and a job of many tasks.

The many are copies of one that was really submitted, written past the triggers; the one with many
tasks went through claims, starts and ends like any other.
"""

from collections.abc import Sequence

import asyncpg

from benchmarks.ledger import fence_of
from holdfast.model.spec import Submission
from holdfast.model.states import TaskState
from holdfast.operations.arrivals import Submitted
from holdfast.operations.claim import ClaimRequest, claim
from holdfast.operations.complete import Completion, complete
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.ledger import Ledger
from holdfast.operations.logs import Stretch, append_logs
from holdfast.operations.partitions import ensure_partitions
from holdfast.operations.report import Report, report
from holdfast.operations.submit import submit_one
from holdfast.rules.submission import parse_inputs, parse_spec

BATCH = 1000
QUEUE = "bench"
# Of a hundred jobs: most have succeeded, a few have not, and the newest are still under way.
COPY = """
insert into holdfast.jobs
select copy.*
  from holdfast.jobs as template,
       generate_series($2::bigint, $3::bigint) as n,
       lateral (select holdfast.now() - ($3 - n) * interval '0.5 s' as at,
                       case when $3 - n < 200 then 1 when $3 - n < 400 then 3
                            when n % 100 = 0 then 5 when n % 100 = 1 then 6
                            when n % 500 = 2 then 10 else 4 end as state) as told,
       lateral jsonb_populate_record(template, jsonb_build_object(
           'job_id', n, 'name', 'job-' || n % 5000, 'type', 'type-' || n % 40,
           'owner', 'team-' || n % 50, 'queue', 'q' || n % 20,
           'labels', case when n % 10 = 0 then jsonb_build_object('run', 'r' || n % 1000)
                          else '{}' end,
           'correlation_id', 'c' || n, 'idempotency_key', null,
           'created_at', told.at, 'submitted_at', told.at, 'event_at', told.at,
           'state', told.state,
           'started_at', case when told.state > 1 then told.at + interval '1 s' end,
           'finished_at', case when told.state > 3 then told.at + interval '3 s' end,
           'error', case when told.state = 5 then 'TransientError: no answer from ' || n % 97 end,
           'pending', (told.state = 1)::int, 'running', (told.state = 3)::int,
           'succeeded', (told.state = 4)::int, 'failed', (told.state = 5)::int,
           'killed', (told.state = 6)::int, 'dead_lettered', (told.state = 10)::int)) as copy
 where template.job_id = $1
"""
EVENTS = """
insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, txid)
select job_id, -1, step, -1, kind::holdfast.event_type, submitted_at + step * interval '1 s',
       pg_current_xact_id()::text::bigint
  from holdfast.jobs,
       lateral (values (0, 'submitted'), (1, 'started'), (2, 'succeeded')) as happened(step, kind)
 where job_id between $1 and $2
"""
STATES = """
insert into holdfast.job_states (state, job_id)
select state, job_id from holdfast.jobs where state <> 4 and job_id between $1 and $2
    on conflict do nothing
"""
LABELS = """
insert into holdfast.job_labels (label, job_id)
select holdfast.label_hash(key, value), job_id
  from holdfast.jobs, jsonb_each_text(labels) where job_id between $1 and $2
    on conflict do nothing
"""
LETTERS = """
insert into holdfast.dead_letters (job_id, task_index, reason_code, stage, error_class, last_error,
                                   attempts, correlation_id, type, queue, dead_lettered_at)
select job_id, 0, case when job_id % 3 = 0 then 'timeout' else 'exhausted_retries' end, 'exec',
       'TransientError', 'host ' || job_id % 97 || ' did not answer in ' || job_id % 900 || ' ms',
       3, correlation_id, type, queue, finished_at
  from holdfast.jobs where state = 10 and job_id between $1 and $2
"""


async def fill(ledger: Ledger, url: str, jobs: int) -> None:
    """Write so many jobs, their own events, their labels and dead letters."""
    template = await _submit(ledger, ())
    last = template + jobs
    await ensure_partitions(ledger, last + 1000)
    connection = await asyncpg.connect(url, timeout=60)
    try:
        await connection.execute("set session_replication_role = replica")
        await connection.execute(COPY, template, template + 1, last, timeout=1200)
        for statement in (EVENTS, STATES, LABELS, LETTERS):
            await connection.execute(statement, template + 1, last, timeout=1200)
        await connection.execute("select setval('holdfast.job_ids', $1)", last)
        await connection.execute("vacuum analyze", timeout=1200)
    finally:
        await connection.close()


async def work_off(ledger: Ledger, tasks: int, *, share: float) -> int:
    """Submit a job of many tasks, and end a share of them, some with an error; returns its id."""
    job_id = await _submit(ledger, range(tasks))
    await follow_up_all(ledger)
    left = int(tasks * share)
    while left > 0:
        [claims] = await claim(ledger, [ClaimRequest("bench-worker", (QUEUE,), BATCH)])
        if isinstance(claims, Exception):
            raise claims
        if not claims:
            await follow_up_all(ledger)
            continue
        fences = [fence_of(claimed) for claimed in claims]
        await report(ledger, [Report(fence, TaskState.RUNNING) for fence in fences])
        logs = [Stretch(fence, 0, b"INFO one line of output\n") for fence in fences[:100]]
        await append_logs(ledger, logs)
        left -= len(fences)
        if left <= 0:
            return job_id  # the last ones go on
        ends = [
            Completion(fence, "failed", error="no answer", error_class="PermanentError")
            if fence.task_id.task_index % 50 == 0
            else Completion(fence, "succeeded", result="1")
            for fence in fences
        ]
        await complete(ledger, ends)
    return job_id


async def _submit(ledger: Ledger, inputs: Sequence[int]) -> int:
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": QUEUE, "name": "many"})
    submission = Submission(spec, parse_inputs(list(inputs)) if inputs else None)
    submitted: Submitted = await submit_one(ledger, submission)
    return submitted.job_id
