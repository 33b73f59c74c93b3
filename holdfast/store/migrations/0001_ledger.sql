-- The ledger: jobs, tasks, attempts, and one event per state change. What must never be true of a row is
-- refused here, by constraints whose names are sentences; what must never happen to one, in 0002_guards.

-- A test replaces this function to travel in time; nothing else in Holdfast asks for the time.
create function holdfast.now() returns timestamptz
    language sql volatile as 'select clock_timestamp()';

create type holdfast.event_type as enum (
    'submitted', 'started', 'claimed', 'placed', 'building', 'succeeded', 'failed', 'killed',
    'worker_failed', 'retried', 'unschedulable', 'dead_lettered',
    'cancel_requested', 'replayed', 'compensated'
);

-- Jobs ------------------------------------------------------------------------------------------

create table holdfast.jobs (
    job_id bigint primary key,
    name text not null,
    type text not null,
    owner text not null,
    queue text collate "C",
    priority int not null,
    spec jsonb not null,
    labels jsonb not null default '{}',
    parent_job_id bigint,
    replay_of bigint,
    correlation_id text not null,
    trace_id text,
    idempotency_key text,
    spec_digest bytea not null,
    -- Null while a large submission is still arriving in chunks: the job does not exist for anybody yet.
    submitted_at timestamptz,
    created_at timestamptz not null,

    state smallint not null default 1,
    started_at timestamptz,
    finished_at timestamptz,
    error text,
    exit_code int,
    cancel_mode text,
    cancel_reason text,

    fan_out boolean not null,
    max_task_failures int,
    num_tasks int not null,
    pending int not null,
    assigned int not null default 0,
    building int not null default 0,
    running int not null default 0,
    succeeded int not null default 0,
    failed int not null default 0,
    killed int not null default 0,
    worker_failed int not null default 0,
    unschedulable int not null default 0,
    dead_lettered int not null default 0,
    -- Of the killed ones, those that ran into their timeout: with inputs they count as failed.
    timed_out int not null default 0,

    -- The last event of the job's own stream, from which the trigger writes it.
    seq int not null default 0,
    event_type holdfast.event_type,
    event_at timestamptz,
    event_actor text,
    event_cause text,
    event_payload jsonb,

    constraint a_job_has_a_state_it_can_have check (state between 1 and 8 or state = 10),
    constraint a_job_has_at_least_one_task check (num_tasks > 0),
    constraint counts_are_not_negative check (
        least(pending, assigned, building, running, succeeded, failed, killed, worker_failed,
              unschedulable, dead_lettered, timed_out) >= 0 and timed_out <= killed),
    constraint counts_add_up_to_the_number_of_tasks check (
        pending + assigned + building + running + succeeded + failed + killed + worker_failed
        + unschedulable + dead_lettered = num_tasks),
    constraint a_job_is_finished_if_and_only_if_its_state_is_final check (
        (finished_at is not null) = (state between 4 and 8 or state = 10)),
    constraint a_cancel_is_soft_or_hard check (cancel_mode in ('soft', 'hard')),
    constraint every_stream_starts_at_zero check (seq >= 0)
) with (fillfactor = 70, autovacuum_analyze_threshold = 5000);

create unique index one_job_per_owner_and_idempotency_key on holdfast.jobs (owner, idempotency_key)
    where idempotency_key is not null;
create index jobs_by_correlation on holdfast.jobs (correlation_id);
create index jobs_by_parent on holdfast.jobs (parent_job_id) where parent_job_id is not null;
create index jobs_still_arriving on holdfast.jobs (created_at) where submitted_at is null;

-- Tasks, attempts, events: partitioned by ranges of job ids, so that retention drops whole ranges ----

create table holdfast.partitions (
    first_job_id bigint primary key,
    end_job_id bigint not null unique,
    created_at timestamptz not null default holdfast.now(),
    constraint a_partition_holds_at_least_one_job check (end_job_id > first_job_id)
);
create sequence holdfast.job_ids;
create sequence holdfast.event_ids;

create table holdfast.tasks (
    job_id bigint not null,
    task_index int not null,
    state smallint not null default 1,
    attempt int not null default 0,
    seq int not null default 0,
    failure_count int not null default 0,
    preemption_count int not null default 0,
    free_loss_count int not null default 0,
    placed boolean not null,
    eligible_at timestamptz not null,
    submitted_at timestamptz not null,
    -- Of the open attempt; kept with the attempt once it has ended.
    started_at timestamptz,
    finished_at timestamptz,
    -- Who moved the task last, when and why: the event's own words.
    moved_at timestamptz not null,
    actor text,
    cause text,
    input json,
    result json,
    primary key (job_id, task_index),
    constraint a_task_has_a_state_it_can_have check (state between 1 and 10),
    constraint a_task_index_is_not_negative check (task_index >= 0),
    constraint counters_are_not_negative check (
        least(attempt, seq, failure_count, preemption_count, free_loss_count) >= 0),
    constraint a_live_task_is_not_finished check (finished_at is null or state not in (1, 2, 3, 9)),
    constraint a_final_state_is_finished check (finished_at is not null or state not in (4, 8, 10))
) partition by range (job_id);

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
    constraint a_recorded_attempt_has_ended check (state in (4, 5, 6, 7)),
    constraint an_attempt_ends_after_it_began check (
        finished_at >= created_at and released_at >= finished_at)
) partition by range (job_id);

create table holdfast.events (
    id bigint not null default nextval('holdfast.event_ids'),
    job_id bigint not null,
    task_index int not null,
    seq int not null,
    attempt int not null,
    type holdfast.event_type not null,
    ts timestamptz not null,
    actor text,
    cause text,
    payload jsonb,
    -- Ids commit out of order; a reader that resumes goes by transaction (store/events.py).
    txid bigint not null,
    constraint one_event_per_transition unique (job_id, task_index, seq)
) partition by range (job_id);
create index events_by_time_and_transaction on holdfast.events using brin (ts, txid)
    with (pages_per_range = 32, autosummarize = on);

-- What waits, and what runs -----------------------------------------------------------------------

create table holdfast.ready (
    queue text collate "C" not null,
    urgency int not null,
    eligible_at timestamptz not null,
    job_id bigint not null,
    task_index int not null,
    unschedulable_at timestamptz,
    constraint a_task_is_ready_once primary key (queue, urgency, eligible_at, job_id, task_index)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_analyze_threshold = 20000);
create index ready_with_a_deadline on holdfast.ready (unschedulable_at) where unschedulable_at is not null;

create table holdfast.waiting (
    job_id bigint not null,
    task_index int not null,
    eligible_at timestamptz not null,
    constraint a_task_waits_once primary key (job_id, task_index)
);
create index waiting_by_eligibility on holdfast.waiting (eligible_at);

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
    constraint one_unreleased_attempt_per_task primary key (job_id, task_index),
    constraint a_lease_lasts_a_while check (duration > interval '0')
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_threshold = 20000);

-- Around them -------------------------------------------------------------------------------------

create table holdfast.workers (
    worker_id text primary key,
    name text not null,
    host text not null,
    queues text[] not null default '{}',
    registered_at timestamptz not null,
    lost_at timestamptz,
    lost_cause text,
    replaced_by text
);

create table holdfast.queues (
    queue text collate "C" primary key,
    paused_at timestamptz not null,
    paused_by text not null
);

create table holdfast.dead_letters (
    job_id bigint not null,
    task_index int not null,
    reason_code text not null,
    stage text,
    error_class text,
    last_error text,
    attempts int not null,
    last_owner text,
    last_lease_expires_at timestamptz,
    correlation_id text not null,
    type text not null,
    queue text collate "C",
    input json,
    dead_lettered_at timestamptz not null,
    replayed_at timestamptz,
    replayed_as bigint,
    discarded_at timestamptz,
    discarded_by text,
    constraint one_dead_letter_per_task primary key (job_id, task_index),
    constraint a_dead_letter_has_a_known_reason check (reason_code in (
        'exhausted_retries', 'validation_failed', 'parse_error', 'timeout', 'dependency_unavailable',
        'infrastructure_failure', 'policy_violation', 'compensation_failed')),
    constraint a_dead_letter_is_replayed_or_discarded_not_both check (
        replayed_at is null or discarded_at is null),
    constraint a_replay_names_its_job check ((replayed_at is null) = (replayed_as is null))
);
create index dead_letters_by_time on holdfast.dead_letters (dead_lettered_at);

create table holdfast.notes (
    id bigint generated always as identity primary key,
    job_id bigint not null,
    task_index int not null,
    attempt int not null,
    kind text not null,
    ts timestamptz not null,
    payload json,
    expires_at timestamptz not null
);
create index notes_of_a_task on holdfast.notes (job_id, task_index, id);
create index notes_by_expiry on holdfast.notes (expires_at);

create table holdfast.idempotency_keys (
    scope text not null,
    key text not null,
    request_digest bytea not null,
    created_at timestamptz not null,
    constraint one_use_of_a_key_per_scope primary key (scope, key)
);
create index idempotency_keys_by_age on holdfast.idempotency_keys (created_at);

-- What follows from a change, in transactions of its own; a row lives until its work is done.
create table holdfast.outbox (
    id bigint generated always as identity primary key,
    kind text not null,
    job_id bigint not null,
    next_index int not null default 0,
    created_at timestamptz not null,
    constraint an_outbox_row_has_a_known_kind check (kind in ('feed', 'sweep', 'job_ended'))
);

create table holdfast.reaper (
    one boolean primary key default true,
    last_pass_at timestamptz not null,
    outage_from timestamptz,
    outage_until timestamptz,
    constraint there_is_one_reaper_row check (one)
);
insert into holdfast.reaper (last_pass_at) values (holdfast.now());
