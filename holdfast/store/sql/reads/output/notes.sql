-- name: list_user_events
-- What user code has written, of all kinds; whoever runs the attempt wrote it.
with page as materialized (
    select * from holdfast.notes
     where job_id = $job_id and ($task_index::int is null or task_index = $task_index)
       and starts_with(kind, 'user:') and (ts, id) > ($after_ts::timestamptz, $after_id::bigint)
     order by ts, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, -1 as seq, page.kind, page.ts,
       writer.worker_id as actor,
       jobs.correlation_id, jobs.trace_id, null::text as cause, page.payload::text, 1 as version, 0 as txid
  from page join holdfast.jobs using (job_id)
  left join lateral (
       select worker_id from holdfast.attempt_history as tried
        where (tried.job_id, tried.task_index, tried.attempt) = (page.job_id, page.task_index, page.attempt)
        limit 1) as writer on true
 order by page.ts, page.id;

-- name: list_notes
-- Notes of one kind, in the words of events; whoever runs the attempt wrote them.
with page as materialized (
    select * from holdfast.notes
     where job_id = $job_id and ($task_index::int is null or task_index = $task_index) and kind = $kind
       and (ts, id) > ($after_ts::timestamptz, $after_id::bigint)
     order by ts, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, -1 as seq, page.kind, page.ts,
       writer.worker_id as actor,
       jobs.correlation_id, jobs.trace_id, null::text as cause, page.payload::text, 1 as version, 0 as txid
  from page join holdfast.jobs using (job_id)
  left join lateral (
       select worker_id from holdfast.attempt_history as tried
        where (tried.job_id, tried.task_index, tried.attempt) = (page.job_id, page.task_index, page.attempt)
        limit 1) as writer on true
 order by page.ts, page.id;

-- name: list_user_events_of_correlation
with page as materialized (
    select written.*, jobs.correlation_id, jobs.trace_id
      from holdfast.jobs
     cross join lateral (
           select * from holdfast.notes
            where notes.job_id = jobs.job_id
              and starts_with(kind, 'user:') and ($kind::text is null or kind = $kind)
              and (ts, id) > ($after_ts::timestamptz, $after_id::bigint) and ts < $until_ts::timestamptz
            order by ts, id limit $count_max) as written
     where jobs.correlation_id collate "C" = $correlation_id::text
     order by ts, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, -1 as seq, page.kind, page.ts,
       writer.worker_id as actor,
       page.correlation_id, page.trace_id, null::text as cause, page.payload::text, 1 as version, 0 as txid
  from page
  left join lateral (
       select worker_id from holdfast.attempt_history as tried
        where (tried.job_id, tried.task_index, tried.attempt) = (page.job_id, page.task_index, page.attempt)
        limit 1) as writer on true
 order by page.ts, page.id;

-- name: search_user_events
-- Of all jobs, up to a bound of what is looked at, and where that was met: others may be of another kind. It says
-- `like`, as the index of their time does.
with near as materialized (
    select * from holdfast.notes
     where kind like 'user:%'
       and (ts, id) > ($after_ts::timestamptz, $after_id::bigint) and ts < $until_ts::timestamptz
     order by ts, id limit $examined_max
),
page as materialized (
    select near.*, jobs.correlation_id, jobs.trace_id
      from near join holdfast.jobs using (job_id)
     where ($kind::text is null or kind = $kind)
       and ($correlation_id::text is null or jobs.correlation_id = $correlation_id)
     order by ts, id limit $count_max
)
select looked.count, looked.ts, looked.id,
       page.id, page.job_id, page.task_index, page.attempt, -1 as seq, page.kind, page.ts,
       writer.worker_id as actor,
       page.correlation_id, page.trace_id, null::text as cause, page.payload::text, 1 as version, 0 as txid
  from (select count(*), max(ts) as ts, (array_agg(id order by ts desc, id desc))[1] as id from near) as looked
  left join page on true
  left join lateral (
       select worker_id from holdfast.attempt_history as tried
        where (tried.job_id, tried.task_index, tried.attempt) = (page.job_id, page.task_index, page.attempt)
        limit 1) as writer on true
 order by page.ts, page.id;
