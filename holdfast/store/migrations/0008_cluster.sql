-- Placed work: workers that the server calls, one leader among the servers, and what attempts on them use.

-- Who calls the workers and places tasks. An epoch is one term of one leader; it only grows.
create table holdfast.leadership (
    one boolean primary key default true,
    epoch bigint not null default 0,
    leader text,
    expires_at timestamptz not null default holdfast.now(),
    constraint there_is_one_leader check (one)
);
insert into holdfast.leadership default values;

-- A worker with an address is called. What it answered last, and when that was stored, is what its leases are
-- counted from; failures in a row are counted here and nowhere else.
alter table holdfast.workers
    add column address text,
    add column secret text,
    add column capacity jsonb,
    add column attributes jsonb not null default '{}',
    add column answered_epoch bigint,
    add column answered_number bigint,
    add column answered_at timestamptz,
    add column consecutive_failures int not null default 0,
    add column last_failure text,
    add constraint a_called_worker_has_a_secret_and_a_capacity check (
        (address is null) = (secret is null) and (address is null) = (capacity is null)),
    add constraint failures_are_counted_from_zero check (consecutive_failures >= 0);
create index workers_that_are_called on holdfast.workers (worker_id) where address is not null and lost_at is null;

-- Acknowledged: the worker has named the attempt in an answer, so its loss is no longer free.
alter table holdfast.leases
    add column placed boolean not null default false,
    add column acknowledged boolean not null default false,
    add column ports jsonb;
create index placed_leases_of_a_worker on holdfast.leases (worker_id) where placed;

-- The name of the worker that a retry should keep away from.
alter table holdfast.ready add column avoid text;
-- Which jobs wait to be placed, and how many of their tasks: read by the scheduler, a few per job.
create index ready_to_be_placed on holdfast.ready (job_id, task_index) include (eligible_at, avoid) where queue = '';

-- What a placed attempt was given and has used; for most attempts there is nothing to say here.
create table holdfast.attempt_usage (
    job_id bigint not null,
    task_index int not null,
    attempt int not null,
    ports jsonb,
    usage jsonb,
    build jsonb,
    constraint one_account_per_attempt primary key (job_id, task_index, attempt)
);

-- Addresses that running tasks have published; one that its attempt has outlived is not found any more.
create table holdfast.endpoints (
    name text collate "C" primary key,
    address text not null,
    job_id bigint not null,
    task_index int not null,
    attempt int not null,
    lease_token uuid not null,
    registered_at timestamptz not null,
    metadata jsonb
);
create index endpoints_of_a_job on holdfast.endpoints (job_id, task_index);
