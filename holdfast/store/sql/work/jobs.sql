-- name: allocate_job_ids
-- And the time, which saves asking for it: a job that does not exist yet waits for no lock. None, if the policies
-- and options of functions that the jobs were completed with no longer hold.
select nextval('holdfast.job_ids'), holdfast.now()
  from holdfast.policy_clock cross join generate_series(1, $count::int)
 where version + functions_version = coalesce($policies_version::bigint, version + functions_version);

-- name: store_jobs
select * from holdfast.store_jobs(
    $job_id, $name, $type, $owner, $queue, $priority, $spec, $labels, $parent_job_id, $replay_of, $correlation_id,
    $trace_id, $trace_parent, $idempotency_key, $asked, $shown, $fan_out, $max_task_failures, $num_tasks, $graph_id,
    $compensates_job_id, $unmet, $actor, $scheduling_timeout, $positions, $task_indexes, $placed, $inputs, $at,
    $policies_version, $partitions_end);

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
select * from holdfast.count_moves(
    $job_ids, $pending, $assigned, $building, $running, $succeeded, $failed, $killed, $worker_failed, $unschedulable,
    $dead_lettered, $timed_out, $errors, $exit_codes, $must_be_live);

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
