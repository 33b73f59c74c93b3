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
-- look at what happened to all jobs then and to pick its own, up to a bound.
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
       page.id, page.job_id, page.task_index, page.attempt, page.seq, page.type::text, page.ts, page.actor,
       job.correlation_id, job.trace_id, page.cause, page.payload::text, 1 as version, page.txid
  from (select correlation_id, trace_id from holdfast.jobs where job_id = $job_id) as job left join page on true
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

-- name: list_notes
-- Notes of one kind, in the words of events.
with page as materialized (
    select * from holdfast.notes
     where job_id = $job_id and ($task_index::int is null or task_index = $task_index) and kind = $kind
       and (ts, id) > ($after_ts::timestamptz, $after_id::bigint)
     order by ts, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, -1 as seq, page.kind, page.ts, null::text as actor,
       jobs.correlation_id, jobs.trace_id, null::text as cause, page.payload::text, 1 as version, 0 as txid
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
