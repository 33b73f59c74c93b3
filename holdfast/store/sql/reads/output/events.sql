-- name: list_events_of_job
with page as materialized (
    select * from holdfast.events
     where job_id = $job_id and (ts, id) > ($after_ts::timestamptz, $after_id::bigint)
       and ($types::text[] is null or type::text = any ($types::text[]))
     order by ts, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, page.seq, page.type::text, page.ts, page.actor,
       jobs.correlation_id, jobs.trace_id, page.cause, page.payload::text, 1 as version, page.txid
  from page join holdfast.jobs using (job_id)
 order by page.ts, page.id;

-- name: list_events_of_job_within
-- Those of a stretch of time. No index knows when the events of a job happened; of a very large one it is quicker to
-- look at what happened to all jobs then and to pick its own, up to a bound. Where that is met, the time in the middle
-- of what was looked at tells how much shorter a stretch has to be: events are stored about as they happen.
with near as materialized (
    select * from holdfast.events
     where ts >= $begin_ts::timestamptz and ts < $end_ts::timestamptz limit $examined_max
),
page as materialized (
    select * from near
     where job_id = $job_id and (ts, id) > ($after_ts::timestamptz, $after_id::bigint)
       and ($types::text[] is null or type::text = any ($types::text[]))
     order by ts, id limit $count_max
)
select (select count(*) from near) as examined,
       (select ts from near order by ts offset $examined_max / 2 limit 1) as middle_ts,
       page.id, page.job_id, page.task_index, page.attempt, page.seq, page.type::text, page.ts, page.actor,
       job.correlation_id, job.trace_id, page.cause, page.payload::text, 1 as version, page.txid
  from (select correlation_id, trace_id from holdfast.jobs where job_id = $job_id) as job left join page on true
 order by page.ts, page.id;

-- name: list_events_of_job_before
-- Those of a short time before a large job was there: mostly none, among very many of others. They are looked for by
-- time, without a bound; `+ 0`, lest they be looked for among all that has happened to the job since.
with page as materialized (
    select * from holdfast.events
     where ts >= $begin_ts::timestamptz and ts < $end_ts::timestamptz and job_id + 0 = $job_id
       and (ts, id) > ($after_ts::timestamptz, $after_id::bigint)
       and ($types::text[] is null or type::text = any ($types::text[]))
     order by ts, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, page.seq, page.type::text, page.ts, page.actor,
       jobs.correlation_id, jobs.trace_id, page.cause, page.payload::text, 1 as version, page.txid
  from page join holdfast.jobs using (job_id)
 order by page.ts, page.id;

-- name: list_events_of_correlation
with page as materialized (
    select events.*, jobs.correlation_id, jobs.trace_id
      from holdfast.jobs join holdfast.events using (job_id)
     where jobs.correlation_id collate "C" = $correlation_id::text
       and (ts, id) > ($after_ts::timestamptz, $after_id::bigint) and ts < $until_ts::timestamptz
       and ($types::text[] is null or events.type::text = any ($types::text[]))
     order by ts, id limit $count_max
)
select id, job_id, task_index, attempt, seq, type::text, ts, actor, correlation_id, trace_id, cause, payload::text,
       1 as version, txid
  from page order by ts, id;

-- name: measure_correlation
-- How many tasks there are, as far as they are counted, and since when.
select coalesce(sum(num_tasks), 0)::bigint, min(submitted_at)
  from (select num_tasks, submitted_at from holdfast.jobs
         where correlation_id collate "C" = $correlation_id::text and submitted_at is not null
         order by correlation_id collate "C", job_id limit $jobs_max) as first_jobs;

-- name: list_events_within
-- Those of a stretch of time, of all jobs, up to a bound of what is looked at; without one, all of them.
with near as materialized (
    select * from holdfast.events
     where ts >= $begin_ts::timestamptz and ts < $end_ts::timestamptz limit $examined_max::bigint
),
page as materialized (
    select near.*, jobs.correlation_id, jobs.trace_id
      from near join holdfast.jobs using (job_id)
     where (ts, id) > ($after_ts::timestamptz, $after_id::bigint)
       and ($correlation_id::text is null or jobs.correlation_id = $correlation_id)
       and ($types::text[] is null or near.type::text = any ($types::text[]))
     order by ts, id limit $count_max
)
select (select count(*) from near) as examined,
       page.id, page.job_id, page.task_index, page.attempt, page.seq, page.type::text, page.ts, page.actor,
       page.correlation_id, page.trace_id, page.cause, page.payload::text, 1 as version, page.txid
  from (select 1) as one left join page on true
 order by page.ts, page.id;

-- name: list_events_of_task
with page as materialized (
    select * from holdfast.events
     where job_id = $job_id and task_index = $task_index
       and (ts, id) > ($after_ts::timestamptz, $after_id::bigint)
       and ($types::text[] is null or type::text = any ($types::text[]))
     order by ts, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, page.seq, page.type::text, page.ts, page.actor,
       jobs.correlation_id, jobs.trace_id, page.cause, page.payload::text, 1 as version, page.txid
  from page join holdfast.jobs using (job_id)
 order by page.ts, page.id;

-- name: read_horizon
-- Transactions below it have all ended: what they wrote is all there is to read of them.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- name: read_events_between
-- The events of a stretch of transactions: without an end, all that follows would be sorted for a page. Retention
-- deletes jobs before their events: such events have no correlation id, but count towards the page.
with page as materialized (
    select * from holdfast.events
     where txid >= $txid::bigint and (txid, id) > ($txid::bigint, $id::bigint) and txid < $end_txid::bigint
     order by txid, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, page.seq, page.type::text, page.ts, page.actor,
       jobs.correlation_id, jobs.trace_id, page.cause, page.payload::text, 1 as version, page.txid
  from page left join holdfast.jobs using (job_id)
 order by page.txid, page.id;

-- name: read_events_of_job_between
with page as materialized (
    select * from holdfast.events
     where job_id = $job_id and (txid, id) > ($txid::bigint, $id::bigint) and txid < $end_txid::bigint
     order by txid, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, page.seq, page.type::text, page.ts, page.actor,
       jobs.correlation_id, jobs.trace_id, page.cause, page.payload::text, 1 as version, page.txid
  from page left join holdfast.jobs using (job_id)
 order by page.txid, page.id;

-- name: list_changed_jobs
-- Which jobs have new events, and not what these say: whoever shows a job reads it again. A transaction that was open
-- for an hour leaves an hour of events to look at when it ends: hence the bound, and whether it was met.
with news as materialized (
    select job_id from holdfast.events where txid >= $first_txid::bigint and txid < $end_txid::bigint
     limit $events_max
)
select job_id, (select count(*) from news) >= $events_max as is_cut
  from (select distinct job_id from news limit $count_max) as changed;
