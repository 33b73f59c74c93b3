-- name: walk_tasks
select task_index from holdfast.tasks
 where job_id = $job_id and task_index > $after_index order by task_index limit $count_max;

-- name: walk_leased_tasks
select task_index from holdfast.leases
 where job_id = $job_id and task_index > $after_index order by task_index limit $count_max;

-- name: walk_dead_tasks
select task_index from holdfast.dead_letters
 where job_id = $job_id and task_index > $after_index order by task_index limit $count_max;

-- name: list_waiting_tasks
-- One task for each way in which those of a job may wait: to be placed, for a lease that is ending, for a time, for a
-- limit. And how many wait for one of the last two, up to a bound.
select (select task_index from holdfast.ready
         where queue = '' and job_id = $job_id order by job_id, task_index limit 1) as standing,
       (select task_index from holdfast.leases
         where job_id = $job_id and ending order by task_index limit 1) as ending,
       (select task_index from (select task_index, eligible_at from holdfast.waiting
                                 where job_id = $job_id limit $count_max) as first
         order by eligible_at limit 1) as later,
       (select task_index from holdfast.gated
         where job_id = $job_id and bucket_id is not null order by task_index limit 1) as gated,
       (select count(*) from (select from holdfast.waiting where job_id = $job_id limit $count_max) as counted)
           + (select count(*) from (select from holdfast.gated where job_id = $job_id and bucket_id is not null
                                     limit $count_max) as counted) as later_count;

-- name: read_tasks
with page as materialized (
    select task.job_id, task.task_index, task.state, task.attempt, task.failure_count,
           task.preemption_count,
           -- Of a job that waited for others: from its release on.
           greatest(task.eligible_at, (select released_at from holdfast.jobs where jobs.job_id = $job_id))
               as eligible_at,
           task.submitted_at, task.started_at, task.finished_at, task.cause
      from unnest($task_indexes::int[]) as walked(task_index)
     cross join lateral (
           select * from holdfast.tasks
            where tasks.job_id = $job_id and tasks.task_index = walked.task_index limit 1) as task
     where $state::smallint is null or task.state = $state
     order by task.task_index limit $count_max
)
select page.*, lease.attempt as lease_attempt, lease.worker_id as lease_worker_id,
       lease.expires_at as lease_expires_at, lease.duration as lease_duration,
       lease.ending as lease_is_ending, lease.cancel_deadline_at,
       last.attempt as last_attempt, last.worker_id as last_worker_id, last.started_at as last_started_at,
       last.exit_code, last.error, last.error_class,
       progress.attempt as progress_attempt, progress.payload as progress
  from page
  left join lateral (
      select leases.* from holdfast.leases
       where leases.job_id = page.job_id and leases.task_index = page.task_index limit 1) as lease on true
  left join lateral (
      select attempts.* from holdfast.attempts
       where attempts.job_id = page.job_id and attempts.task_index = page.task_index
       order by attempts.attempt desc limit 1) as last on true
  left join lateral (
      select notes.attempt, notes.payload::text from holdfast.notes
       where notes.job_id = page.job_id and notes.task_index = page.task_index and notes.kind = 'progress'
       order by notes.id desc limit 1) as progress on true
 order by page.task_index;

-- name: get_input
select tasks.input::text
  from holdfast.jobs join holdfast.tasks using (job_id)
 where jobs.job_id = $job_id and jobs.submitted_at is not null and tasks.task_index = $task_index;

-- name: list_results
select tasks.task_index, tasks.state, tasks.finished_at is not null as is_finished, tasks.result::text, tasks.cause,
       last.exit_code, last.error, last.error_class, jobs.spec -> 'entrypoint' ? 'pickle' as is_pickled,
       jobs.fan_out
  from holdfast.jobs
  join holdfast.tasks using (job_id)
  left join lateral (
      select attempts.* from holdfast.attempts
       where attempts.job_id = tasks.job_id and attempts.task_index = tasks.task_index
         and attempts.attempt = tasks.attempt limit 1) as last on true
 where jobs.job_id = $job_id and jobs.submitted_at is not null and tasks.task_index > $after_index
 order by tasks.task_index limit $count_max;

-- name: list_continued
-- The job, the one that it continues, and so on; what retention has taken is the end.
with recursive line(job_id, continues, distance) as (
    select jobs.job_id, earlier.continues, 0
      from holdfast.jobs
      left join lateral (
           select continues from holdfast.continuations where job_id = $job_id limit 1) as earlier on true
     where jobs.job_id = $job_id and jobs.submitted_at is not null
    union all
    select jobs.job_id, earlier.continues, line.distance + 1
      from line
      join holdfast.jobs on jobs.job_id = line.continues
      left join lateral (
           select continues from holdfast.continuations where job_id = line.continues limit 1) as earlier on true
     where line.distance < $count_max
)
select job_id, continues from line order by distance;

-- name: count_pending
-- Up to a bound; how much more there is, a sample of the pages tells.
select (select count(*) from (select from holdfast.ready limit $count_max) as counted) as ready,
       (select count(*) from (select from holdfast.waiting limit $count_max) as counted) as waiting,
       pg_relation_size('holdfast.ready') / current_setting('block_size')::bigint as ready_pages,
       pg_relation_size('holdfast.waiting') / current_setting('block_size')::bigint as waiting_pages;

-- name: count_parked
-- Of what comes later, or of so much of it, what waits for a signal; and how much was looked at. Each task is asked for
-- by its key.
select count(*) filter (where (
           select true from holdfast.signal_waits as waits
             join holdfast.tasks on tasks.job_id = waits.job_id and tasks.task_index = waits.task_index
            where waits.job_id = later.job_id and waits.task_index = later.task_index
              and waits.attempt = tasks.attempt - 1 and waits.parked_at is not null and waits.ended_at is null
            limit 1)),
       count(*)
  from (select job_id, task_index from holdfast.waiting limit $count_max) as later;

-- name: sample_ready
select count(*) from holdfast.ready tablesample system ($percent::real) repeatable (1);

-- name: sample_waiting
select count(*) from holdfast.waiting tablesample system ($percent::real) repeatable (1);

-- name: count_open_states
-- Tokens are random: the first of them are a fair sample.
with open as materialized (
    select job_id, task_index from holdfast.leases where not ending order by lease_token limit $count_max
)
select tasks.state, count(*)
  from open join holdfast.tasks on tasks.job_id = open.job_id and tasks.task_index = open.task_index
 group by tasks.state;
