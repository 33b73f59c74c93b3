-- name: walk_attempts_of_worker
-- By the hash of the id and the time, as the index has them; what ended at the same moment is sorted.
select finished_at, job_id, task_index, attempt from holdfast.attempts
 where hashtextextended(worker_id, 0) = hashtextextended($worker_id::text, 0) and worker_id = $worker_id
   and finished_at <= $before::timestamptz
   and (finished_at, job_id, task_index, attempt)
       < ($before::timestamptz, $before_job_id::bigint, $before_task_index::int, $before_attempt::int)
 order by finished_at desc, job_id desc, task_index desc, attempt desc limit $count_max;

-- name: read_attempts_of_worker
-- In the order in which they were walked; of an error, its beginning.
select job_id, task_index, attempt, state, created_at, started_at, finished_at, exit_code, error_begins,
       error_class, stage, job.name, job.type
  from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[])
         with ordinality as walked(walked_job_id, walked_index, walked_attempt, position)
 cross join lateral (
       select attempts.*, left(attempts.error, $error_length::int) as error_begins from holdfast.attempts
        where job_id = walked_job_id and task_index = walked_index and attempt = walked_attempt limit 1) as ended
 cross join lateral (
       select jobs.name, jobs.type from holdfast.jobs where jobs.job_id = walked_job_id limit 1) as job
 where not $only_unsuccessful::boolean or ended.state <> {SUCCEEDED}
 order by position limit $count_max;

-- name: list_jobs_of_worker
-- Of its newest attempts.
select distinct job_id from (
    select job_id from holdfast.attempts
     where hashtextextended(worker_id, 0) = hashtextextended($worker_id::text, 0) and worker_id = $worker_id
     order by finished_at desc limit $attempts_max) as newest;

-- name: list_held_jobs
select distinct job_id from holdfast.leases where worker_id = $worker_id;
