-- Attempts: the open one of a task is its lease; one that has ended is written once, and released once.

create table holdfast.leases (
    job_id bigint not null,
    task_index int not null,
    attempt int not null,
    worker_id text not null,
    lease_token uuid not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    duration interval not null,
    run_timeout interval,
    run_deadline_at timestamptz,
    cancel_requested_at timestamptz,
    cancel_deadline_at timestamptz,
    cancel_reason text,
    -- Ended, but its process may still live: holds capacity and bars the next attempt until released.
    ending boolean not null default false,
    claim_key text,
    placed boolean not null default false,
    -- The worker has named the attempt in an answer, so its loss is no longer free.
    acknowledged boolean not null default false,
    ports jsonb,
    devices jsonb,
    constraint one_unreleased_attempt_per_task primary key (job_id, task_index),
    constraint a_lease_lasts_a_while check (duration > interval '0')
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_threshold = 20000);
-- Few leases are asked to stop, and those are looked for twice a second; renewals touch none of these.
create index leases_asked_to_stop on holdfast.leases (worker_id)
    where ending or cancel_requested_at is not null;
create index placed_leases_of_a_worker on holdfast.leases (worker_id) where placed;

create table holdfast.attempts (
    job_id bigint not null,
    task_index int not null,
    attempt int not null,
    worker_id text not null,
    state smallint not null,
    created_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz not null,
    released_at timestamptz,
    exit_code int,
    error text,
    error_class text,
    stage text,
    lease_token uuid not null,
    last_lease_expires_at timestamptz not null,
    -- Ended by its worker's own report, which is then answered the same way however often it comes.
    reported boolean not null,
    primary key (job_id, task_index, attempt),
    constraint a_recorded_attempt_has_ended check (state in ({OUTCOMES})),
    constraint an_attempt_ends_after_it_began check (
        finished_at >= created_at and released_at >= finished_at)
) partition by range (job_id);

-- What a placed attempt was given and has used; for most attempts there is nothing to say here.
create table holdfast.attempt_usage (
    job_id bigint not null,
    task_index int not null,
    attempt int not null,
    ports jsonb,
    devices jsonb,
    usage jsonb,
    build jsonb,
    -- The usage is that of the whole attempt, which has ended.
    is_final boolean not null default false,
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
