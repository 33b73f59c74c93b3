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
-- The counts of waits and of runs come as JSON: an array of arrays would lose where each ends.
insert into holdfast.type_samples as stored (at, server_id, type, attempts, failures, waits, runs)
select minute, $server_id, mine.type, mine.attempts, mine.failures,
       array(select jsonb_array_elements_text(mine.waits)::bigint),
       array(select jsonb_array_elements_text(mine.runs)::bigint)
  from unnest($types::text[], $attempts::bigint[], $failures::bigint[], $waits::text[]::jsonb[],
              $runs::text[]::jsonb[]) as mine(type, attempts, failures, waits, runs)
 cross join date_bin('1 minute', holdfast.now(), timestamptz 'epoch') as minute
    on conflict (at, server_id, type) do update
   set attempts = stored.attempts + excluded.attempts,
       failures = stored.failures + excluded.failures,
       waits = (select array_agg(sums.before + sums.added order by sums.position)
                  from unnest(stored.waits, excluded.waits) with ordinality as sums(before, added, position)),
       runs = (select array_agg(sums.before + sums.added order by sums.position)
                 from unnest(stored.runs, excluded.runs) with ordinality as sums(before, added, position));

-- name: add_worker_samples
insert into holdfast.worker_samples as stored
       (at, server_id, worker_id, succeeded, failed, worker_failed, killed)
select step, $server_id, mine.worker_id, mine.succeeded, mine.failed, mine.worker_failed, mine.killed
  from unnest($worker_ids::text[], $succeeded::bigint[], $failed::bigint[], $worker_failed::bigint[],
              $killed::bigint[]) as mine(worker_id, succeeded, failed, worker_failed, killed)
 cross join date_bin('5 minutes', holdfast.now(), timestamptz 'epoch') as step
    on conflict (at, server_id, worker_id) do update
   set succeeded = stored.succeeded + excluded.succeeded,
       failed = stored.failed + excluded.failed,
       worker_failed = stored.worker_failed + excluded.worker_failed,
       killed = stored.killed + excluded.killed;

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
     where at < (select holdfast.now() - $older_than::interval)
     limit $batch_max for update skip locked)
returning 1;

-- name: prune_worker_samples
delete from holdfast.worker_samples where (at, server_id, worker_id) in (
    select at, server_id, worker_id from holdfast.worker_samples
     where at < (select holdfast.now() - $older_than::interval)
     limit $batch_max for update skip locked)
returning 1;
