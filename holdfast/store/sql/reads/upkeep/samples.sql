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

-- name: read_type_times
select type, sum(attempts)::bigint, sum(failures)::bigint,
       array[sum(waits[1]), sum(waits[2]), sum(waits[3]), sum(waits[4]), sum(waits[5]), sum(waits[6]), sum(waits[7]),
             sum(waits[8]), sum(waits[9]), sum(waits[10]), sum(waits[11]), sum(waits[12]), sum(waits[13]),
             sum(waits[14]), sum(waits[15]), sum(waits[16]), sum(waits[17])]::bigint[],
       array[sum(runs[1]), sum(runs[2]), sum(runs[3]), sum(runs[4]), sum(runs[5]), sum(runs[6]), sum(runs[7]),
             sum(runs[8]), sum(runs[9]), sum(runs[10]), sum(runs[11]), sum(runs[12]), sum(runs[13]),
             sum(runs[14]), sum(runs[15]), sum(runs[16]), sum(runs[17])]::bigint[]
  from holdfast.type_samples
 where at >= $since::timestamptz and type = any ($types::text[])
 group by type;

-- name: read_type_samples
select type, sum(attempts)::bigint as attempts, sum(failures)::bigint as failures
  from holdfast.type_samples
 where at >= $since::timestamptz
 group by type having sum(failures) >= $failures_min::bigint
 order by failures desc, type limit $count_max;

-- name: read_worker_samples
select worker_id, sum(succeeded)::bigint, sum(failed)::bigint, sum(worker_failed)::bigint, sum(killed)::bigint
  from holdfast.worker_samples
 where at >= $since::timestamptz and ($worker_ids::text[] is null or worker_id = any ($worker_ids))
 group by worker_id;
