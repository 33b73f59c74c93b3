-- name: allocate_job_ids
-- And the time, which saves asking for it: a job that does not exist yet waits for no lock. None, if the policies
-- and options of functions that the jobs were completed with no longer hold.
select nextval('holdfast.job_ids'), holdfast.now()
  from holdfast.policy_clock cross join generate_series(1, $count::int)
 where version + functions_version = coalesce($policies_version::bigint, version + functions_version);

-- name: insert_jobs
insert into holdfast.jobs (
    job_id, name, type, owner, queue, priority, spec, labels, parent_job_id, replay_of, correlation_id,
    trace_id, trace_parent, idempotency_key, asked_hash, created_at, submitted_at, fan_out, max_task_failures,
    num_tasks, pending, graph_id, compensates_job_id, unmet, seq, event_type, event_at, event_actor)
select job_id, name, type, owner, queue, priority, spec::jsonb, labels::jsonb, parent_job_id, replay_of,
       correlation_id, trace_id, trace_parent, idempotency_key, jsonb_hash_extended(asked::jsonb, 0), clock.now,
       case when shown then clock.now end,
       fan_out, max_task_failures, num_tasks, num_tasks, graph_id, compensates_job_id, unmet, shown::int,
       case when shown then 'submitted'::holdfast.event_type end, case when shown then clock.now end,
       case when shown then coalesce(actor, owner) end
  from unnest($job_id::bigint[], $name::text[], $type::text[], $owner::text[], $queue::text[],
              $priority::int[], $spec::text[], $labels::text[], $parent_job_id::bigint[],
              $replay_of::bigint[], $correlation_id::text[], $trace_id::text[], $trace_parent::text[],
              $idempotency_key::text[], $asked::text[], $shown::boolean[],
              $fan_out::boolean[], $max_task_failures::int[], $num_tasks::int[], $graph_id::bigint[],
              $compensates_job_id::bigint[], $unmet::int[], $actor::text[])
         as new(job_id, name, type, owner, queue, priority, spec, labels, parent_job_id, replay_of,
                correlation_id, trace_id, trace_parent, idempotency_key, asked, shown, fan_out,
                max_task_failures, num_tasks, graph_id, compensates_job_id, unmet, actor),
       (select $now::timestamptz as now) as clock
on conflict (owner, idempotency_key) where idempotency_key is not null do nothing
returning job_id;

-- name: find_by_key
select owner, idempotency_key, job_id
  from holdfast.jobs
  join unnest($owners::text[], $idempotency_keys::text[]) as wanted(owner, idempotency_key)
       using (owner, idempotency_key);

-- name: find_repeated
-- Compared as jsonb: it makes no difference how a submission is written.
select position, job_id, submitted_at is not null as shown,
       coalesce(asked_hash = jsonb_hash_extended(asked::jsonb, 0), spec = asked::jsonb)
       and jobs.fan_out = wanted.fan_out and jobs.num_tasks = wanted.num_tasks as is_same
  from holdfast.jobs
  join unnest($owners::text[], $idempotency_keys::text[], $asked::text[], $fan_out::boolean[], $num_tasks::int[])
       with ordinality as wanted(owner, idempotency_key, asked, fan_out, num_tasks, position)
       using (owner, idempotency_key)
 order by position;

-- name: read_names
select job_id, correlation_id, trace_id from holdfast.jobs where job_id = any ($job_ids::bigint[]);

-- name: show_job
update holdfast.jobs
   set submitted_at = $now::timestamptz, unmet = $unmet, seq = 1, event_type = 'submitted',
       event_at = $now::timestamptz, event_actor = coalesce($actor::text, owner)
 where job_id = $job_id and submitted_at is null
returning job_id;

-- name: list_hidden_jobs
-- Any number that somebody holds, because they are being stored, must not keep others from their turn.
select job_id from holdfast.jobs
 where submitted_at is null and (abandoned_at is not null or created_at < holdfast.now() - $older_than::interval)
 order by created_at limit $batch_max for update skip locked;

-- name: lock_hidden_job
select job_id from holdfast.jobs
 where job_id = $job_id and submitted_at is null and abandoned_at is null for update;

-- name: abandon_hidden_job
-- Whoever is storing it finds out, and the next try may have its key.
update holdfast.jobs set abandoned_at = holdfast.now(), idempotency_key = null, compensates_job_id = null
 where job_id = $job_id and submitted_at is null
returning job_id;

-- name: delete_job
delete from holdfast.jobs where job_id = $job_id;

-- name: load_specs
select job_id, spec::text, correlation_id, trace_id, name, num_tasks, compensates_job_id, trace_parent
  from holdfast.jobs join unnest($job_ids::bigint[]) as wanted(job_id) using (job_id);

-- name: read_verbosity
select job_id, coalesce(spec ->> 'verbose_events' = 'true', false)
  from holdfast.jobs join unnest($job_ids::bigint[]) as wanted(job_id) using (job_id);

-- name: count_moves
-- Job rows are locked last, and in the order of their ids: the moves come sorted, and the plan looks
-- each job up as it meets it. What is returned is the job after the counts, before its state follows.
update holdfast.jobs
   set pending = jobs.pending + moves.pending,
       assigned = jobs.assigned + moves.assigned,
       building = jobs.building + moves.building,
       running = jobs.running + moves.running,
       succeeded = jobs.succeeded + moves.succeeded,
       failed = jobs.failed + moves.failed,
       killed = jobs.killed + moves.killed,
       worker_failed = jobs.worker_failed + moves.worker_failed,
       unschedulable = jobs.unschedulable + moves.unschedulable,
       dead_lettered = jobs.dead_lettered + moves.dead_lettered,
       timed_out = jobs.timed_out + moves.timed_out,
       error = coalesce(jobs.error, moves.error),
       exit_code = case when jobs.error is null then coalesce(moves.exit_code, jobs.exit_code)
                        else jobs.exit_code end
  from unnest($job_ids::bigint[], $pending::int[], $assigned::int[], $building::int[], $running::int[],
              $succeeded::int[], $failed::int[], $killed::int[], $worker_failed::int[],
              $unschedulable::int[], $dead_lettered::int[], $timed_out::int[], $errors::text[],
              $exit_codes::int[])
         as moves(job_id, pending, assigned, building, running, succeeded, failed, killed,
                  worker_failed, unschedulable, dead_lettered, timed_out, error, exit_code)
 where jobs.job_id = moves.job_id
returning jobs.job_id, jobs.state, jobs.cancel_mode, jobs.fan_out, jobs.max_task_failures,
          jobs.started_at is not null as has_started,
          jobs.pending, jobs.assigned, jobs.building, jobs.running, jobs.succeeded, jobs.failed,
          jobs.killed, jobs.worker_failed, jobs.unschedulable, jobs.dead_lettered, jobs.timed_out;

-- name: start_jobs
with clock as materialized (select holdfast.now() as now)
update holdfast.jobs
   set state = {RUNNING}, started_at = greatest(clock.now, jobs.event_at), seq = jobs.seq + 1,
       event_type = 'started', event_at = greatest(clock.now, jobs.event_at), event_actor = 'server',
       event_cause = null, event_payload = null
  from unnest($job_ids::bigint[]) as mine(job_id), clock
 where jobs.job_id = mine.job_id;

-- name: finish_jobs
with clock as materialized (select holdfast.now() as now)
update holdfast.jobs
   set state = ended.state, finished_at = greatest(clock.now, jobs.event_at), seq = jobs.seq + 1,
       event_type = ended.event_type::holdfast.event_type,
       event_at = greatest(clock.now, jobs.event_at), event_actor = 'server',
       event_cause = case ended.state when {SUCCEEDED} then null
                                      when {KILLED} then coalesce(jobs.cancel_reason, jobs.error)
                                      else jobs.error end,
       event_payload = null,
       error = case when ended.state = {KILLED} then coalesce(jobs.cancel_reason, jobs.error) else jobs.error end,
       exit_code = case when ended.state = {SUCCEEDED} then 0 else jobs.exit_code end
  from unnest($job_ids::bigint[], $states::smallint[], $event_types::text[])
         as ended(job_id, state, event_type),
       clock
 where jobs.job_id = ended.job_id
-- What follows from it, for others: those that wait for it, its undoing, what it has undone.
-- A large spec is stored elsewhere, and looked at after a failure alone.
returning jobs.job_id,
          ended.state <> {SUCCEEDED} and (jobs.graph_id is not null or jobs.spec ? 'compensation') as is_to_be_undone,
          jobs.compensates_job_id is not null as is_compensation,
          -- With `exists`, a planner may read all that is open instead, into a hash.
          (select true from holdfast.dependencies
            where depends_on = jobs.job_id and closed_at is null limit 1) is not null as is_awaited;

-- name: list_free_jobs
-- Those that nobody holds; locked only to find out.
select job_id from holdfast.jobs
 where job_id = any ($job_ids::bigint[]) order by job_id for update skip locked;

-- name: lock_job
select job_id, state, cancel_mode, cancel_reason, num_tasks, queue, finished_at is not null as finished
  from holdfast.jobs where job_id = $job_id and submitted_at is not null for update;

-- name: read_job_flags
select job_id, cancel_mode, finished_at is not null as finished, cancel_reason, state
  from holdfast.jobs join unnest($job_ids::bigint[]) as wanted(job_id) using (job_id)
 where submitted_at is not null;

-- name: read_time_to_start
select coalesce(released_at, submitted_at) + $delay::interval - holdfast.now()
  from holdfast.jobs where job_id = $job_id;

-- name: hold_jobs
-- One that ends now would miss the child, or the dependent, that is just being born.
select job_id, state, finished_at is not null as ended,
       finished_at is not null or cancel_mode is not null as is_over
  from holdfast.jobs
 where job_id = any ($job_ids::bigint[]) and submitted_at is not null
 order by job_id for share;

-- name: flag_cancel
with clock as materialized (select holdfast.now() as now)
update holdfast.jobs
   set cancel_mode = $mode, cancel_reason = coalesce(jobs.cancel_reason, mine.reason), seq = jobs.seq + 1,
       event_type = 'cancel_requested', event_at = greatest(clock.now, jobs.event_at),
       event_actor = $actor, event_cause = mine.reason,
       event_payload = jsonb_build_object('mode', $mode::text)
  from unnest($job_ids::bigint[], $reasons::text[]) as mine(job_id, reason), clock
 where jobs.job_id = mine.job_id;

-- name: record_job_events
with clock as materialized (select holdfast.now() as now)
update holdfast.jobs
   set seq = jobs.seq + 1, event_type = $event_type::text::holdfast.event_type,
       event_at = greatest(clock.now, jobs.event_at), event_actor = $actor, event_cause = null,
       event_payload = mine.payload::jsonb
  from clock cross join unnest($job_ids::bigint[], $payloads::text[]) as mine(job_id, payload)
 where jobs.job_id = mine.job_id;

-- name: list_live_children
select job_id from holdfast.jobs
 where parent_job_id = $job_id and finished_at is null and submitted_at is not null
   and cancel_mode is distinct from 'hard' and cancel_mode is distinct from $mode
 order by job_id limit $batch_max;

-- name: list_finished
select jobs.job_id from unnest($job_ids::bigint[]) as mine(job_id) join holdfast.jobs using (job_id)
 where jobs.finished_at is not null;

-- name: read_job_to_rerun
select state, finished_at, fan_out, num_tasks, pending + assigned + building + running as live
  from holdfast.jobs where job_id = $job_id and submitted_at is not null;

-- name: walk_jobs_by_age
-- The oldest jobs of a type after one, and whether each is of an age; one that still arrives is not. The order names
-- the type too, so that no plan walks past jobs of other types.
select job_id, num_tasks, submitted_at is not null and submitted_at <= holdfast.now() - $age::interval as is_old,
       finished_at is null and cancel_mode is null as is_live
  from holdfast.jobs
 where type collate "C" <= $type::text
   and (type collate "C", job_id) > ($type::text collate "C", $after_job_id::bigint)
 order by type collate "C", job_id limit $jobs_max;
