"""A ledger as large as the dashboard must bear: a million jobs by SQL, and a job of many tasks.

The many are copies of one that was really submitted, written past the triggers; the one with many
tasks went through claims, starts and ends like any other. The last hour is a busy one: a tenth of
all jobs fall into it, with tasks, attempts and events; and much is in line, due later or running.
"""

from collections.abc import Sequence

import asyncpg

from benchmarks.ledger import fence_of
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.complete import Completion, complete
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.logs import Stretch, append_logs
from holdfast.operations.report import Report, report
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.upkeep.partitions import ensure_partitions
from holdfast.rules.submitting.submission import parse_inputs, parse_spec

BATCH = 1000
QUEUE = "bench"
BUSY_SHARE = 0.1
# Of a thousand jobs: most have succeeded, a few have not, and the newest are still under way: in
# line, due later and running, the first two with a thousand tasks each, the last with ten.
COPY = """
insert into holdfast.jobs
select copy.*
  from holdfast.jobs as template,
       generate_series($2::bigint, $3::bigint) as n,
       lateral (select holdfast.now() - least($3 - n, $4) * interval '1 hour' / $4
                       - greatest($3 - n - $4, 0) * interval '0.5 s' as at,
                       case when $3 - n < 250 then 1 when $3 - n < 450 then 3
                            when n % 100 = 0 then 5 when n % 100 = 1 then 6
                            when n % 333 = 2 then 10 else 4 end as state,
                       case when $3 - n < 250 then 1000 when $3 - n < 450 then 10
                            else 1 end as tasks) as told,
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
           'num_tasks', told.tasks, 'fan_out', told.tasks > 1,
           'pending', (told.state = 1)::int * told.tasks,
           'running', (told.state = 3)::int * told.tasks,
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
TASKS = """
insert into holdfast.tasks (job_id, task_index, state, attempt, seq, placed, eligible_at,
                            submitted_at, started_at, finished_at, moved_at, input, result)
select job_id, task_index, state, (state > 1)::int, 3, false, submitted_at, submitted_at,
       started_at, finished_at, coalesce(finished_at, submitted_at), '{"n": 1}',
       case when state = 4 then '1'::json end
  from holdfast.jobs, generate_series(0, num_tasks - 1) as task_index
 where job_id between $1 and $2
"""
ATTEMPTS = """
insert into holdfast.attempts (job_id, task_index, attempt, worker_id, state, created_at,
                               started_at, finished_at, released_at, error, error_class,
                               lease_token, last_lease_expires_at, reported)
select job_id, 0, 1, 'worker-' || job_id % 200, case when state = 10 then 5 else state end,
       started_at, started_at, finished_at, finished_at, error,
       case when state = 5 then 'TransientError' end, gen_random_uuid(),
       finished_at + interval '30 s', true
  from holdfast.jobs where state > 3 and job_id between $1 and $2
"""
TASK_EVENTS = """
insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, txid)
select job_id, 0, step, least(step, 1), kind::holdfast.event_type,
       submitted_at + step * interval '1 s', pg_current_xact_id()::text::bigint
  from holdfast.jobs,
       lateral (values (0, 'submitted'), (1, 'claimed'), (2, 'started'),
                       (3, case state when 4 then 'succeeded' when 6 then 'killed'
                                      else 'failed' end)) as happened(step, kind)
 where state > 3 and job_id between $1 and $2
"""
READY = """
insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index)
select jobs.queue, 0, tasks.eligible_at, job_id, task_index
  from holdfast.jobs join holdfast.tasks using (job_id)
 where jobs.state = 1 and job_id between $2 - 199 and $2 and $1 < $2
"""
WAITING = """
insert into holdfast.waiting (job_id, task_index, eligible_at)
select job_id, task_index, holdfast.now() + interval '1 day' + random() * interval '1 hour'
  from holdfast.jobs join holdfast.tasks using (job_id)
 where jobs.state = 1 and job_id between $2 - 249 and $2 - 200 and $1 < $2
"""
WORKERS = """
insert into holdfast.workers (worker_id, name, host, queues, registered_at, last_seen_at)
select 'worker-' || n, 'worker', 'host-' || n, array['q' || n % 20], holdfast.now(), holdfast.now()
  from generate_series(0, 199) as n where $1::bigint < $2::bigint
"""
LEASES = """
insert into holdfast.leases (job_id, task_index, attempt, worker_id, lease_token, created_at,
                             expires_at, duration)
select job_id, task_index, 1, 'worker-' || job_id % 200, gen_random_uuid(), holdfast.now(),
       holdfast.now() + interval '1 day', interval '1 day'
  from holdfast.jobs join holdfast.tasks using (job_id)
 where jobs.state = 3 and job_id between $1 and $2
"""
# A week of two servers, and the types of the last hour.
SAMPLES = """
insert into holdfast.samples
select step, date_bin(make_interval(secs => step), holdfast.now(), timestamptz 'epoch')
             - make_interval(secs => step * back),
       server, holdfast.now(), 9, 8, 1, 0, 0, 0, 0, 1, array_fill(3, array[17]), 200000, 2000
  from unnest(array[10, 60, 300, 1800]) as step, generate_series(0, 400) as back,
       unnest(array['a', 'b']) as server
 where $1::bigint < $2::bigint
"""
TYPE_SAMPLES = """
insert into holdfast.type_samples
select date_bin('1 minute', holdfast.now(), timestamptz 'epoch') - make_interval(mins => back),
       server, 'type-' || n, 40, n % 20, array_fill(2, array[17]), array_fill(2, array[17])
  from generate_series(0, 120) as back, generate_series(0, 39) as n,
       unnest(array['a', 'b']) as server
 where $1::bigint < $2::bigint
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
    """Write so many jobs, what goes with them, and all of the tasks of the newest."""
    template = await _submit(ledger, ())
    last, busy = template + jobs, int(jobs * BUSY_SHARE)
    await ensure_partitions(ledger, last + 1000)
    connection = await asyncpg.connect(url, timeout=60)
    try:
        await connection.execute("set session_replication_role = replica")
        await connection.execute(COPY, template, template + 1, last, busy, timeout=1200)
        for statement in (EVENTS, STATES, LABELS, LETTERS):
            await connection.execute(statement, template + 1, last, timeout=1200)
        for statement in (
            TASKS, ATTEMPTS, TASK_EVENTS, READY, WAITING, WORKERS, LEASES, SAMPLES, TYPE_SAMPLES,
        ):  # fmt: skip
            await connection.execute(statement, last - busy, last, timeout=1200)
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
