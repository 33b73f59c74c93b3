-- name: register_worker
insert into holdfast.workers (worker_id, name, host, queues, registered_at, address, secret, capacity, attributes)
values ($worker_id, $name, $host, $queues::text[], holdfast.now(), $address, $secret, $capacity::text::jsonb,
        $attributes::text::jsonb)
on conflict (worker_id) do nothing
returning worker_id;

-- name: find_worker
select worker_id, name, host, lost_at from holdfast.workers where worker_id = $worker_id;

-- name: find_secret
select secret from holdfast.workers where worker_id = $worker_id and address is not null;

-- name: mark_replaced
update holdfast.workers
   set lost_at = holdfast.now(), lost_cause = 'replaced by ' || $replaced_by::text, replaced_by = $replaced_by
 where worker_id = $worker_id and lost_at is null;

-- name: list_lost_workers
select worker_id from holdfast.workers
  join unnest($worker_ids::text[]) as wanted(worker_id) using (worker_id)
 where lost_at is not null;

-- name: see_workers
update holdfast.workers set last_seen_at = holdfast.now()
 where worker_id = any ($worker_ids::text[]) and lost_at is null;

-- name: drain_worker
update holdfast.workers
   set draining_at = coalesce(draining_at, holdfast.now()), draining_by = coalesce(draining_by, $actor)
 where worker_id = $worker_id and lost_at is null
returning worker_id;

-- name: list_draining
select worker_id from holdfast.workers
 where worker_id = any ($worker_ids::text[]) and draining_at is not null;

-- name: prune_workers
-- An incarnation that was lost, or has been silent for long, and holds nothing; the attempts keep its name.
delete from holdfast.workers where worker_id = any (array(
    select worker_id from holdfast.workers
     where coalesce(lost_at, last_seen_at, registered_at) < holdfast.now() - $older_than::interval
       and not exists (select from holdfast.leases where leases.worker_id = workers.worker_id)
     limit $batch_max))
returning 1;
