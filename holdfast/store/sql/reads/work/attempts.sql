-- name: list_attempts
-- What an attempt was given is noted when it is placed, so that it can be read here from then on.
select attempt, worker_id, state, created_at, started_at, finished_at, released_at, exit_code, error,
       error_class, stage, is_worker_failure, last_lease_expires_at, account.ports, account.devices,
       account.usage, account.build
  from holdfast.attempt_history as tried
  left join lateral (
      select used.ports::text, used.devices::text, used.usage::text, used.build::text
        from holdfast.attempt_usage as used
       where used.job_id = tried.job_id and used.task_index = tried.task_index and used.attempt = tried.attempt
       limit 1) as account on true
 where job_id = $job_id and task_index = $task_index and attempt > $after_attempt
 order by attempt limit $count_max;

-- name: list_job_attempts
with ended as materialized (
    select task_index, attempt, worker_id, state, created_at, started_at, finished_at
      from holdfast.attempts
     where job_id = $job_id and (task_index, attempt) > ($after_index::int, $after_attempt::int)
     order by task_index, attempt limit $count_max
),
held as materialized (
    select task_index, attempt, worker_id, created_at
      from holdfast.leases
     where job_id = $job_id and task_index >= $after_index
       and (task_index, attempt) > ($after_index::int, $after_attempt::int) and not ending
     order by task_index limit $count_max
)
select task_index, attempt, worker_id, state, created_at, started_at, finished_at from ended
union all
select held.task_index, held.attempt, held.worker_id, task.state, held.created_at, task.started_at, null
  from held cross join lateral (
       select tasks.state, tasks.started_at from holdfast.tasks
        where tasks.job_id = $job_id and tasks.task_index = held.task_index limit 1) as task
 order by task_index, attempt limit $count_max;

-- name: read_accounts
-- Where the workers of attempts are called, what the attempts were given, and what they have used.
select mine.task_index, worker.address, account.ports, account.devices, account.usage, account.build
  from unnest($task_indexes::int[], $attempts::int[], $worker_ids::text[])
         as mine(task_index, attempt, worker_id)
  left join lateral (
      select workers.address from holdfast.workers
       where workers.worker_id = mine.worker_id limit 1) as worker on true
  left join lateral (
      select used.ports::text, used.devices::text, used.usage::text, used.build::text
        from holdfast.attempt_usage as used
       where used.job_id = $job_id and used.task_index = mine.task_index and used.attempt = mine.attempt
       limit 1) as account on true;

-- name: count_leases
select count(*) filter (where not ending), count(*) filter (where ending) from holdfast.leases;
