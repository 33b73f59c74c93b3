-- name: add_session
insert into holdfast.sessions
       (secret_hash, csrf_hash, token_id, token_hash, subject, roles, owners, created_at, expires_at)
values ($secret_hash, $csrf_hash, $token_id, $token_hash, $subject, $roles, $owners, holdfast.now(),
        holdfast.now() + $lasts)
returning expires_at;

-- name: count_sessions
select count(*) from holdfast.sessions;

-- name: drop_past_sessions
delete from holdfast.sessions where expires_at <= holdfast.now()
returning secret_hash;

-- name: drop_oldest_sessions
-- Of one token or one subject, all but the newest.
delete from holdfast.sessions
 where secret_hash in (
       select secret_hash from holdfast.sessions
        where token_id = $token_id or subject = $subject
        order by created_at desc, secret_hash offset $kept)
returning secret_hash;

-- name: drop_session
delete from holdfast.sessions where secret_hash = $secret_hash
returning secret_hash;

-- name: read_living_sessions
select secret_hash, csrf_hash, token_id, token_hash, subject, roles, owners, expires_at
  from holdfast.sessions
 where expires_at > holdfast.now()
 order by secret_hash;
