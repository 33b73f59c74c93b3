-- name: read_accounts
-- Of attempts of placed tasks: where their workers are called, what they were given, and what they have used.
select mine.task_index, worker.address, account.ports, account.usage, account.build
  from unnest($task_indexes::int[], $attempts::int[], $worker_ids::text[])
         as mine(task_index, attempt, worker_id)
  left join lateral (
      select workers.address from holdfast.workers
       where workers.worker_id = mine.worker_id limit 1) as worker on true
  left join lateral (
      select used.ports::text, used.usage::text, used.build::text from holdfast.attempt_usage as used
       where used.job_id = $job_id and used.task_index = mine.task_index and used.attempt = mine.attempt
       limit 1) as account on true;

-- name: read_standing
-- Of placed tasks, those that stand in line, and whom each keeps away from.
select mine.task_index, line.avoid
  from unnest($task_indexes::int[]) as mine(task_index)
 cross join lateral (
       select ready.avoid from holdfast.ready
        where ready.queue = '' and ready.job_id = $job_id and ready.task_index = mine.task_index limit 1) as line;

-- name: count_jobs_in_line
-- From job to job by the index, no further than asked.
with recursive heads as (
    (select ready.job_id from holdfast.ready where ready.queue = '' order by ready.job_id limit 1)
    union all
    select following.job_id
      from heads cross join lateral (
           select ready.job_id from holdfast.ready
            where ready.queue = '' and ready.job_id > heads.job_id
            order by ready.job_id limit 1) as following
)
select count(*) from (select from heads limit $count_max) as counted;
