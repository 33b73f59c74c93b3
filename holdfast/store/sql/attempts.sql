-- name: append_logs
-- Only the holder of the lease may write; a lease that is ending may still log. A stretch that comes
-- again may have grown meanwhile: it then counts as stored now, so that who has read it reads it again.
-- What comes together has one time, and so the order of its offsets.
with clock as materialized (select holdfast.now() as now)
insert into holdfast.logs (job_id, task_index, attempt, start_offset, content, stored_at)
select leases.job_id, leases.task_index, leases.attempt, mine.start_offset, mine.content, clock.now
  from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[], $tokens::uuid[],
              $start_offsets::bigint[], $contents::bytea[])
         as mine(job_id, task_index, attempt, lease_token, start_offset, content)
  join holdfast.leases using (job_id, task_index, attempt, lease_token)
 cross join clock
on conflict (job_id, task_index, attempt, start_offset) do update
   set content = case when length(excluded.content) > length(logs.content)
                      then excluded.content else logs.content end,
       stored_at = case when length(excluded.content) > length(logs.content)
                        then greatest(excluded.stored_at, logs.stored_at) else logs.stored_at end
returning job_id, task_index, attempt, start_offset;

-- name: read_log
select start_offset, content, stored_at from holdfast.logs
 where job_id = $job_id and task_index = $task_index and attempt = $attempt
   and start_offset >= coalesce(
       (select max(start_offset) from holdfast.logs
         where job_id = $job_id and task_index = $task_index and attempt = $attempt
           and start_offset <= $start_offset), 0)
 order by start_offset
 limit $batch_max;

-- name: find_attempt
-- The attempt that is asked for, or the latest; open means that it may still write.
select attempt, finished_at is null or released_at is null as is_open
  from holdfast.attempt_history
 where job_id = $job_id and task_index = $task_index and attempt = coalesce($attempt::int, attempt)
 order by attempt desc
 limit 1;

-- name: save_checkpoint
-- A stale attempt cannot overwrite what a later one has saved: it holds no lease any more.
insert into holdfast.checkpoints (job_id, task_index, attempt, saved_at, checkpoint)
select leases.job_id, leases.task_index, leases.attempt, holdfast.now(), $checkpoint::text::json
  from holdfast.leases
 where job_id = $job_id and task_index = $task_index and attempt = $attempt and lease_token = $token
on conflict (job_id, task_index) do update
   set attempt = excluded.attempt, saved_at = excluded.saved_at, checkpoint = excluded.checkpoint
 where checkpoints.attempt <= excluded.attempt
returning attempt;

-- name: load_checkpoint
select checkpoints.attempt, checkpoints.checkpoint
  from holdfast.leases left join holdfast.checkpoints using (job_id, task_index)
 where leases.job_id = $job_id and leases.task_index = $task_index
   and leases.attempt = $attempt and leases.lease_token = $token;

-- name: delete_logs_of_jobs
with gone as (
    delete from holdfast.logs where ctid = any (array(
        select ctid from holdfast.logs where job_id = any ($job_ids::bigint[]) limit $rows_max))
    returning 1
)
select count(*) from gone;

-- name: delete_checkpoints_of_jobs
with gone as (
    delete from holdfast.checkpoints where ctid = any (array(
        select ctid from holdfast.checkpoints where job_id = any ($job_ids::bigint[]) limit $rows_max))
    returning 1
)
select count(*) from gone;
