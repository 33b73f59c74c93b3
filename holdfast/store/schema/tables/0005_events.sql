-- What has happened: one event per change of state, notes on attempts, and their output.

create sequence holdfast.event_ids;

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
    -- Ids commit out of order; a reader that resumes goes by transaction.
    txid bigint not null,
    constraint one_event_per_transition unique (job_id, task_index, seq)
) partition by range (job_id);
create index events_by_time_and_transaction on holdfast.events using brin (ts, txid)
    with (pages_per_range = 32, autosummarize = on);

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
-- Jobs with verbose events have many notes; one reads those of a kind.
create index notes_of_a_kind on holdfast.notes (job_id, kind, ts, id);
create index notes_of_user_code on holdfast.notes (job_id, ts, id) where starts_with(kind, 'user:');

-- The output of attempts, in stretches; sending one twice is harmless.
create table holdfast.logs (
    job_id bigint not null,
    task_index int not null,
    attempt int not null,
    start_offset bigint not null,
    content bytea not null,
    stored_at timestamptz not null default holdfast.now(),
    constraint a_stretch_of_a_log_is_stored_once primary key (job_id, task_index, attempt, start_offset),
    constraint a_log_starts_at_zero check (start_offset >= 0)
);
create index logs_of_a_job_as_they_came on holdfast.logs (job_id, stored_at, task_index, attempt, start_offset);
