-- compatible with 23
-- Signals: what somebody outside sends to a task, and the waits of functions for them.

create table holdfast.signals (
    job_id bigint not null,
    task_index int not null,
    name text collate "C" not null,
    -- Of this name, from 1 on: they are taken in this order.
    number int not null,
    payload json not null,
    sent_at timestamptz not null,
    sent_by text not null,
    idempotency_key text,
    constraint a_signal_is_kept_once primary key (job_id, task_index, name, number),
    constraint a_signal_has_a_name check (length(name) between 1 and 200)
);
create unique index a_key_sends_one_signal on holdfast.signals (job_id, task_index, idempotency_key)
    where idempotency_key is not null;

-- The waits of a task's function, each with its answer for the attempts that follow. The n-th wait for a name is the
-- same one in every attempt.
create table holdfast.signal_waits (
    job_id bigint not null,
    task_index int not null,
    name text collate "C" not null,
    number int not null,
    -- The last attempt that has asked.
    attempt int not null,
    since timestamptz not null,
    until timestamptz,
    -- That attempt has ended to wait.
    parked_at timestamptz,
    ended_at timestamptz,
    -- The signal that has ended it; none: its time was over.
    signal_number int,
    constraint a_wait_is_asked_in_its_turn primary key (job_id, task_index, name, number),
    constraint a_signal_ends_one_wait unique (job_id, task_index, name, signal_number),
    constraint a_signal_ends_its_wait check (signal_number is null or ended_at is not null)
);
