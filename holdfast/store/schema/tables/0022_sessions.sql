-- Who is logged in at the dashboard, by the SHA-256 of what the browser's cookie holds. A session of a token lives no
-- longer than the secret that it was opened with; what the token may is read from there. Of somebody whom an identity
-- provider knows, it holds what the provider said of him.

create table holdfast.sessions (
    secret_hash bytea primary key,
    -- Asked for beside the cookie by whatever changes something.
    csrf_hash bytea not null,
    token_id text collate "C" references holdfast.tokens,
    token_hash bytea,
    subject text collate "C",
    roles text[] not null default '{}',
    owners text[] not null default '{}',
    created_at timestamptz not null,
    expires_at timestamptz not null,
    constraint hashes_of_sessions_are_sha_256 check (
        octet_length(secret_hash) = 32 and octet_length(csrf_hash) = 32
        and coalesce(octet_length(token_hash), 32) = 32),
    constraint a_session_is_of_a_token_or_of_a_subject check (
        (token_id is null) = (token_hash is null) and (token_id is null) <> (subject is null)),
    constraint only_a_subject_has_roles_of_its_own check (subject is not null or (roles = '{}' and owners = '{}')),
    constraint a_session_has_known_roles check (roles <@ array['read', 'data', 'submit', 'worker', 'admin']),
    constraint a_session_ends_after_its_beginning check (expires_at > created_at)
);
create index sessions_of_a_token on holdfast.sessions (token_id, created_at) where token_id is not null;
create index sessions_of_a_subject on holdfast.sessions (subject, created_at) where subject is not null;
