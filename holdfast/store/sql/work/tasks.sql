-- name: lock_tasks
-- Ids come sorted; rows are locked in the order of ids, the same everywhere.
select tasks.job_id, tasks.task_index, tasks.state, tasks.attempt, tasks.failure_count,
       tasks.preemption_count, tasks.free_loss_count
  from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
  join holdfast.tasks using (job_id, task_index)
 order by tasks.job_id, tasks.task_index
   for update of tasks;

-- name: lock_tasks_of_jobs
-- All tasks of small jobs.
select tasks.job_id, tasks.task_index, tasks.state, tasks.attempt, tasks.failure_count,
       tasks.preemption_count, tasks.free_loss_count
  from unnest($job_ids::bigint[]) as mine(job_id)
  join holdfast.tasks using (job_id)
 order by tasks.job_id, tasks.task_index
   for update of tasks;

-- name: lock_live_tasks
-- For sweeps that go through all tasks of a job, but for those that somebody holds. By a window of indexes: of a job
-- that has nearly ended, all that have finished would be read to find the next live ones.
select job_id, task_index, state, attempt, failure_count, preemption_count, free_loss_count
  from holdfast.tasks
 where job_id = $job_id and task_index >= $first_index and task_index < $end_index and finished_at is null
 order by task_index
   for update skip locked;

-- name: find_unstopped_task
-- A task that a sweep has left out. Of a soft cancel, it is enough that it was asked to stop.
select tasks.task_index
  from holdfast.tasks join holdfast.jobs using (job_id)
 where tasks.job_id = $job_id and tasks.task_index >= $first_index and tasks.task_index < $end_index
   and tasks.finished_at is null
   and (jobs.cancel_mode is distinct from 'soft' or jobs.finished_at is not null
        or (select leases.cancel_requested_at from holdfast.leases
             where leases.job_id = tasks.job_id and leases.task_index = tasks.task_index) is null)
 limit 1;

-- name: insert_tasks
insert into holdfast.tasks (job_id, task_index, placed, eligible_at, submitted_at, moved_at, input)
select job_id, task_index, placed, eligible_at, now, now, input::json
  from unnest($job_ids::bigint[], $task_indexes::int[], $placed::boolean[], $eligible_at::timestamptz[],
              $inputs::text[]) as new(job_id, task_index, placed, eligible_at, input),
       (select $now::timestamptz as now) as clock;

-- name: find_other_inputs
-- Which of some repeats have other inputs than the jobs that they are compared with, however these are written.
select distinct given.repeat
  from unnest($repeats::bigint[], $job_ids::bigint[], $task_indexes::int[], $inputs::text[])
         as given(repeat, job_id, task_index, input)
 cross join lateral (
       select tasks.input from holdfast.tasks
        where tasks.job_id = given.job_id and tasks.task_index = given.task_index limit 1) as stored
 where stored.input::text <> given.input and stored.input::jsonb <> given.input::jsonb;

-- name: delete_hidden_tasks
delete from holdfast.tasks
 where job_id = $job_id and task_index = any (array(
           select task_index from holdfast.tasks where job_id = $job_id order by task_index limit $batch_max))
returning 1;

-- name: assign_tasks
with clock as materialized (select holdfast.now() as now),
assigned as materialized (
    select assigned.*
      from unnest($job_ids::bigint[], $task_indexes::int[], $tokens::uuid[], $worker_ids::text[],
                  $durations::interval[], $run_timeouts::interval[], $claim_keys::text[], $books::text[],
                  $held::text[], $slots::int[])
        as assigned(job_id, task_index, lease_token, worker_id, duration, run_timeout, claim_key, book, held, slots)
     -- An incarnation that has been replaced can never speak again.
     where not exists (select from holdfast.workers
                        where workers.worker_id = assigned.worker_id and workers.lost_at is not null)
),
moved as (
    update holdfast.tasks
       set state = {ASSIGNED}, seq = tasks.seq + 1, moved_at = greatest(clock.now, tasks.moved_at),
           actor = assigned.worker_id, cause = null
      from assigned, clock
     where tasks.job_id = assigned.job_id and tasks.task_index = assigned.task_index
    returning tasks.job_id, tasks.task_index, tasks.attempt, assigned.worker_id, assigned.lease_token,
              tasks.moved_at, clock.now + assigned.duration as expires_at, assigned.duration,
              assigned.run_timeout, assigned.claim_key, assigned.book, assigned.held::bigint[], assigned.slots
)
insert into holdfast.leases (job_id, task_index, attempt, worker_id, lease_token, created_at, expires_at,
                             duration, run_timeout, claim_key, book, held, slots)
select * from moved
returning job_id, task_index, lease_token, expires_at;

-- name: assign_running
-- As assign_tasks and start_running for those that start as they are claimed: two moves, in one row version.
with clock as materialized (select holdfast.now() as now),
assigned as materialized (
    select assigned.*
      from unnest($job_ids::bigint[], $task_indexes::int[], $tokens::uuid[], $worker_ids::text[],
                  $durations::interval[], $run_timeouts::interval[], $claim_keys::text[], $books::text[],
                  $held::text[], $slots::int[])
        as assigned(job_id, task_index, lease_token, worker_id, duration, run_timeout, claim_key, book, held, slots)
     where not exists (select from holdfast.workers
                        where workers.worker_id = assigned.worker_id and workers.lost_at is not null)
),
moved as (
    update holdfast.tasks
       set state = {RUNNING}, seq = tasks.seq + 2, claim_seq = tasks.seq,
           moved_at = greatest(clock.now, tasks.moved_at), started_at = greatest(clock.now, tasks.moved_at),
           actor = assigned.worker_id, cause = null
      from assigned, clock
     where tasks.job_id = assigned.job_id and tasks.task_index = assigned.task_index
    returning tasks.job_id, tasks.task_index, tasks.attempt, assigned.worker_id, assigned.lease_token,
              tasks.moved_at, clock.now + assigned.duration as expires_at, assigned.duration,
              assigned.run_timeout, clock.now + assigned.run_timeout as run_deadline_at, assigned.claim_key,
              assigned.book, assigned.held::bigint[], assigned.slots
)
insert into holdfast.leases (job_id, task_index, attempt, worker_id, lease_token, created_at, expires_at,
                             duration, run_timeout, run_deadline_at, claim_key, book, held, slots)
select * from moved
returning job_id, task_index, lease_token, expires_at;

-- name: start_building
-- Locked, fenced and moved in one statement. Whoever ends a lease changes its task's state or attempt
-- under the same lock, so what was read of the lease before the wait for that lock cannot mislead.
with clock as materialized (select holdfast.now() as now),
mine as materialized (
    select mine.*, tasks.state
      from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[], $tokens::uuid[])
        as mine(job_id, task_index, attempt, lease_token)
      join holdfast.tasks using (job_id, task_index)
     order by job_id, task_index
       for update of tasks
),
fenced as materialized (
    select mine.*, leases.worker_id, leases.run_timeout
      from mine join holdfast.leases
        on leases.job_id = any (array[mine.job_id]) and leases.task_index = mine.task_index
       and leases.attempt = mine.attempt and leases.lease_token = mine.lease_token
     where mine.state in ({ASSIGNED}) and not leases.ending
),
timed as (
    update holdfast.leases set run_deadline_at = clock.now + fenced.run_timeout
      from fenced, clock
     where leases.job_id = any (array[fenced.job_id]) and leases.task_index = fenced.task_index
       and fenced.run_timeout is not null
)
update holdfast.tasks
   set state = {BUILDING}, seq = tasks.seq + 1, moved_at = greatest(clock.now, tasks.moved_at),
       actor = fenced.worker_id, cause = null
  from fenced, clock
 where tasks.job_id = fenced.job_id and tasks.task_index = fenced.task_index
   and tasks.attempt = fenced.attempt and tasks.state in ({ASSIGNED})
returning tasks.job_id, tasks.task_index, fenced.lease_token, fenced.state;

-- name: start_running
-- The run is timed from BUILDING on, where there was any. It began as long ago as its worker says, by its own clock,
-- but not before the move that came before it.
with clock as materialized (select holdfast.now() as now),
mine as materialized (
    select mine.*, tasks.state
      from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[], $tokens::uuid[],
                  $runs::interval[])
        as mine(job_id, task_index, attempt, lease_token, run)
      join holdfast.tasks using (job_id, task_index)
     order by job_id, task_index
       for update of tasks
),
fenced as materialized (
    select mine.*, leases.worker_id, leases.run_timeout
      from mine join holdfast.leases
        on leases.job_id = any (array[mine.job_id]) and leases.task_index = mine.task_index
       and leases.attempt = mine.attempt and leases.lease_token = mine.lease_token
     where mine.state in ({ASSIGNED}, {BUILDING}) and not leases.ending
),
timed as (
    update holdfast.leases set run_deadline_at = clock.now + fenced.run_timeout
      from fenced, clock
     where leases.job_id = any (array[fenced.job_id]) and leases.task_index = fenced.task_index
       and fenced.run_timeout is not null and leases.run_deadline_at is null
)
update holdfast.tasks
   set state = {RUNNING}, seq = tasks.seq + 1, moved_at = greatest(clock.now - fenced.run, tasks.moved_at),
       started_at = greatest(clock.now - fenced.run, tasks.moved_at), actor = fenced.worker_id, cause = null
  from fenced, clock
 where tasks.job_id = fenced.job_id and tasks.task_index = fenced.task_index
   and tasks.attempt = fenced.attempt and tasks.state in ({ASSIGNED}, {BUILDING})
returning tasks.job_id, tasks.task_index, fenced.lease_token, fenced.state;

-- name: succeed_attempts
select * from holdfast.succeed_attempts($job_ids, $task_indexes, $attempts, $tokens, $results);

-- name: end_attempts
-- Any other end of an open attempt. Not released: the lease lives on as ending, until its worker
-- confirms that the process is gone or it runs out.
with clock as materialized (select holdfast.now() as now),
ended as materialized (
    select * from unnest($job_ids::bigint[], $task_indexes::int[], $states::smallint[],
                         $finished::boolean[], $failure_counts::int[], $preemption_counts::int[],
                         $actors::text[], $causes::text[], $exit_codes::int[], $errors::text[],
                         $error_classes::text[], $stages::text[], $reported::boolean[],
                         $released::boolean[])
        as ended(job_id, task_index, state, finished, failure_count, preemption_count, actor, cause,
                 exit_code, error, error_class, stage, reported, released)
),
freed as (
    delete from holdfast.leases using ended
     where leases.job_id = any (array[ended.job_id]) and leases.task_index = ended.task_index and ended.released
    returning leases.attempt, leases.worker_id, leases.lease_token, leases.created_at,
              leases.expires_at, leases.held, leases.slots, ended.*
),
kept as (
    update holdfast.leases set ending = true
      from ended
     where leases.job_id = any (array[ended.job_id]) and leases.task_index = ended.task_index and not ended.released
    returning leases.attempt, leases.worker_id, leases.lease_token, leases.created_at,
              leases.expires_at, null::bigint[], null::int, ended.*
),
moved as (
    update holdfast.tasks
       set state = lease.state, seq = tasks.seq + 1, moved_at = greatest(clock.now, tasks.moved_at),
           finished_at = case when lease.finished then greatest(clock.now, tasks.moved_at) end,
           failure_count = lease.failure_count, preemption_count = lease.preemption_count,
           actor = lease.actor, cause = lease.cause
      from (select * from freed union all select * from kept) as lease, clock
     where tasks.job_id = lease.job_id and tasks.task_index = lease.task_index
    returning tasks.started_at, tasks.moved_at, lease.*
)
insert into holdfast.attempts (job_id, task_index, attempt, worker_id, state, created_at, started_at,
                               finished_at, released_at, exit_code, error, error_class, stage,
                               lease_token, last_lease_expires_at, reported)
select job_id, task_index, attempt, worker_id, state, created_at, started_at, moved_at,
       case when released then moved_at end, exit_code, error, error_class, stage, lease_token,
       expires_at, reported
  from moved
returning job_id, task_index, extract(epoch from finished_at - started_at)::float8 as ran, worker_id, state,
          (select held::text from freed
            where freed.job_id = attempts.job_id and freed.task_index = attempts.task_index) as held,
          (select slots from freed
            where freed.job_id = attempts.job_id and freed.task_index = attempts.task_index) as slots;

-- name: retry_tasks
with clock as materialized (select holdfast.now() as now),
moved as (
    update holdfast.tasks
       set state = {PENDING}, attempt = tasks.attempt + 1, seq = tasks.seq + 1,
           moved_at = greatest(clock.now, tasks.moved_at),
           eligible_at = greatest(clock.now, tasks.moved_at) + retried.delay,
           free_loss_count = retried.free_loss_count, started_at = null, actor = 'server',
           cause = retried.cause
      from unnest($job_ids::bigint[], $task_indexes::int[], $delays::interval[],
                  $free_loss_counts::int[], $causes::text[])
             as retried(job_id, task_index, delay, free_loss_count, cause), clock
     where tasks.job_id = retried.job_id and tasks.task_index = retried.task_index
    returning tasks.job_id, tasks.task_index, tasks.eligible_at
)
insert into holdfast.waiting (job_id, task_index, eligible_at)
select job_id, task_index, eligible_at from moved;

-- name: dead_letter_tasks
-- From a failed or lost attempt, from one just killed by an operator's call, or without any.
with clock as materialized (select holdfast.now() as now),
dead as materialized (
    select * from unnest($job_ids::bigint[], $task_indexes::int[], $reason_codes::text[],
                         $actors::text[], $causes::text[])
        as dead(job_id, task_index, reason_code, actor, cause)
),
unwaited as (
    delete from holdfast.waiting using dead
     where waiting.job_id = any (array[dead.job_id]) and waiting.task_index = dead.task_index
),
moved as (
    update holdfast.tasks
       set state = {DEAD_LETTERED}, seq = tasks.seq + 1, moved_at = greatest(clock.now, tasks.moved_at),
           finished_at = greatest(clock.now, tasks.moved_at), actor = dead.actor, cause = dead.cause
      from dead, clock
     where tasks.job_id = dead.job_id and tasks.task_index = dead.task_index
    returning tasks.job_id, tasks.task_index, tasks.input, tasks.finished_at, dead.reason_code, dead.cause
)
insert into holdfast.dead_letters (job_id, task_index, reason_code, stage, error_class, last_error,
                                   attempts, last_owner, last_lease_expires_at, correlation_id, type,
                                   queue, input, dead_lettered_at)
select moved.job_id, moved.task_index, moved.reason_code, last.stage,
       case when own.is_end then last.error_class end,
       case when own.is_end then last.error else moved.cause end,
       coalesce(last.attempt + 1, 0), last.worker_id, last.last_lease_expires_at, jobs.correlation_id,
       jobs.type, jobs.queue, moved.input, moved.finished_at
  from moved join holdfast.jobs using (job_id)
  left join lateral (
      select attempts.* from holdfast.attempts
       where attempts.job_id = moved.job_id and attempts.task_index = moved.task_index
       order by attempts.attempt desc limit 1) as last on true
  -- An operator's call ends a task for another reason than its last attempt, and its time one that has had none; a
  -- worker's refusal is a reason of the attempt.
  cross join lateral (
      select moved.reason_code <> 'policy_violation' and last.attempt is not null
             or coalesce(last.error_class = 'RefusedByWorker', false) as is_end) as own;

-- name: kill_pending_tasks
-- Rows of `ready` that nobody holds are gone by now; what is left of them is for the claim that meets it.
with clock as materialized (select holdfast.now() as now),
mine as materialized (
    select * from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
),
unwaited as (
    delete from holdfast.waiting using mine
     where waiting.job_id = any (array[mine.job_id]) and waiting.task_index = mine.task_index
)
update holdfast.tasks
   set state = {KILLED}, seq = tasks.seq + 1, moved_at = greatest(clock.now, tasks.moved_at),
       finished_at = greatest(clock.now, tasks.moved_at), actor = $actor, cause = $cause
  from mine, clock
 where tasks.job_id = mine.job_id and tasks.task_index = mine.task_index;

-- name: give_up_scheduling
with clock as materialized (select holdfast.now() as now)
update holdfast.tasks
   set state = {UNSCHEDULABLE}, seq = tasks.seq + 1, moved_at = greatest(clock.now, tasks.moved_at),
       finished_at = greatest(clock.now, tasks.moved_at), actor = 'server', cause = mine.cause
  from unnest($job_ids::bigint[], $task_indexes::int[], $causes::text[]) as mine(job_id, task_index, cause), clock
 where tasks.job_id = mine.job_id and tasks.task_index = mine.task_index;

-- name: measure_inputs
select count(*), coalesce(sum(octet_length(input::text)), 0)::bigint
  from holdfast.tasks where job_id = $job_id and (not $only_unsuccessful::boolean or state <> {SUCCEEDED});

-- name: read_inputs
select task_index, coalesce(input::text, 'null') from holdfast.tasks
 where job_id = $job_id and task_index > $after_index
   and (not $only_unsuccessful::boolean or state <> {SUCCEEDED})
 order by task_index limit $batch_max;
