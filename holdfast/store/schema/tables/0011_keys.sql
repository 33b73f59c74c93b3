-- Requests that came under an idempotency key, and what they were answered.

create table holdfast.idempotency_keys (
    scope text not null,
    key text not null,
    request_digest bytea not null,
    created_at timestamptz not null,
    -- Claims have none, theirs is read anew.
    answer json,
    constraint one_use_of_a_key_per_scope primary key (scope, key)
);
create index idempotency_keys_by_age on holdfast.idempotency_keys (created_at);
