-- name: renew_term
-- No lock that stands in the way of what the leader does meanwhile.
update holdfast.leadership set expires_at = holdfast.now() + $term::interval
 where leader = $leader
returning epoch;

-- name: begin_term
-- Waits for every transaction that holds the last term: what a leader reads or writes belongs to its own.
with vacant as materialized (
    select one from holdfast.leadership
     where leader is null or expires_at <= holdfast.now() or leader = $gone::text
       for update
)
update holdfast.leadership
   set epoch = epoch + 1, leader = $leader, expires_at = holdfast.now() + $term::interval
  from vacant
 where leadership.one = vacant.one
returning epoch;

-- name: find_leader
select leader from holdfast.leadership where leader is not null;

-- name: resign
update holdfast.leadership set leader = null, expires_at = holdfast.now() where leader = $leader;

-- name: hold_epoch
select 1 from holdfast.leadership where epoch = $epoch and leader = $leader for key share;

-- name: list_called_workers
select worker_id from holdfast.workers where address is not null and lost_at is null order by worker_id;

-- name: read_called_workers
select worker_id, address, encode(secret_hash, 'hex') as call_secret, answered_epoch, answered_number, answered_at,
       draining_at is not null as draining
  from unnest($worker_ids::text[]) as mine(worker_id) join holdfast.workers using (worker_id)
 where lost_at is null and address is not null;

-- name: read_wanted
-- All that a worker should know of; what an attempt needs to start goes along until the worker has named it.
-- From worker to worker, and in no order: for one, a planner would walk through the leases of all workers.
select leases.worker_id, leases.job_id, leases.task_index, leases.attempt, leases.lease_token,
       leases.expires_at,
       leases.ending and (
           not leases.acknowledged
           or holdfast.is_to_stop(leases.job_id, leases.task_index, leases.attempt,
                                  least(leases.run_deadline_at, leases.cancel_deadline_at))) as ending,
       leases.acknowledged, leases.ports::text,
       leases.devices::text, leases.cancel_deadline_at, tasks.state,
       case when not leases.acknowledged and not leases.ending then tasks.input end as input,
       holdfast.now() as now
  from unnest($worker_ids::text[]) as mine(worker_id)
 cross join lateral (
       select * from holdfast.leases where leases.worker_id = mine.worker_id and leases.placed offset 0) as leases
  join holdfast.tasks on tasks.job_id = leases.job_id and tasks.task_index = leases.task_index;

-- name: list_unacknowledged
select job_id, task_index, attempt, lease_token from holdfast.leases
 where worker_id = $worker_id and placed and not acknowledged;

-- name: list_placed_stops
-- Few have been asked to stop, of many that are placed: the index of the few is read.
with asked as materialized (
    select worker_id, job_id, task_index, attempt, ending, placed,
           least(run_deadline_at, cancel_deadline_at) as deadline
      from holdfast.leases
     where ending or cancel_requested_at is not null
)
select worker_id, job_id, task_index, attempt, ending from asked
 where placed and (not ending or holdfast.is_to_stop(job_id, task_index, attempt, deadline));

-- name: list_unfinished_losses
-- A leader that died between the two steps of a loss has left the second to the next one.
select distinct workers.worker_id, coalesce(workers.lost_cause, 'lost') as cause
  from holdfast.leases join holdfast.workers using (worker_id)
 where leases.placed and not leases.ending and workers.lost_at is not null
 order by workers.worker_id;

-- name: read_gangs
-- Who takes part in a round of a gang, and where. All its attempts have one number, and one that has ended took
-- part as well: every member is given the same list, however late its worker is called.
select job_id, task_index, workers.address, coalesce(leases.ports, used.ports)::text as ports
  from unnest($job_ids::bigint[], $attempts::int[]) as mine(job_id, attempt)
  join holdfast.tasks using (job_id, attempt)
  left join holdfast.leases using (job_id, task_index, attempt)
  left join holdfast.attempts as ended using (job_id, task_index, attempt)
  left join holdfast.attempt_usage as used using (job_id, task_index, attempt)
  join holdfast.workers on workers.worker_id = coalesce(leases.worker_id, ended.worker_id)
 order by job_id, task_index;

-- name: hold_workers
-- Dead is final: a worker that is held here is not declared dead before this transaction ends.
select worker_id from holdfast.workers
 where worker_id = any ($worker_ids::text[]) and lost_at is null
 order by worker_id
   for no key update;

-- name: renew_placed
-- A lease that somebody else holds this moment is left for the next answer.
with clock as materialized (select holdfast.now() as now),
locked as materialized (
    select leases.job_id, leases.task_index
      from unnest($worker_ids::text[], $job_ids::bigint[], $task_indexes::int[], $attempts::int[],
                  $tokens::uuid[]) as mine(worker_id, job_id, task_index, attempt, lease_token)
      join holdfast.leases using (job_id, task_index, attempt, lease_token)
     where leases.worker_id = mine.worker_id
     order by leases.job_id, leases.task_index
       for no key update of leases skip locked
)
update holdfast.leases
   set expires_at = greatest(leases.expires_at, clock.now + leases.duration), acknowledged = true
  from locked, clock
 where leases.job_id = locked.job_id and leases.task_index = locked.task_index
returning leases.job_id, leases.task_index, leases.attempt, leases.expires_at;

-- name: record_answers
update holdfast.workers
   set answered_epoch = $epoch, answered_number = mine.number, answered_at = holdfast.now(),
       last_seen_at = holdfast.now(), consecutive_failures = 0, last_failure = null
  from unnest($worker_ids::text[], $numbers::bigint[]) as mine(worker_id, number)
 where workers.worker_id = mine.worker_id;

-- name: count_failures
update holdfast.workers
   set consecutive_failures = workers.consecutive_failures + 1, last_failure = mine.failure
  from unnest($worker_ids::text[], $failures::text[]) as mine(worker_id, failure)
 where workers.worker_id = mine.worker_id and workers.lost_at is null
returning workers.worker_id, workers.consecutive_failures, workers.last_failure;

-- name: mark_lost
update holdfast.workers
   set lost_at = holdfast.now(), lost_cause = mine.cause
  from unnest($worker_ids::text[], $causes::text[]) as mine(worker_id, cause)
 where workers.worker_id = mine.worker_id and workers.lost_at is null
returning workers.worker_id;

-- name: read_fleet
select worker_id, name, host, capacity::text, attributes::text, draining_at is not null as draining,
       consecutive_failures, answered_at is not null as answered, book
  from holdfast.workers
 where address is not null and lost_at is null
 order by worker_id;

-- name: list_booked
-- What is taken of each worker: every lease that has not been released, whatever has become of its attempt. What
-- its process claims from queues beside placed work is taken by the book.
select held.worker_id, workers.book, held.job_id, held.leases, held.unstarted
  from (select leases.worker_id, leases.job_id, count(*)::int as leases,
               count(*) filter (where tasks.state in ({BUILDING}, {ASSIGNED}) and not leases.ending)::int as unstarted
          from holdfast.leases join holdfast.tasks using (job_id, task_index)
         where leases.placed
         group by leases.worker_id, leases.job_id) as held
  left join holdfast.workers using (worker_id)
union all
select leases.worker_id, leases.book, leases.job_id, count(*)::int, 0
  from holdfast.leases where leases.book is not null
 group by leases.worker_id, leases.book, leases.job_id;

-- name: list_ports
select workers.host, port.value::int as port
  from holdfast.leases join holdfast.workers using (worker_id)
 cross join lateral jsonb_each_text(leases.ports) as port
 where leases.placed and leases.ports is not null;

-- name: list_devices
-- Those of every lease that has not been released, by the name under which its worker runs on its host: what an
-- earlier incarnation has given out may still be in use.
select workers.host, workers.name, device.value as device
  from holdfast.leases join holdfast.workers using (worker_id)
 cross join lateral jsonb_array_elements_text(leases.devices) as device
 where leases.placed and leases.devices is not null;

-- name: open_due_placed
-- Tasks behind a rate that has something for them go back into line.
select holdfast.open_due(array[''], $tasks_max);

-- name: find_placed_ready
select 1 from holdfast.ready where queue = '' limit 1;

-- name: list_demands
-- From job to job by the index, and of each job no more rows than one pass could place.
with recursive heads as (
    (select ready.job_id from holdfast.ready where ready.queue = '' order by ready.job_id limit 1)
    union all
    select (select ready.job_id from holdfast.ready
             where ready.queue = '' and ready.job_id > heads.job_id
             order by ready.job_id limit 1)
      from heads where heads.job_id is not null
)
select known.job_id, jobs.priority, line.avoid, line.ready, line.since,
       jobs.num_tasks - jobs.succeeded as unfinished,
       jobs.finished_at is null and jobs.cancel_mode is null as is_live
  from (select job_id from heads where job_id is not null limit $jobs_max) as known
  join holdfast.jobs using (job_id)
 cross join lateral (
       select first.avoid, count(*)::int as ready, extract(epoch from min(first.eligible_at))::float8 as since
         from (select ready.eligible_at, ready.avoid
                 from holdfast.ready
                where ready.queue = '' and ready.job_id = known.job_id
                order by ready.job_id, ready.task_index
                limit case when jobs.spec ? 'coscheduling' then $gang_max::int else $tasks_max::int end) as first
        group by first.avoid) as line;

-- name: list_demands_of_job
-- One job's share of what the scheduler reads.
select jobs.job_id, jobs.priority, line.avoid, line.ready, line.since,
       jobs.num_tasks - jobs.succeeded as unfinished,
       jobs.finished_at is null and jobs.cancel_mode is null as is_live
  from holdfast.jobs
 cross join lateral (
       select first.avoid, count(*)::int as ready, extract(epoch from min(first.eligible_at))::float8 as since
         from (select ready.eligible_at, ready.avoid
                 from holdfast.ready
                where ready.queue = '' and ready.job_id = $job_id
                order by ready.job_id, ready.task_index
                limit case when jobs.spec ? 'coscheduling' then $gang_max::int else $tasks_max::int end) as first
        group by first.avoid) as line
 where jobs.job_id = $job_id and jobs.finished_at is null and jobs.cancel_mode is null;

-- name: drop_ready_of_ended_jobs
delete from holdfast.ready where ctid = any (array(
    select ready.ctid from unnest($job_ids::bigint[]) as mine(job_id)
      join holdfast.ready on ready.queue = '' and ready.job_id = mine.job_id
     limit $batch_max
       for update of ready skip locked));

-- name: drop_stale_ready
delete from holdfast.ready where ctid = any (array(
    select ready.ctid from unnest($job_ids::bigint[]) as mine(job_id)
      join holdfast.ready on ready.queue = '' and ready.job_id = mine.job_id
      join holdfast.tasks on tasks.job_id = ready.job_id and tasks.task_index = ready.task_index
     where tasks.state <> {PENDING}
     limit $batch_max
       for update of ready skip locked));

-- name: hold_open_workers
-- Of the workers a plan has chosen, those that may still be given something.
select worker_id from holdfast.workers
 where worker_id = any ($worker_ids::text[]) and lost_at is null and draining_at is null
   and consecutive_failures = 0 and answered_at is not null
 order by worker_id
   for share;

-- name: take_ready_of_jobs
-- A row that is stale (its task was cancelled) goes with the others; a task that somebody holds stays in line.
with picked as materialized (
    select head.*
      from unnest($job_ids::bigint[], $avoids::text[], $counts::int[]) as wanted(job_id, avoid, count)
     cross join lateral (
           select ready.ctid as row_id, ready.eligible_at, ready.avoid, ready.unschedulable_at, tasks.job_id,
                  tasks.task_index, tasks.state, tasks.attempt
             from holdfast.ready
             join holdfast.tasks on tasks.job_id = ready.job_id and tasks.task_index = ready.task_index
            where ready.queue = '' and ready.job_id = wanted.job_id
              and ready.avoid is not distinct from wanted.avoid
            order by ready.job_id, ready.task_index
            limit wanted.count
              for update of ready, tasks skip locked) as head
),
taken as (
    delete from holdfast.ready where ctid = any (array(select row_id from picked))
)
select picked.job_id, picked.task_index, picked.state, picked.attempt,
       jobs.submitted_at is not null and jobs.finished_at is null and jobs.cancel_mode is null as job_is_live,
       picked.eligible_at, picked.avoid, picked.unschedulable_at as gives_up_at
  from picked join holdfast.jobs using (job_id)
 order by picked.job_id, picked.task_index;

-- name: place_tasks
with clock as materialized (select holdfast.now() as now),
placed as materialized (
    select placed.*, gen_random_uuid() as lease_token
      from unnest($job_ids::bigint[], $task_indexes::int[], $worker_ids::text[], $durations::interval[],
                  $run_timeouts::interval[], $ports::text[], $devices::text[], $held::text[], $slots::int[])
        as placed(job_id, task_index, worker_id, duration, run_timeout, ports, devices, held, slots)
),
moved as (
    update holdfast.tasks
       set state = {ASSIGNED}, seq = tasks.seq + 1, moved_at = greatest(clock.now, tasks.moved_at),
           actor = 'scheduler', cause = 'on ' || placed.worker_id
      from placed, clock
     where tasks.job_id = placed.job_id and tasks.task_index = placed.task_index
    returning tasks.job_id, tasks.task_index, tasks.attempt, placed.worker_id, placed.lease_token,
              tasks.moved_at, clock.now + placed.duration as expires_at, placed.duration,
              placed.run_timeout, true as placed, placed.ports::jsonb, placed.devices::jsonb,
              placed.held::bigint[], placed.slots
)
insert into holdfast.leases (job_id, task_index, attempt, worker_id, lease_token, created_at, expires_at,
                             duration, run_timeout, placed, ports, devices, held, slots)
select * from moved
returning job_id, task_index, attempt, expires_at;

-- name: adopt_leases
-- The processes of these attempts live on under another incarnation of their worker. What is ending goes
-- along, so that the one who has the process is told to end it.
update holdfast.leases set worker_id = $worker_id, acknowledged = true
  from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[], $tokens::uuid[])
         as mine(job_id, task_index, attempt, lease_token)
 where leases.job_id = mine.job_id and leases.task_index = mine.task_index
   and leases.attempt = mine.attempt and leases.lease_token = mine.lease_token
   and leases.placed and leases.worker_id = $replaces
returning leases.job_id, leases.task_index, leases.attempt, leases.lease_token, leases.ending;

-- name: find_leases_of_worker
select leases.job_id, leases.task_index, leases.attempt, leases.lease_token
  from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[], $tokens::uuid[])
         as mine(job_id, task_index, attempt, lease_token)
  join holdfast.leases using (job_id, task_index, attempt, lease_token)
 where leases.worker_id = $worker_id and not leases.ending;

-- name: keep_usage
-- Ports and devices are given when it is placed; usage so far while it runs, the latest of it; the whole with its
-- end, and a report of that which comes again says the same.
insert into holdfast.attempt_usage (job_id, task_index, attempt, ports, devices, usage, build, is_final)
select job_id, task_index, attempt, ports::jsonb, devices::jsonb, usage::jsonb, build::jsonb, is_final
  from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[], $ports::text[], $devices::text[],
              $usages::text[], $builds::text[], $finals::boolean[])
         as given(job_id, task_index, attempt, ports, devices, usage, build, is_final)
on conflict (job_id, task_index, attempt) do update
   set ports = coalesce(attempt_usage.ports, excluded.ports),
       devices = coalesce(attempt_usage.devices, excluded.devices),
       usage = case when attempt_usage.is_final then attempt_usage.usage
                    else coalesce(excluded.usage, attempt_usage.usage) end,
       build = coalesce(attempt_usage.build, excluded.build),
       is_final = attempt_usage.is_final or excluded.is_final;

-- name: delete_usage_of_jobs
with gone as (
    delete from holdfast.attempt_usage where ctid = any (array(
        select ctid from holdfast.attempt_usage where job_id = any ($job_ids::bigint[]) limit $rows_max))
    returning 1
)
select count(*) from gone;
