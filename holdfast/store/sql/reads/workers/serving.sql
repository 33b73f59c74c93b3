-- name: list_serving_workers
-- Who serves a queue, but for one that is supposed to be gone, and what each has in all for tasks that name
-- resources: by the book that its process shares with placed work, or by its own word; null if it takes all.
with clock as materialized (select holdfast.now() as now)
select serving.worker_id, serving.name, serving.host, called.book,
       case when serving.book is null then serving.claims_up_to::text
            else coalesce(called.capacity::text, '{}') end as capacity
  from clock
 cross join holdfast.workers as serving
  left join lateral (
      select other.book, other.capacity from holdfast.workers as other
       where other.book = serving.book and other.address is not null and other.lost_at is null
       limit 1) as called on true
 where $queue::text = any (serving.queues) and serving.lost_at is null and serving.draining_at is null
   and coalesce(serving.last_seen_at, serving.registered_at) > clock.now - $silent_after::interval
   and ($without::text is null or $without not in (serving.name, serving.worker_id))
 order by serving.worker_id limit $count_max;

-- name: list_taken
-- What leases take, of workers by their own word and of books. So many leases are looked at, whoever holds them:
-- those of claimed work are in no order of their workers. Claimed work that names nothing takes nothing.
with looked_at as materialized (
    select worker_id, job_id, book, placed from holdfast.leases limit $count_max
),
held as (
    select coalesce(looked_at.book, workers.book, looked_at.worker_id) as owner, looked_at.job_id,
           looked_at.placed, count(*)::int as leases
      from looked_at
      left join holdfast.workers on workers.worker_id = looked_at.worker_id and looked_at.placed
     where looked_at.worker_id = any ($worker_ids::text[])
        or coalesce(looked_at.book, workers.book) = any ($books::text[])
     group by 1, 2, 3
)
select held.owner, held.leases, (select count(*) from looked_at) < $count_max::int as is_whole,
       case when jsonb_typeof(jobs.spec -> 'resources') = 'object' then (jobs.spec -> 'resources')::text
            when held.placed then '{}' end as resources
  from held join holdfast.jobs using (job_id);
