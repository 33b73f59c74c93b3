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

-- name: trim_logs
-- Of a long log the middle goes: what begins behind the head, and so far before the newest stretch that none of it
-- belongs to the tail.
delete from holdfast.logs
 using unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[], $tail_offsets::bigint[])
         as long(job_id, task_index, attempt, tail_offset)
 where logs.job_id = long.job_id and logs.task_index = long.task_index and logs.attempt = long.attempt
   and logs.start_offset >= $head_bytes and logs.start_offset < long.tail_offset;

-- name: read_log
-- From the stretch on that holds the offset, so many that they have the bytes wanted. Sizes are known without fetching.
with walked as materialized (
    select start_offset,
           greatest(0, start_offset + octet_length(content) - greatest(start_offset, $start_offset)) as size
      from holdfast.logs
     where job_id = $job_id and task_index = $task_index and attempt = $attempt
       and start_offset >= coalesce(
           (select max(start_offset) from holdfast.logs
             where job_id = $job_id and task_index = $task_index and attempt = $attempt
               and start_offset <= $start_offset), 0)
     order by start_offset
     limit $count_max
),
summed as (
    select start_offset, sum(size) over (order by start_offset) - size as bytes_before from walked
),
edges as materialized (
    select min(start_offset) as first, max(start_offset) filter (where bytes_before < $bytes_max) as last
      from summed
)
select logs.start_offset, logs.content, logs.stored_at
  from edges, holdfast.logs
 where job_id = $job_id and task_index = $task_index and attempt = $attempt
   and start_offset between edges.first and edges.last
 order by start_offset;

-- name: has_later_output
select exists (select from holdfast.logs
                where job_id = $job_id and task_index = $task_index and attempt = $attempt
                  and start_offset > $start_offset) as has_more;

-- name: find_attempt
-- The attempt that is asked for, or the latest; open means that it may still write.
select attempt, finished_at is null or released_at is null as is_open
  from holdfast.attempt_history
 where job_id = $job_id and task_index = $task_index and attempt = coalesce($attempt::int, attempt)
 order by attempt desc
 limit 1;

-- name: list_last_error_classes
select mine.job_id, mine.task_index,
       array(select coalesce(attempts.error_class, '')
               from holdfast.attempts
              where attempts.job_id = mine.job_id and attempts.task_index = mine.task_index
              order by attempts.attempt desc
              limit $count_max) as error_classes
  from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index);

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
