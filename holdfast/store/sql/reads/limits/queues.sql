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

-- name: count_placed
select count(*) from (select from holdfast.ready where queue = '' limit $count_max) as counted;

-- name: count_placed_of_jobs
select count(*)
  from (select from unnest($job_ids::bigint[]) as mine(job_id)
         cross join lateral (select from holdfast.ready
                              where ready.queue = '' and ready.job_id = mine.job_id limit $count_max) as line
         limit $count_max) as counted;

-- name: measure_ready
select pg_relation_size('holdfast.ready') / current_setting('block_size')::bigint;

-- name: sample_depths
-- A share of the pages, the same ones each time; all of them, if there are few.
select queue, count(*) from holdfast.ready tablesample system ($percent::real) repeatable (1) group by queue;

-- name: measure_waiting
select pg_relation_size('holdfast.waiting') / current_setting('block_size')::bigint;

-- name: sample_waiting_of_queues
-- A share of the pages, as above.
select jobs.queue, sum(tasks.count)::bigint
  from (select job_id, count(*) from holdfast.waiting tablesample system ($percent::real) repeatable (1)
         group by job_id) as tasks
  join holdfast.jobs using (job_id)
 where jobs.queue is not null
 group by jobs.queue;

-- name: count_waiting
-- Placed work has no queue, but may be all that is due first.
with due as materialized (
    select job_id from holdfast.waiting order by eligible_at limit $count_max
)
select jobs.queue, sum(tasks.count)::bigint, (select count(*) from due) = $count_max as is_cut
  from (select job_id, count(*) from due group by job_id) as tasks join holdfast.jobs using (job_id)
 group by jobs.queue;

-- name: count_running
-- And whether somebody holds some of it who never registered: who does that serves the queue all the same.
select jobs.queue, sum(tasks.count)::bigint, bool_or(tasks.has_stranger)
  from (select leases.job_id, count(*), bool_or(workers.worker_id is null) as has_stranger
          from holdfast.leases left join holdfast.workers using (worker_id)
         where not leases.ending group by leases.job_id) as tasks
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

-- name: read_condition
-- What stands between a queue's tasks and a worker.
with clock as materialized (select holdfast.now() as now)
select clock.now, (select paused_by from holdfast.queues where queue = $queue) as paused_by,
       array(select distinct workers.claims_up_to::text from holdfast.workers
              where $queue::text = any (queues) and lost_at is null and draining_at is null
                and coalesce(last_seen_at, registered_at) > clock.now - $silent_after::interval) as capacities
  from clock;

-- name: has_stranger
-- Whether somebody who never registered holds some of a queue's tasks.
select from holdfast.leases
  join holdfast.jobs using (job_id)
 where jobs.queue = $queue and not leases.ending
   and not exists (select from holdfast.workers where workers.worker_id = leases.worker_id)
 limit 1;

-- name: count_serving
select count(*) filter (where $worker::text in (name, worker_id)),
       count(*) filter (where $worker::text not in (name, worker_id))
  from holdfast.workers
 where $queue::text = any (queues) and lost_at is null
   and coalesce(last_seen_at, registered_at) > holdfast.now() - $silent_after::interval;

-- name: read_feeding
-- From which task on those of a job do not stand in line yet, and when the next ones will.
select next_index, due_at
  from (select job_id, next_index, due_at from holdfast.outbox
         where kind = 'feed' and job_id >= $job_id order by job_id limit 1) as following
 where job_id = $job_id;

-- name: count_ahead
select count(*) from (
    select from holdfast.ready
     where queue = $queue
       and (urgency, eligible_at, job_id, task_index)
           < ($urgency::int, $eligible_at::timestamptz, $job_id::bigint, $task_index::int)
     limit $count_max) as ahead;

-- name: count_workers_of_queues
-- And what they have for tasks that name resources: null where one of them takes whatever comes.
select served.queue, count(distinct workers.worker_id),
       array_agg(distinct workers.claims_up_to::text) as capacities
  from holdfast.workers cross join unnest(workers.queues) as served(queue)
 where workers.lost_at is null and workers.draining_at is null
   and coalesce(workers.last_seen_at, workers.registered_at) > $now::timestamptz - $silent_after::interval
 group by served.queue
 order by served.queue limit $count_max;

-- name: list_finishing_queues
-- Whether the sample is whole, and the queues of what ended for good in it.
with sample as materialized (
    select job_id, task_index, type from holdfast.events where ts > $since::timestamptz limit $count_max
),
finished as materialized (
    select distinct job_id from sample
     where task_index >= 0 and type in ('succeeded', 'failed', 'killed', 'worker_failed', 'unschedulable')
     limit $jobs_max
)
select (select count(*) from sample) < $count_max and (select count(*) from finished) < $jobs_max as is_whole,
       array(select distinct jobs.queue from finished join holdfast.jobs using (job_id)
              where jobs.queue is not null) as queues;

-- name: read_standing
-- Of placed tasks, those that stand in line, and whom each keeps away from.
select mine.task_index, line.avoid
  from unnest($task_indexes::int[]) as mine(task_index)
 cross join lateral (
       select ready.avoid from holdfast.ready
        where ready.queue = '' and ready.job_id = $job_id and ready.task_index = mine.task_index limit 1) as line;

-- name: count_jobs_in_line
-- From job to job by the index, no further than asked.
with recursive heads as (
    (select ready.job_id from holdfast.ready where ready.queue = '' order by ready.job_id limit 1)
    union all
    select following.job_id
      from heads cross join lateral (
           select ready.job_id from holdfast.ready
            where ready.queue = '' and ready.job_id > heads.job_id
            order by ready.job_id limit 1) as following
)
select count(*) from (select from heads limit $count_max) as counted;
