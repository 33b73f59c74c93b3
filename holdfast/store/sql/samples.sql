-- name: add_samples
-- Once for each length of step; a second time within a step is added to the first.
with clock as materialized (select holdfast.now() as now)
insert into holdfast.samples as stored
       (step_seconds, at, server_id, seen_at, submitted, succeeded, failed, killed, worker_failed, unschedulable,
        dead_lettered, retried, waits, depth, running)
select step, date_bin(make_interval(secs => step), clock.now, timestamptz 'epoch'), $server_id, clock.now,
       $submitted::bigint, $succeeded::bigint, $failed::bigint, $killed::bigint, $worker_failed::bigint,
       $unschedulable::bigint, $dead_lettered::bigint, $retried::bigint, $waits::bigint[], $depth::bigint,
       $running::bigint
  from unnest($steps::int[]) as step cross join clock
    on conflict (step_seconds, at, server_id) do update
   set seen_at = excluded.seen_at,
       submitted = stored.submitted + excluded.submitted,
       succeeded = stored.succeeded + excluded.succeeded,
       failed = stored.failed + excluded.failed,
       killed = stored.killed + excluded.killed,
       worker_failed = stored.worker_failed + excluded.worker_failed,
       unschedulable = stored.unschedulable + excluded.unschedulable,
       dead_lettered = stored.dead_lettered + excluded.dead_lettered,
       retried = stored.retried + excluded.retried,
       waits = (select array_agg(sums.before + sums.added order by sums.position)
                  from unnest(stored.waits, excluded.waits) with ordinality as sums(before, added, position)),
       depth = excluded.depth,
       running = excluded.running;

-- name: add_type_samples
insert into holdfast.type_samples as stored (at, server_id, type, attempts, failures)
select minute, $server_id, mine.type, mine.attempts, mine.failures
  from unnest($types::text[], $attempts::bigint[], $failures::bigint[]) as mine(type, attempts, failures)
 cross join date_bin('1 minute', holdfast.now(), timestamptz 'epoch') as minute
    on conflict (at, server_id, type) do update
   set attempts = stored.attempts + excluded.attempts, failures = stored.failures + excluded.failures;

-- name: read_samples
-- The waits are added range by range: to unnest them would make a row of each.
select at, sum(submitted)::bigint as submitted, sum(succeeded)::bigint as succeeded, sum(failed)::bigint as failed,
       sum(killed)::bigint as killed, sum(worker_failed)::bigint as worker_failed,
       sum(unschedulable)::bigint as unschedulable, sum(dead_lettered)::bigint as dead_lettered,
       sum(retried)::bigint as retried,
       array[sum(waits[1]), sum(waits[2]), sum(waits[3]), sum(waits[4]), sum(waits[5]), sum(waits[6]), sum(waits[7]),
             sum(waits[8]), sum(waits[9]), sum(waits[10]), sum(waits[11]), sum(waits[12]), sum(waits[13]),
             sum(waits[14]), sum(waits[15]), sum(waits[16]), sum(waits[17])]::bigint[] as waits,
       (array_agg(depth order by seen_at desc))[1] as depth,
       (array_agg(running order by seen_at desc))[1] as running
  from holdfast.samples
 where step_seconds = $step_seconds::int and at >= $since::timestamptz
 group by at order by at limit $count_max;

-- name: read_type_samples
select type, sum(attempts)::bigint as attempts, sum(failures)::bigint as failures
  from holdfast.type_samples
 where at >= $since::timestamptz
 group by type having sum(failures) >= $failures_min::bigint
 order by failures desc, type limit $count_max;

-- name: prune_samples
-- Each length of step for as many steps as a chart may show, and some more.
delete from holdfast.samples where (step_seconds, at, server_id) in (
    select step_seconds, at, server_id from holdfast.samples
     where at < holdfast.now() - make_interval(secs => step_seconds) * $steps_kept::int
     limit $batch_max for update skip locked)
returning 1;

-- name: prune_type_samples
delete from holdfast.type_samples where (at, server_id, type) in (
    select at, server_id, type from holdfast.type_samples
     where at < holdfast.now() - $older_than::interval
     limit $batch_max for update skip locked)
returning 1;

-- name: count_pending
-- Up to a bound; how much more there is, a sample of the pages tells.
select (select count(*) from (select from holdfast.ready limit $count_max) as counted) as ready,
       (select count(*) from (select from holdfast.waiting limit $count_max) as counted) as waiting,
       pg_relation_size('holdfast.ready') / current_setting('block_size')::bigint as ready_pages,
       pg_relation_size('holdfast.waiting') / current_setting('block_size')::bigint as waiting_pages;

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

-- name: count_open_letters
select reason_code, count(*)
  from (select reason_code from holdfast.dead_letters
         where replayed_at is null and discarded_at is null
         order by job_id, task_index limit $count_max) as letters
 group by reason_code;

-- name: list_served_queues
select distinct served.queue
  from holdfast.workers cross join unnest(workers.queues) as served(queue)
 where workers.lost_at is null and workers.draining_at is null
   and coalesce(workers.last_seen_at, workers.registered_at) > $now::timestamptz - $silent_after::interval
 limit $count_max;

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

-- name: list_missing_workers
-- Read with the planner left alone: every worker and every lease is looked at once. Whoever left or was replaced is
-- not missed, unless it holds something.
with held as materialized (select worker_id, count(*) as leases from holdfast.leases group by worker_id)
select workers.worker_id, workers.lost_at is not null as is_lost, workers.lost_cause,
       coalesce(held.leases, 0) as leases
  from holdfast.workers left join held using (worker_id)
 where (workers.lost_at is not null
        or (workers.address is null
            and coalesce(workers.last_seen_at, workers.registered_at)
                <= $now::timestamptz - $silent_after::interval))
   and (held.leases > 0
        or (workers.lost_at > $now::timestamptz - $recent::interval and workers.replaced_by is null
            and workers.lost_cause is distinct from 'left'))
 order by leases desc, workers.worker_id limit $count_max;
