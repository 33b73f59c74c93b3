-- name: read_end
-- How a job ended, who was the first to ask for that, and which of the jobs it waited for did not end as it needed.
select jobs.name, jobs.state, jobs.error, jobs.cancel_mode is not null as is_cancelled, jobs.cancel_reason,
       jobs.parent_job_id, request.actor, unmet.depends_on, unmet.condition
  from holdfast.jobs
  left join lateral (
      select events.actor from holdfast.events
       where events.job_id = $job_id and events.task_index = -1 and events.type = 'cancel_requested'
       order by events.seq limit 1) as request on jobs.cancel_mode is not null
  left join lateral (
      select dependencies.depends_on, dependencies.condition from holdfast.dependencies
       where dependencies.job_id = $job_id and not dependencies.holds
       order by dependencies.depends_on limit 1) as unmet on true
 where jobs.job_id = $job_id and jobs.submitted_at is not null;

-- name: find_ended_task
-- Of the first so many tasks, the one that was the first to end badly; what was stopped since is a consequence.
select tasks.task_index, tasks.state, tasks.actor, tasks.cause, last.error
  from (select task_index, state, actor, cause, attempt, finished_at from holdfast.tasks
         where job_id = $job_id and task_index < $tasks_max
           and state in ({FAILED}, {KILLED}, {WORKER_FAILED}, {UNSCHEDULABLE}, {DEAD_LETTERED})
           and finished_at is not null
         order by finished_at, task_index limit 1) as tasks
  left join lateral (
      select attempts.error from holdfast.attempts
       where attempts.job_id = $job_id and attempts.task_index = tasks.task_index
         and attempts.attempt = tasks.attempt limit 1) as last on true;
