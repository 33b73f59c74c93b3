-- name: register_worker
insert into holdfast.workers (worker_id, name, host, queues, registered_at, address, secret_hash, capacity, attributes,
                              book, claims_up_to, token_id, version, clock_skew_seconds)
values ($worker_id, $name, $host, $queues::text[], holdfast.now(), $address, $secret_hash, $capacity::text::jsonb,
        $attributes::text::jsonb, $book, $claims_up_to::text::jsonb, $token_id, $version,
        extract(epoch from $clock::timestamptz - holdfast.now())::float8)
on conflict (worker_id) do nothing
returning worker_id;

-- name: find_worker
select workers.worker_id, workers.name, workers.host, workers.lost_at, workers.secret_hash,
       workers.address is not null as called,
       tokens.revoked_at is not null or coalesce(tokens.expires_at <= holdfast.now(), false) as void
  from holdfast.workers left join holdfast.tokens using (token_id)
 where workers.worker_id = $worker_id;

-- name: read_secret_hashes
-- Of those that have one. Void if the token that the worker joined with has ended.
select workers.worker_id, workers.secret_hash,
       tokens.revoked_at is not null or coalesce(tokens.expires_at <= holdfast.now(), false) as void
  from holdfast.workers left join holdfast.tokens using (token_id)
 where workers.worker_id = any ($worker_ids::text[]) and workers.secret_hash is not null;

-- name: lose_workers_of_ended_tokens
-- So that no server calls them any more; what they hold ends with its leases.
with ended as (
    select workers.worker_id, tokens.name from holdfast.workers join holdfast.tokens using (token_id)
     where workers.lost_at is null and (tokens.revoked_at is not null or tokens.expires_at <= holdfast.now())
     order by workers.worker_id
       for no key update of workers skip locked)
update holdfast.workers
   set lost_at = holdfast.now(), lost_cause = 'the token ' || ended.name || ', with which it joined, has ended'
  from ended where workers.worker_id = ended.worker_id
returning workers.worker_id;

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

-- name: hold_books
-- Whoever takes from a book holds the worker that is called, whose book it is; so does the scheduler. One that
-- somebody else takes from is passed over: who claims looks again, and others of its batch need not wait.
select book, capacity::text from holdfast.workers
 where book = any ($books::text[]) and address is not null and lost_at is null
 order by worker_id
   for no key update skip locked;

-- name: list_booked_of_books
-- As list_booked, of these books alone.
select leases.book, leases.job_id, count(*)::int as leases
  from holdfast.leases where leases.book = any ($books::text[])
 group by leases.book, leases.job_id
union all
select workers.book, leases.job_id, count(*)::int
  from holdfast.workers join holdfast.leases on leases.worker_id = workers.worker_id and leases.placed
 where workers.book = any ($books::text[])
 group by workers.book, leases.job_id;

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
