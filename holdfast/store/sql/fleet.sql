-- name: list_workers
-- Read with the planner left alone: every worker and every lease is looked at once. Who is called is judged
-- by the heartbeats that failed in a row, the others by when they were heard of.
with clock as materialized (select holdfast.now() as now),
held as materialized (select worker_id, count(*) as leases from holdfast.leases group by worker_id),
told as (
    select workers.*, held.leases,
           case when workers.lost_at is not null then $lost::int
                when workers.address is not null
                then ($judged::int[])[least(workers.consecutive_failures + 1, cardinality($judged))]
                when coalesce(workers.last_seen_at, workers.registered_at)
                     <= clock.now - $silent_after::interval then $silent::int
                else 0 end as illness
      from holdfast.workers cross join clock left join held using (worker_id)
     where $worker_id::text is null or workers.worker_id = $worker_id
)
select worker_id, name, host, queues, illness, registered_at, last_seen_at, lost_at, lost_cause, replaced_by,
       draining_at is not null as is_draining, coalesce(leases, 0) as leases, address, capacity::text,
       attributes::text, consecutive_failures, last_failure, answered_at
  from told
 where (illness, worker_id collate "C") > ($after_illness::int, $after_worker_id::text collate "C")
 order by illness, worker_id collate "C" limit $count_max;

-- name: list_held
-- Also what is ending: a worker is not rid of it before it is released.
select held.worker_id, held.job_id, held.task_index
  from (select leases.worker_id, leases.job_id, leases.task_index,
               row_number() over (partition by leases.worker_id order by leases.job_id, leases.task_index) as position
          from holdfast.leases where leases.worker_id = any ($worker_ids::text[])) as held
 where held.position <= $tasks_max
 order by held.worker_id, held.job_id, held.task_index;

-- name: list_booked_of_workers
select leases.worker_id, leases.job_id, count(*)::int as leases
  from unnest($worker_ids::text[]) as mine(worker_id)
  join holdfast.leases on leases.worker_id = mine.worker_id and leases.placed
 group by leases.worker_id, leases.job_id;

-- name: count_workers
with clock as materialized (select holdfast.now() as now)
select case when workers.lost_at is not null then $lost::int
            when workers.address is not null
            then ($judged::int[])[least(workers.consecutive_failures + 1, cardinality($judged))]
            when coalesce(workers.last_seen_at, workers.registered_at)
                 <= clock.now - $silent_after::interval then $silent::int
            else 0 end as illness,
       count(*)
  from holdfast.workers cross join clock
 group by illness;

-- name: count_leases
select count(*) filter (where not ending), count(*) filter (where ending) from holdfast.leases;

-- name: list_lines
-- From line to line, by queue and urgency, however many tasks stand in one; then counted up to a bound.
with recursive heads as (
    (select queue, urgency, eligible_at from holdfast.ready
      order by queue, urgency, eligible_at limit 1)
    union all
    select following.queue, following.urgency, following.eligible_at
      from heads cross join lateral (
           select ready.queue, ready.urgency, ready.eligible_at from holdfast.ready
            where (ready.queue, ready.urgency) > (heads.queue, heads.urgency)
            order by ready.queue, ready.urgency, ready.eligible_at limit 1) as following
),
lines as materialized (
    select queue, min(eligible_at) as oldest_at
      from (select queue, eligible_at from heads limit $lines_max) as known
     where queue <> '' group by queue
)
select lines.queue, lines.oldest_at,
       (select count(*) from (select from holdfast.ready
                               where ready.queue = lines.queue limit $count_max) as counted) as depth
  from lines;

-- name: measure_ready
select pg_relation_size('holdfast.ready') / current_setting('block_size')::bigint;

-- name: sample_depths
-- A share of the pages, the same ones each time; all of them, if there are few.
select queue, count(*) from holdfast.ready tablesample system ($percent::real) repeatable (1) group by queue;

-- name: count_waiting
with due as materialized (
    select job_id from holdfast.waiting order by eligible_at limit $count_max
)
select jobs.queue, sum(tasks.count)::bigint
  from (select job_id, count(*) from due group by job_id) as tasks join holdfast.jobs using (job_id)
 where jobs.queue is not null
 group by jobs.queue;

-- name: count_running
select jobs.queue, sum(tasks.count)::bigint
  from (select job_id, count(*) from holdfast.leases where not ending group by job_id) as tasks
  join holdfast.jobs using (job_id)
 where jobs.queue is not null
 group by jobs.queue;

-- name: list_paused
select queue, paused_by from holdfast.queues order by queue limit $count_max;

-- name: count_events_since
select count(*) from (select from holdfast.events where ts > $since::timestamptz limit $count_max) as counted;

-- name: count_finished
-- Where there are more than a sample, its first and last moment tell the pace.
with sample as materialized (
    select job_id, task_index, type, ts from holdfast.events
     where ts > $since::timestamptz limit $count_max
),
span as materialized (
    select case when count(*) < $count_max then holdfast.now() - $since else max(ts) - min(ts) end as length
      from sample
),
tasks as materialized (
    select job_id,
           count(*) filter (where type in ('succeeded', 'failed', 'killed', 'worker_failed', 'unschedulable'))
           - count(*) filter (where type = 'retried') as count
      from sample where task_index >= 0 group by job_id
)
select jobs.queue, sum(tasks.count)::float8 / greatest(extract(epoch from span.length), 1)::float8
  from tasks join holdfast.jobs using (job_id) cross join span
 where jobs.queue is not null
 group by jobs.queue, span.length;

-- name: walk_open_dead_letters
select job_id, task_index from holdfast.dead_letters
 where (job_id, task_index) > ($after_job_id::bigint, $after_task_index::int) and job_id <= $last_job_id
   and replayed_at is null and discarded_at is null
 order by job_id, task_index limit $count_max;

-- name: walk_dead_letters
select job_id, task_index from holdfast.dead_letters
 where (job_id, task_index) > ($after_job_id::bigint, $after_task_index::int) and job_id <= $last_job_id
 order by job_id, task_index limit $count_max;

-- name: read_dead_letters
select job_id, task_index, reason_code, stage, error_class, last_error, attempts, last_owner,
       last_lease_expires_at, correlation_id, type, queue, input::text, dead_lettered_at, replayed_at,
       replayed_as, discarded_at, discarded_by
  from unnest($job_ids::bigint[], $task_indexes::int[]) as walked(walked_job_id, walked_index)
 cross join lateral (
       select * from holdfast.dead_letters
        where job_id = walked_job_id and task_index = walked_index limit 1) as letter
 where ($reason_code::text is null or reason_code = $reason_code)
   and ($stage::text is null or stage = $stage)
   and ($type::text is null or type = $type)
   and ($queue::text is null or queue = $queue)
 order by job_id, task_index limit $count_max;
