-- name: add_token
insert into holdfast.tokens (token_id, name, secret_hash, roles, owners, queues, created_at, created_by, expires_at)
values ($token_id, $name, $secret_hash, $roles, $owners, $queues, holdfast.now(), $created_by, $expires_at)
on conflict (name) where revoked_at is null do nothing
returning token_id;

-- name: count_living_tokens
select count(*) from holdfast.tokens
 where revoked_at is null and (expires_at is null or expires_at > holdfast.now());

-- name: list_tokens
select token_id, name, roles, owners, queues, created_at, created_by, expires_at, revoked_at, revoked_by, last_used_at
  from holdfast.tokens
 where revoked_at is null or $with_revoked
 order by name, created_at, token_id limit $batch_max;

-- name: read_living_tokens
-- What servers keep at hand; without the last use, so that two readings differ only if a token has changed.
select token_id, name, secret_hash,
       case when previous_until > holdfast.now() then previous_hash end,
       case when previous_until > holdfast.now() then previous_until end,
       roles, owners, queues, expires_at
  from holdfast.tokens
 where revoked_at is null and (expires_at is null or expires_at > holdfast.now())
 order by token_id;

-- name: rotate_token
update holdfast.tokens
   set previous_hash = case when $grace > interval '0' then secret_hash end,
       previous_until = case when $grace > interval '0' then holdfast.now() + $grace end,
       secret_hash = $secret_hash
 where (token_id = $token or name = $token) and revoked_at is null
   and (expires_at is null or expires_at > holdfast.now())
returning token_id, name;

-- name: revoke_token
update holdfast.tokens set revoked_at = holdfast.now(), revoked_by = $revoked_by
 where (token_id = $token or name = $token) and revoked_at is null
returning token_id, name;

-- name: note_tokens_used
update holdfast.tokens set last_used_at = greatest(last_used_at, holdfast.now())
 where token_id = any($token_ids)
returning token_id;
