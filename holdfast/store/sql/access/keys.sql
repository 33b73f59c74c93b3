-- name: take_key
-- A key that another transaction is using makes this one wait for it, and then find it taken.
insert into holdfast.idempotency_keys (scope, key, request_digest, created_at)
values ($scope, $key, $request_digest, holdfast.now())
on conflict (scope, key) do nothing
returning key;

-- name: take_keys
-- As take_key, for several keys, which come sorted.
insert into holdfast.idempotency_keys (scope, key, request_digest, created_at)
select scope, key, request_digest, holdfast.now()
  from unnest($scopes::text[], $keys::text[], $request_digests::bytea[]) as mine(scope, key, request_digest)
on conflict (scope, key) do nothing
returning scope, key;

-- name: find_key
select request_digest, answer::text from holdfast.idempotency_keys where scope = $scope and key = $key;

-- name: keep_answer
update holdfast.idempotency_keys set answer = $answer::text::json where scope = $scope and key = $key;

-- name: prune_keys
delete from holdfast.idempotency_keys where ctid = any (array(
    select ctid from holdfast.idempotency_keys
     where created_at < (select holdfast.now() - $older_than::interval) limit $batch_max))
returning 1;
