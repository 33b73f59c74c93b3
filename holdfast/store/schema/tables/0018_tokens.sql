-- The tokens by which callers are known. Of a secret only its SHA-256 is kept: it is 256 random bits, so that nobody
-- finds it by trying, and a slow hash would cost every server and hinder nobody.

create table holdfast.tokens (
    token_id text collate "C" primary key,
    name text collate "C" not null,
    secret_hash bytea not null,
    -- After a rotation: the one before, for as long as it may still be used.
    previous_hash bytea,
    previous_until timestamptz,
    roles text[] not null,
    -- Empty: of all owners, and of all queues.
    owners text[] not null default '{}',
    queues text[] not null default '{}',
    created_at timestamptz not null,
    created_by text not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by text,
    last_used_at timestamptz,
    constraint hashes_of_tokens_are_sha_256 check (
        octet_length(secret_hash) = 32 and coalesce(octet_length(previous_hash), 32) = 32),
    constraint a_token_has_a_known_role check (
        cardinality(roles) > 0 and roles <@ array['read', 'data', 'submit', 'worker', 'admin']),
    constraint the_hash_before_has_an_end check ((previous_hash is null) = (previous_until is null)),
    constraint a_token_is_revoked_by_somebody check ((revoked_at is null) = (revoked_by is null))
);
create unique index one_living_token_per_name on holdfast.tokens (name) where revoked_at is null;
