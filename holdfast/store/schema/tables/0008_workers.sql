-- Workers and queues, and who among the servers leads and reaps.

-- A worker with an address is called. What it answered last, and when that was stored, is what its leases are
-- counted from; failures in a row are counted here and nowhere else.
create table holdfast.workers (
    worker_id text primary key,
    name text not null,
    host text not null,
    queues text[] not null default '{}',
    registered_at timestamptz not null,
    lost_at timestamptz,
    lost_cause text,
    replaced_by text,
    last_seen_at timestamptz,
    draining_at timestamptz,
    draining_by text,
    address text,
    secret text,
    capacity jsonb,
    attributes jsonb not null default '{}',
    answered_epoch bigint,
    answered_number bigint,
    answered_at timestamptz,
    consecutive_failures int not null default 0,
    last_failure text,
    constraint a_called_worker_has_a_secret_and_a_capacity check (
        (address is null) = (secret is null) and (address is null) = (capacity is null)),
    constraint failures_are_counted_from_zero check (consecutive_failures >= 0)
);
create index workers_that_are_called on holdfast.workers (worker_id) where address is not null and lost_at is null;

create table holdfast.queues (
    queue text collate "C" primary key,
    paused_at timestamptz not null,
    paused_by text not null
);

-- Who calls the workers and places tasks. An epoch is one term of one leader; it only grows.
create table holdfast.leadership (
    one boolean primary key default true,
    epoch bigint not null default 0,
    leader text,
    expires_at timestamptz not null default holdfast.now(),
    constraint there_is_one_leader check (one)
);
insert into holdfast.leadership default values;

create table holdfast.reaper (
    one boolean primary key default true,
    last_pass_at timestamptz not null,
    outage_from timestamptz,
    outage_until timestamptz,
    constraint there_is_one_reaper_row check (one)
);
insert into holdfast.reaper (last_pass_at) values (holdfast.now());
