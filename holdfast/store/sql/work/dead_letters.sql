-- name: measure_letter_inputs
select coalesce(sum(octet_length(input::text)), 0)::bigint
  from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
  join holdfast.dead_letters using (job_id, task_index);

-- name: read_letter_inputs
select job_id, task_index, coalesce(input::text, 'null')
  from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
  join holdfast.dead_letters using (job_id, task_index);

-- name: read_letters
select job_id, task_index, replayed_as, discarded_at
  from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
  join holdfast.dead_letters using (job_id, task_index);

-- name: lock_dead_letters
select job_id, task_index, replayed_as, discarded_at
  from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
  join holdfast.dead_letters using (job_id, task_index)
 order by job_id, task_index
   for update of dead_letters;

-- name: mark_replayed
update holdfast.dead_letters
   set replayed_at = holdfast.now(), replayed_as = mine.replayed_as, input_edited = $input_edited
  from unnest($job_ids::bigint[], $task_indexes::int[], $replayed_as::bigint[])
         as mine(job_id, task_index, replayed_as)
 where dead_letters.job_id = mine.job_id and dead_letters.task_index = mine.task_index;

-- name: reopen_letters
-- Nobody has run them again, and now nobody will: they wait for a decision as before.
update holdfast.dead_letters set replayed_at = null, replayed_as = null, input_edited = false
  from holdfast.jobs
 where jobs.job_id = any ($job_ids::bigint[]) and jobs.started_at is null
   and dead_letters.job_id = jobs.replay_of and dead_letters.replayed_as = jobs.job_id;

-- name: mark_discarded
update holdfast.dead_letters set discarded_at = holdfast.now(), discarded_by = $actor
  from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
 where dead_letters.job_id = mine.job_id and dead_letters.task_index = mine.task_index
   and discarded_at is null;
