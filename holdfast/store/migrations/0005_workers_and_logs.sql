-- What claimed work needs beside the ledger: output, checkpoints, and workers that are heard of.

-- The output of attempts, in stretches; sending one twice is harmless.
create table holdfast.logs (
    job_id bigint not null,
    task_index int not null,
    attempt int not null,
    start_offset bigint not null,
    content bytea not null,
    constraint a_stretch_of_a_log_is_stored_once primary key (job_id, task_index, attempt, start_offset),
    constraint a_log_starts_at_zero check (start_offset >= 0)
);

-- What the next attempt of a task finds of the last one.
create table holdfast.checkpoints (
    job_id bigint not null,
    task_index int not null,
    attempt int not null,
    saved_at timestamptz not null,
    checkpoint json not null,
    constraint one_checkpoint_per_task primary key (job_id, task_index)
);

alter table holdfast.workers
    add column last_seen_at timestamptz,
    add column draining_at timestamptz,
    add column draining_by text;

-- Few leases are asked to stop, and those are looked for twice a second; renewals touch none of these.
create index leases_asked_to_stop on holdfast.leases (worker_id)
    where ending or cancel_requested_at is not null;
