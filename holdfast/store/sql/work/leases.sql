-- name: lock_leases
-- The tasks are locked, so no lease here can begin or end meanwhile; locking the leases too keeps a
-- renewal from being answered while the reaper ends what it had seen run out.
-- `= any (array[...])`, here and elsewhere: no merge can be made of it, so no plan has a reason to read a whole
-- index in order. Where a vacuum has found a table empty, that seems to cost nothing, until it is counted again.
select leases.job_id, leases.task_index, leases.attempt, leases.lease_token, leases.worker_id,
       leases.ending, leases.cancel_requested_at is not null as cancelled, leases.cancel_reason,
       leases.expires_at, leases.run_deadline_at, leases.cancel_deadline_at,
       jobs.cancel_mode, jobs.finished_at is null and jobs.cancel_mode is null as job_is_live,
       jobs.cancel_reason as job_cancel_reason, leases.acknowledged or not leases.placed as acknowledged
  from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
  join holdfast.leases on leases.job_id = any (array[mine.job_id]) and leases.task_index = mine.task_index
  join holdfast.jobs on jobs.job_id = mine.job_id
 order by mine.job_id, mine.task_index
   for update of leases;

-- name: renew_leases
-- Expired is not ended: only the reaper's transaction ends a lease. A lease that is ending may be
-- renewed too: its process may need the time to checkpoint and go.
with clock as materialized (select holdfast.now() as now),
locked as materialized (
    select leases.job_id, leases.task_index
      from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[], $tokens::uuid[])
             as mine(job_id, task_index, attempt, lease_token)
      join holdfast.leases
        on leases.job_id = any (array[mine.job_id]) and leases.task_index = mine.task_index
       and leases.attempt = mine.attempt and leases.lease_token = mine.lease_token
     order by mine.job_id, mine.task_index
       for no key update of leases skip locked
)
update holdfast.leases
   set expires_at = greatest(leases.expires_at, clock.now + leases.duration)
  from locked, clock
 where leases.job_id = any (array[locked.job_id]) and leases.task_index = locked.task_index
returning leases.job_id, leases.task_index, leases.attempt, leases.lease_token, leases.expires_at, clock.now,
          leases.ending and holdfast.is_to_stop(
              leases.job_id, leases.task_index, leases.attempt,
              least(leases.run_deadline_at, leases.cancel_deadline_at)) as ending,
          leases.cancel_requested_at is not null as cancelled, leases.cancel_deadline_at;

-- name: find_leases
-- Which of these speak for an attempt that holds a lease, ending or not.
select leases.job_id, leases.task_index, leases.attempt, leases.lease_token
  from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[], $tokens::uuid[])
         as mine(job_id, task_index, attempt, lease_token)
  join holdfast.leases
    on leases.job_id = any (array[mine.job_id]) and leases.task_index = mine.task_index
   and leases.attempt = mine.attempt and leases.lease_token = mine.lease_token;

-- name: find_holder
select worker_id from holdfast.leases
 where job_id = $job_id and task_index = $task_index and attempt = $attempt and lease_token = $token;

-- name: list_claimed_with_key
select leases.job_id, leases.task_index, leases.attempt, leases.lease_token, leases.expires_at,
       holdfast.now() as now, tasks.failure_count, tasks.preemption_count, tasks.free_loss_count,
       tasks.input, tasks.state
  from holdfast.leases join holdfast.tasks using (job_id, task_index)
 where leases.worker_id = $worker_id and leases.claim_key = $claim_key and not leases.ending
 order by leases.job_id, leases.task_index;

-- name: list_reapable
-- One pass over the leases serves every deadline; the table is as large as what runs now, and an
-- index on expiry would make every renewal write it. Locked only to leave out what somebody holds.
with clock as materialized (select holdfast.now() as now)
select leases.job_id, leases.task_index
  from clock cross join holdfast.leases join holdfast.tasks using (job_id, task_index)
 where ((leases.expires_at <= clock.now and not $waiting::boolean)
        or (not leases.ending and (leases.run_deadline_at <= clock.now or leases.cancel_deadline_at <= clock.now)))
   and leases.job_id <> all ($except_jobs::bigint[])
 order by leases.job_id, leases.task_index
 limit $batch_max
   for update of tasks, leases skip locked;

-- name: list_leases_of_worker
select leases.job_id, leases.task_index
  from holdfast.leases join holdfast.tasks using (job_id, task_index)
 where leases.worker_id = $worker_id and ($also_ending::boolean or not leases.ending)
   and leases.job_id <> all ($except_jobs::bigint[])
 order by leases.job_id, leases.task_index
 limit $batch_max
   for update of tasks, leases skip locked;

-- name: find_ended_attempts
select attempts.job_id, attempts.task_index, attempts.attempt, attempts.lease_token, attempts.state
  from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[], $tokens::uuid[])
         as mine(job_id, task_index, attempt, lease_token)
  join holdfast.attempts using (job_id, task_index, attempt, lease_token)
 where attempts.reported;

-- name: release_leases
-- The second step of an end: the process is gone, so is the claim on capacity.
with gone as (
    delete from holdfast.leases
     using unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
     where leases.job_id = any (array[mine.job_id]) and leases.task_index = mine.task_index
       and coalesce(leases.ending, false)
    returning leases.job_id, leases.task_index, leases.attempt, leases.expires_at, leases.held, leases.slots
)
update holdfast.attempts
   set released_at = greatest(holdfast.now(), attempts.finished_at),
       last_lease_expires_at = gone.expires_at
  from gone
 where attempts.job_id = gone.job_id and attempts.task_index = gone.task_index
   and attempts.attempt = gone.attempt
returning attempts.job_id, attempts.task_index, gone.held::text, gone.slots;

-- name: open_freed
select unnest(queues), unnest(job_ids), unnest(task_indexes) from holdfast.open_freed($held, $slots);

-- name: request_soft_cancel
with clock as materialized (select holdfast.now() as now)
update holdfast.leases
   set cancel_requested_at = clock.now, cancel_deadline_at = clock.now + mine.grace,
       cancel_reason = $reason
  from unnest($job_ids::bigint[], $task_indexes::int[], $graces::interval[])
         as mine(job_id, task_index, grace),
       clock
 where leases.job_id = any (array[mine.job_id]) and leases.task_index = mine.task_index
   and leases.cancel_requested_at is null and not leases.ending
returning leases.job_id, leases.task_index;

-- name: lock_reaper
select last_pass_at, outage_from, outage_until, holdfast.now() as now
  from holdfast.reaper for update skip locked;

-- name: read_reaper
select last_pass_at, outage_from, outage_until, holdfast.now() as now from holdfast.reaper;

-- name: record_reaper_pass
update holdfast.reaper
   set last_pass_at = $last_pass_at, outage_from = $outage_from, outage_until = $outage_until;

-- name: list_asked_to_stop
-- What the workers that listen should be told.
select leases.worker_id, leases.job_id, leases.task_index, leases.attempt, leases.ending,
       leases.cancel_deadline_at, holdfast.now() as now
  from unnest($worker_ids::text[]) as mine(worker_id)
  join holdfast.leases using (worker_id)
 where leases.cancel_requested_at is not null and not leases.ending
    or leases.ending and holdfast.is_to_stop(leases.job_id, leases.task_index, leases.attempt,
                                             least(leases.run_deadline_at, leases.cancel_deadline_at));

-- name: find_live_lease
-- Whether an attempt may still act for its job: from its end on it may only say goodbye.
select 1 from holdfast.leases
 where job_id = $job_id and task_index = $task_index and attempt = $attempt and lease_token = $token
   and not ending;
