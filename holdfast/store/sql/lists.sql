-- name: walk_jobs_in_state
select job_id from holdfast.job_states
 where state = $state::smallint and job_id < $before_job_id order by job_id desc limit $count_max;

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

-- name: walk_jobs_in_chunks
select job_id from holdfast.jobs
 where num_tasks > 10000 and job_id < $before_job_id and job_id >= $first_job_id
 order by job_id desc limit $count_max;

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

-- name: get_input
select tasks.input::text
  from holdfast.jobs join holdfast.tasks using (job_id)
 where jobs.job_id = $job_id and jobs.submitted_at is not null and tasks.task_index = $task_index;

-- name: read_settled
-- Before this moment nothing is going to be stored any more: whoever writes has begun later, or so long ago that it
-- is given up.
select least(holdfast.now() - $settling::interval,
             (select min(xact_start) from pg_stat_activity
               where backend_xid is not null and datname = current_database() and pid <> pg_backend_pid()
                 and xact_start > clock_timestamp() - $patience::interval));

-- name: walk_job_log
-- The size of what is stored elsewhere is known without fetching it.
select stored_at, task_index, attempt, start_offset, octet_length(content) as size
  from holdfast.logs
 where job_id = $job_id and stored_at < $until::timestamptz
   and (stored_at, task_index, attempt, start_offset)
       > ($stored_at::timestamptz, $after_index::int, $after_attempt::int, $after_offset::bigint)
 order by stored_at, task_index, attempt, start_offset limit $count_max;

-- name: read_stretches
select stretch.task_index, stretch.attempt, stretch.start_offset, stretch.content
  from unnest($task_indexes::int[], $attempts::int[], $start_offsets::bigint[])
         with ordinality as walked(task_index, attempt, start_offset, position)
 cross join lateral (
       select * from holdfast.logs
        where logs.job_id = $job_id and logs.task_index = walked.task_index
          and logs.attempt = walked.attempt and logs.start_offset = walked.start_offset limit 1) as stretch
 order by walked.position;

-- name: has_lease
select from holdfast.leases where job_id = $job_id limit 1;

-- name: list_newest_letters
select job_id, task_index, reason_code, stage, type, error_class, left(last_error, $error_length::int),
       dead_lettered_at
  from (select * from holdfast.dead_letters
         where replayed_at is null and discarded_at is null
         order by dead_lettered_at desc, job_id desc, task_index desc limit $examined_max) as newest
 where ($reason_code::text is null or reason_code = $reason_code)
   and ($stage::text is null or stage = $stage)
   and ($type::text is null or type = $type)
   and ($queue::text is null or queue = $queue)
 limit $count_max;

-- name: count_letters
-- By reason and stage, those among the newest.
select reason_code, stage, count(*)
  from (select * from holdfast.dead_letters
         where replayed_at is null and discarded_at is null
         order by dead_lettered_at desc, job_id desc, task_index desc limit $examined_max) as newest
 where ($type::text is null or type = $type)
   and ($reason_code::text is null or reason_code = $reason_code)
   and ($stage::text is null or stage = $stage)
   and ($queue::text is null or queue = $queue)
 group by reason_code, stage
 order by count(*) desc, reason_code, stage;

-- name: measure_letters
select count(*) from (
    select from holdfast.dead_letters
     where replayed_at is null and discarded_at is null limit $count_max) as counted;
