-- name: list_dead_letters
select job_id, task_index, reason_code, stage, error_class, last_error, attempts, last_owner,
       last_lease_expires_at, correlation_id, type, queue, input, dead_lettered_at, replayed_as,
       discarded_at
  from holdfast.dead_letters
 where ($reason_code::text is null or reason_code = $reason_code)
   and ($stage::text is null or stage = $stage)
   and ($type::text is null or type = $type)
   and ($queue::text is null or queue = $queue)
   and ($job_id::bigint is null or job_id = $job_id)
   and (not $open_only::boolean or (replayed_at is null and discarded_at is null))
   and (job_id, task_index) > ($after_job_id::bigint, $after_task_index::int)
 order by job_id, task_index
 limit $batch_max;

-- name: lock_dead_letters
select job_id, task_index, input::text, replayed_as, discarded_at
  from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
  join holdfast.dead_letters using (job_id, task_index)
 order by job_id, task_index
   for update of dead_letters;

-- name: mark_replayed
update holdfast.dead_letters set replayed_at = holdfast.now(), replayed_as = mine.replayed_as
  from unnest($job_ids::bigint[], $task_indexes::int[], $replayed_as::bigint[])
         as mine(job_id, task_index, replayed_as)
 where dead_letters.job_id = mine.job_id and dead_letters.task_index = mine.task_index;

-- name: mark_discarded
update holdfast.dead_letters set discarded_at = holdfast.now(), discarded_by = $actor
  from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
 where dead_letters.job_id = mine.job_id and dead_letters.task_index = mine.task_index
   and discarded_at is null;
