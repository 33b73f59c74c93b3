-- name: list_workers
-- Read with the planner left alone: every worker and every lease is looked at once. Who is called is judged
-- by the heartbeats that failed in a row, the others by when they were heard of; both by what fails there.
with clock as materialized (select holdfast.now() as now),
held as materialized (select worker_id, count(*) as leases from holdfast.leases group by worker_id),
judged as (
    select workers.*, held.leases,
           case when workers.lost_at is not null then $lost::int
                when workers.consecutive_failures > 0
                then ($judged::int[])[least(workers.consecutive_failures + 1, cardinality($judged))]
                when workers.address is null and coalesce(workers.last_seen_at, workers.registered_at)
                     <= clock.now - $silent_after::interval then $silent::int
                when workers.worker_id = any ($failing_ids::text[]) then $failing::int
                else 0 end as illness
      from holdfast.workers cross join clock left join held using (worker_id)
     where $worker_id::text is null or workers.worker_id = $worker_id
)
select worker_id, name, host, queues, illness, registered_at, last_seen_at, lost_at, lost_cause, replaced_by,
       draining_at is not null as is_draining, coalesce(leases, 0) as leases, address, capacity::text,
       attributes::text, consecutive_failures, last_failure, answered_at, half.same_process, version, clock_skew_seconds
  from judged
  left join lateral (
      select other.worker_id as same_process from holdfast.workers as other
       where other.book = judged.book and (other.address is null) <> (judged.address is null)
       order by other.lost_at is null desc, other.registered_at desc limit 1) as half on judged.book is not null
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
 group by leases.worker_id, leases.job_id
union all
select workers.worker_id, leases.job_id, count(*)::int
  from unnest($worker_ids::text[]) as mine(worker_id)
  join holdfast.workers on workers.worker_id = mine.worker_id and workers.address is not null
  join holdfast.leases on leases.book = workers.book
 group by workers.worker_id, leases.job_id;

-- name: count_workers
with clock as materialized (select holdfast.now() as now)
select case when workers.lost_at is not null then $lost::int
            when workers.consecutive_failures > 0
            then ($judged::int[])[least(workers.consecutive_failures + 1, cardinality($judged))]
            when workers.address is null and coalesce(workers.last_seen_at, workers.registered_at)
                 <= clock.now - $silent_after::interval then $silent::int
            when workers.worker_id = any ($failing_ids::text[]) then $failing::int
            else 0 end as illness,
       count(*)
  from holdfast.workers cross join clock
 group by illness;

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

-- name: list_serving
select worker_id from holdfast.workers
 where worker_id = any ($worker_ids::text[]) and lost_at is null and draining_at is null;
