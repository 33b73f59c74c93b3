-- name: walk_jobs
-- A list is read in two steps: ids in order, by an index alone, then those among them that are wanted.
select job_id from holdfast.jobs where job_id < $before_job_id order by job_id desc limit $count_max;

-- name: walk_jobs_in_states
select newest.job_id
  from unnest($states::smallint[]) as wanted(state)
 cross join lateral (
       select job_states.job_id from holdfast.job_states
        where job_states.state = wanted.state and job_states.job_id < $before_job_id
        order by job_states.job_id desc limit $count_max) as newest
 order by newest.job_id desc limit $count_max;

-- name: walk_jobs_of_type
-- In this and the next ones the order names the first column too, and no equation fixes it: the primary
-- key cannot serve that order, so no plan walks past every job in search of a few.
select job_id from holdfast.jobs
 where type collate "C" >= $type::text
   and (type collate "C", job_id) < ($type::text collate "C", $before_job_id::bigint)
 order by type collate "C" desc, job_id desc limit $count_max;

-- name: walk_jobs_of_owner
select job_id from holdfast.jobs
 where owner collate "C" >= $owner::text
   and (owner collate "C", job_id) < ($owner::text collate "C", $before_job_id::bigint)
 order by owner collate "C" desc, job_id desc limit $count_max;

-- name: walk_jobs_of_queue
select job_id from holdfast.jobs
 where queue >= $queue::text
   and (queue, job_id) < ($queue::text collate "C", $before_job_id::bigint)
 order by queue desc, job_id desc limit $count_max;

-- name: walk_jobs_of_parent
select job_id from holdfast.jobs
 where parent_job_id >= $parent_job_id::bigint
   and (parent_job_id, job_id) < ($parent_job_id::bigint, $before_job_id::bigint)
 order by parent_job_id desc, job_id desc limit $count_max;

-- name: walk_jobs_of_correlation
select job_id from holdfast.jobs
 where correlation_id collate "C" >= $correlation_id::text
   and (correlation_id collate "C", job_id) < ($correlation_id::text collate "C", $before_job_id::bigint)
 order by correlation_id collate "C" desc, job_id desc limit $count_max;

-- name: walk_jobs_with_label
select job_id from holdfast.job_labels
 where label = holdfast.label_hash($label_key::text, $label_value::text) and job_id < $before_job_id
 order by job_id desc limit $count_max;

-- name: list_names
-- From name to name, however many jobs bear one.
with recursive found(name) as (
    (select name from holdfast.jobs where name collate "C" >= $name::text order by name collate "C" limit 1)
    union all
    select following.name
      from found cross join lateral (
           select name from holdfast.jobs where name collate "C" > found.name
            order by name collate "C" limit 1) as following
     where starts_with(found.name, $name::text)
)
select name from found where starts_with(name, $name::text) limit $names_max;

-- name: walk_jobs_named
select newest.job_id
  from unnest($names::text[]) as wanted(name)
 cross join lateral (
       select job_id from holdfast.jobs
        where jobs.name collate "C" >= wanted.name
          and (jobs.name collate "C", jobs.job_id) < (wanted.name collate "C", $before_job_id::bigint)
        order by jobs.name collate "C" desc, jobs.job_id desc limit $count_max) as newest
 order by newest.job_id desc limit $count_max;

-- name: walk_jobs_in_chunks
select job_id from holdfast.jobs
 where num_tasks > 10000 and job_id < $before_job_id and job_id >= $first_job_id
 order by job_id desc limit $count_max;

-- name: find_jobs_by_time
-- The first job of each moment: ids rise with the time at which jobs were created, so halving what is left of
-- them finds it in as many steps as an id has bits, without an index by time.
with recursive search(position, moment, low, high, steps) as (
    select asked.position, asked.moment, span.first_id - 1, span.last_id + 1, 0
      from unnest($moments::timestamptz[]) with ordinality as asked(moment, position),
           (select (select job_id from holdfast.jobs order by job_id limit 1) as first_id,
                   (select job_id from holdfast.jobs order by job_id desc limit 1) as last_id) as span
    union all
    select position, moment,
           case when probe.created_at >= moment then low else half.middle end,
           case when probe.created_at >= moment then probe.job_id else high end,
           steps + 1
      from search
     cross join lateral (select low + (high - low) / 2 as middle) as half
      left join lateral (
           select jobs.job_id, jobs.created_at from holdfast.jobs
            where jobs.job_id > low and jobs.job_id <= half.middle
            order by jobs.job_id desc limit 1) as probe on true
     where high - low > 1 and steps < 64
)
select distinct on (position) high from search order by position, steps desc;

-- name: keep_jobs_of_type
-- Those among walked jobs that an index knows to be of a type: of the others not even the row is read. Compared as
-- rows, with no equation, so that no plan looks by the id alone.
select walked.id
  from unnest($job_ids::bigint[]) as walked(id)
 cross join lateral (
       select from holdfast.jobs
        where (type collate "C", job_id) >= ($type::text collate "C", walked.id)
          and (type collate "C", job_id) <= ($type::text collate "C", walked.id) limit 1) as known;

-- name: keep_jobs_of_owner
select walked.id
  from unnest($job_ids::bigint[]) as walked(id)
 cross join lateral (
       select from holdfast.jobs
        where (owner collate "C", job_id) >= ($owner::text collate "C", walked.id)
          and (owner collate "C", job_id) <= ($owner::text collate "C", walked.id) limit 1) as known;

-- name: keep_jobs_of_queue
select walked.id
  from unnest($job_ids::bigint[]) as walked(id)
 cross join lateral (
       select from holdfast.jobs
        where queue >= $queue::text
          and (queue, job_id) >= ($queue::text collate "C", walked.id)
          and (queue, job_id) <= ($queue::text collate "C", walked.id) limit 1) as known;

-- name: read_errors
-- Of jobs that somebody cancelled, the error is that it was.
select walked.id, job.type, job.finished_at, left(job.error, $error_length::int),
       job.state = {KILLED} and job.cancel_mode is not null as is_cancelled
  from unnest($job_ids::bigint[]) as walked(id)
 cross join lateral (select * from holdfast.jobs where job_id = walked.id limit 1) as job
 where job.error is not null;

-- name: list_again
-- What became of ended jobs: whether dead letters of theirs are open, and a row for each job that runs one again, by
-- the events of its replays, the newest of them.
select walked.id, job.replay_of, job.dead_lettered > 0 as has_letters,
       coalesce((select true from holdfast.dead_letters
                  where dead_letters.job_id = walked.id and replayed_at is null and discarded_at is null limit 1),
                false) as has_open,
       replay.job_id, replay.finished_at is not null as is_ended, replay.state = {SUCCEEDED} as has_succeeded
  from unnest($job_ids::bigint[]) as walked(id)
 cross join lateral (select replay_of, dead_lettered from holdfast.jobs where job_id = walked.id limit 1) as job
  left join lateral (
      select payload from holdfast.events
       where events.job_id = walked.id and events.task_index = -1 and events.type = 'replayed'
       order by events.seq desc limit $events_max) as noted on true
  left join lateral (
      select (noted.payload ->> 'job_id')::bigint as job_id
      union all
      select jsonb_array_elements_text(noted.payload -> 'rest_job_ids')::bigint) as again on true
  left join lateral (
      select jobs.job_id, jobs.finished_at, jobs.state from holdfast.jobs
       where jobs.job_id = again.job_id limit 1) as replay on true;

-- name: read_jobs
-- A lateral with a limit is a look-up by key, whatever the planner believes about the size of a table.
select job_id, name, type, owner, queue, priority, labels::text, parent_job_id, replay_of, correlation_id,
       trace_id, idempotency_key, submitted_at, state, started_at, finished_at, error, exit_code,
       cancel_mode, cancel_reason, num_tasks, pending, assigned, building, running, succeeded, failed,
       killed, worker_failed, unschedulable, dead_lettered, graph_id, compensates_job_id, unmet, released_at,
       null as compensated_by, null as is_compensated, null as spec
  from unnest($job_ids::bigint[]) as walked(id)
 cross join lateral (select * from holdfast.jobs where job_id = walked.id limit 1) as job
 where submitted_at is not null
   and ($states::smallint[] is null or state = any ($states))
   and ($name::text is null or starts_with(name, $name))
   and ($type::text is null or type = $type)
   and ($owner::text is null or owner = $owner)
   and ($queue::text is null or queue = $queue)
   and ($parent_job_id::bigint is null or parent_job_id = $parent_job_id)
   and ($correlation_id::text is null or correlation_id = $correlation_id)
   and ($label_key::text is null or labels ->> $label_key = $label_value::text)
   and ($submitted_from::timestamptz is null or submitted_at >= $submitted_from)
   and ($submitted_until::timestamptz is null or submitted_at < $submitted_until)
 order by job_id desc limit $count_max;

-- name: get_job_with_spec
select job_id, name, type, owner, queue, priority, labels::text, parent_job_id, replay_of, correlation_id,
       trace_id, idempotency_key, submitted_at, state, started_at, finished_at, error, exit_code,
       cancel_mode, cancel_reason, num_tasks, pending, assigned, building, running, jobs.succeeded, failed,
       killed, worker_failed, unschedulable, dead_lettered, jobs.graph_id, compensates_job_id, unmet, released_at,
       undos.compensation_job_id, undos.succeeded, spec::text
  from holdfast.jobs left join holdfast.undos using (job_id)
 where job_id = $job_id and submitted_at is not null;
