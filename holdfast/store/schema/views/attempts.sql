-- Attempts, the open ones and those that have ended, as one list.

create or replace view holdfast.attempt_history as
select job_id, task_index, attempt, worker_id, state, created_at, started_at, finished_at, released_at,
       exit_code, error, error_class, stage, state = {WORKER_FAILED} as is_worker_failure, last_lease_expires_at
  from holdfast.attempts
union all
select leases.job_id, leases.task_index, leases.attempt, leases.worker_id, tasks.state,
       leases.created_at, tasks.started_at, null, null, null, null, null, null, false, leases.expires_at
  from holdfast.leases join holdfast.tasks using (job_id, task_index)
 where not leases.ending;
