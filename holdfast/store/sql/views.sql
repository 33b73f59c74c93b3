-- name: walk_jobs
-- A list is read in two steps: ids in order, by an index alone, then those among them that are wanted.
select job_id from holdfast.jobs where job_id < $before_job_id order by job_id desc limit $count_max;

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
   and ($state::smallint is null or state = $state)
   and ($name::text is null or starts_with(name, $name))
   and ($type::text is null or type = $type)
   and ($owner::text is null or owner = $owner)
   and ($queue::text is null or queue = $queue)
   and ($parent_job_id::bigint is null or parent_job_id = $parent_job_id)
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

-- name: walk_tasks
select task_index from holdfast.tasks
 where job_id = $job_id and task_index > $after_index order by task_index limit $count_max;

-- name: walk_leased_tasks
select task_index from holdfast.leases
 where job_id = $job_id and task_index > $after_index order by task_index limit $count_max;

-- name: walk_dead_tasks
select task_index from holdfast.dead_letters
 where job_id = $job_id and task_index > $after_index order by task_index limit $count_max;

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

-- name: list_attempts
-- What an attempt was given is noted when it is placed, so that it can be read here from then on.
select attempt, worker_id, state, created_at, started_at, finished_at, released_at, exit_code, error,
       error_class, stage, is_worker_failure, last_lease_expires_at, account.ports, account.usage, account.build
  from holdfast.attempt_history as tried
  left join lateral (
      select used.ports::text, used.usage::text, used.build::text from holdfast.attempt_usage as used
       where used.job_id = tried.job_id and used.task_index = tried.task_index and used.attempt = tried.attempt
       limit 1) as account on true
 where job_id = $job_id and task_index = $task_index and attempt > $after_attempt
 order by attempt limit $count_max;

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

-- name: read_line
-- What stands between a queue's tasks and a worker.
with clock as materialized (select holdfast.now() as now)
select clock.now, (select paused_by from holdfast.queues where queue = $queue) as paused_by,
       exists (select from holdfast.workers
                where $queue::text = any (queues) and lost_at is null
                  and coalesce(last_seen_at, registered_at) > clock.now - $silent_after::interval) as is_served
  from clock;

-- name: count_ahead
select count(*) from (
    select from holdfast.ready
     where queue = $queue
       and (urgency, eligible_at, job_id, task_index)
           < ($urgency::int, $eligible_at::timestamptz, $job_id::bigint, $task_index::int)
     limit $count_max) as ahead;

-- name: list_events_of_job
with page as materialized (
    select * from holdfast.events
     where job_id = $job_id and (ts, id) > ($after_ts::timestamptz, $after_id::bigint)
       and ($type::text is null or type::text = $type)
     order by ts, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, page.seq, page.type::text, page.ts, page.actor,
       jobs.correlation_id, jobs.trace_id, page.cause, page.payload::text, 1 as version, page.txid
  from page join holdfast.jobs using (job_id)
 order by page.ts, page.id;

-- name: list_events_of_job_within
-- Those of a stretch of time. No index knows when the events of a job happened; of a very large one it is quicker to
-- look at what happened to all jobs then and to pick its own, up to a bound.
with near as materialized (
    select * from holdfast.events
     where ts >= $begin_ts::timestamptz and ts < $end_ts::timestamptz limit $examined_max
),
page as materialized (
    select * from near
     where job_id = $job_id and (ts, id) > ($after_ts::timestamptz, $after_id::bigint)
       and ($type::text is null or type::text = $type)
     order by ts, id limit $count_max
)
select (select count(*) from near) as examined,
       page.id, page.job_id, page.task_index, page.attempt, page.seq, page.type::text, page.ts, page.actor,
       job.correlation_id, job.trace_id, page.cause, page.payload::text, 1 as version, page.txid
  from (select correlation_id, trace_id from holdfast.jobs where job_id = $job_id) as job left join page on true
 order by page.ts, page.id;

-- name: list_events_of_task
with page as materialized (
    select * from holdfast.events
     where job_id = $job_id and task_index = $task_index
       and (ts, id) > ($after_ts::timestamptz, $after_id::bigint)
       and ($type::text is null or type::text = $type)
     order by ts, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, page.seq, page.type::text, page.ts, page.actor,
       jobs.correlation_id, jobs.trace_id, page.cause, page.payload::text, 1 as version, page.txid
  from page join holdfast.jobs using (job_id)
 order by page.ts, page.id;

-- name: list_notes
-- Notes of one kind, in the words of events.
with page as materialized (
    select * from holdfast.notes
     where job_id = $job_id and ($task_index::int is null or task_index = $task_index) and kind = $type
       and (ts, id) > ($after_ts::timestamptz, $after_id::bigint)
     order by ts, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, -1 as seq, page.kind, page.ts, null::text as actor,
       jobs.correlation_id, jobs.trace_id, null::text as cause, page.payload::text, 1 as version, 0 as txid
  from page join holdfast.jobs using (job_id)
 order by page.ts, page.id;

-- name: read_horizon
-- Transactions below it have all ended: what they wrote is all there is to read of them.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- name: read_events_between
-- The events of a stretch of transactions: without an end, all that follows would be sorted for a page.
with page as materialized (
    select * from holdfast.events
     where txid >= $txid::bigint and (txid, id) > ($txid::bigint, $id::bigint) and txid < $end_txid::bigint
     order by txid, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, page.seq, page.type::text, page.ts, page.actor,
       jobs.correlation_id, jobs.trace_id, page.cause, page.payload::text, 1 as version, page.txid
  from page join holdfast.jobs using (job_id)
 order by page.txid, page.id;

-- name: read_events_of_job_between
with page as materialized (
    select * from holdfast.events
     where job_id = $job_id and (txid, id) > ($txid::bigint, $id::bigint) and txid < $end_txid::bigint
     order by txid, id limit $count_max
)
select page.id, page.job_id, page.task_index, page.attempt, page.seq, page.type::text, page.ts, page.actor,
       jobs.correlation_id, jobs.trace_id, page.cause, page.payload::text, 1 as version, page.txid
  from page join holdfast.jobs using (job_id)
 order by page.txid, page.id;

-- name: list_changed_jobs
-- Which jobs have new events, and not what these say: whoever shows a job reads it again. A transaction that was open
-- for an hour leaves an hour of events to look at when it ends: hence the bound, and whether it was met.
with news as materialized (
    select job_id from holdfast.events where txid >= $first_txid::bigint and txid < $end_txid::bigint
     limit $events_max
)
select job_id, (select count(*) from news) >= $events_max as is_cut
  from (select distinct job_id from news limit $count_max) as changed;
