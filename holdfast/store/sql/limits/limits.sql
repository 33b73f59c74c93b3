-- name: tend_gated
select * from holdfast.tend_gated($after, $buckets_max);

-- name: open_changed
select * from holdfast.open_changed($limit_id, $buckets_max, $tasks_max);

-- name: drop_idle_buckets
select holdfast.drop_idle_buckets($after, $buckets_max);

-- name: find_room
-- How much whole queues may start now, by their own limits; no row, where there are no limits.
select room.caps, extract(epoch from room.opens_at - holdfast.now())::float8 as opens_in
  from holdfast.find_room($queues::text[], $tasks_max) as room
 where exists (select from holdfast.usage_limits);

-- name: follow_clock
select * from holdfast.follow_clock($after, $buckets_max);

-- name: drop_stale_gated
-- What was cancelled while somebody held its row: behind a limit that never opens, no claim would meet it. A stretch
-- along the key. Each task is asked for by its key: a join could read all of them.
with stretch as materialized (
    select gated.ctid as row_id, gated.job_id, gated.task_index
      from holdfast.gated
     where (gated.job_id, gated.task_index) > ($after_job::bigint, $after_index::int)
     order by gated.job_id, gated.task_index limit $batch_max
),
stale as materialized (
    select row_id
      from stretch
     where (select tasks.state <> {PENDING} or jobs.cancel_mode is not null or jobs.finished_at is not null
              from holdfast.tasks join holdfast.jobs on jobs.job_id = tasks.job_id
             where tasks.job_id = stretch.job_id and tasks.task_index = stretch.task_index)
),
dropped as (
    delete from holdfast.gated where ctid = any (array(
        select gated.ctid from holdfast.gated where gated.ctid = any (array(select row_id from stale))
           for update skip locked))
    returning 1
)
select (select count(*) from dropped)::int as dropped, last.job_id, last.task_index
  from (select 1) as one
  left join (select job_id, task_index from stretch where (select count(*) from stretch) = $batch_max
              order by job_id desc, task_index desc limit 1) as last on true;

-- name: pass_taken
-- Which of some tasks that were taken out of line their limits let start; no rows, where there are no limits.
select * from holdfast.pass_taken($job_ids, $task_indexes, $give_ups, $avoids);

-- name: keep_for_gang
select holdfast.keep_for_gang($job_id, make_interval(secs => $seconds::float8));

-- name: list_overdue_gated
-- As list_overdue, of those that wait for a limit or in a share.
select gated.job_id, gated.task_index
  from holdfast.gated join holdfast.tasks using (job_id, task_index)
 where gated.unschedulable_at <= (select holdfast.now()) and gated.job_id <> all ($except_jobs::bigint[])
 order by gated.unschedulable_at
 limit $batch_max
   for update of gated, tasks skip locked;

-- name: take_overdue_gated
with picked as materialized (
    select gated.ctid as row_id
      from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
      join holdfast.gated using (job_id, task_index)
     where gated.unschedulable_at <= holdfast.now()
       for update of gated skip locked
)
delete from holdfast.gated where ctid = any (array(select row_id from picked))
returning job_id, task_index;

-- name: gate_crowds
select holdfast.gate_crowds($job_ids, $task_indexes, true);

-- name: gate_stretches
select holdfast.gate_crowds(array_agg(job_id), array_agg(task_index), true)
  from unnest($job_ids::bigint[], $end_indexes::int[]) as stretch(job_id, end_index),
       generate_series(0, stretch.end_index - 1) as task_index
 where exists (select from holdfast.usage_limits);
