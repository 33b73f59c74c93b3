-- Dead letters: tasks that were given up, until somebody replays or discards them.

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
    input_edited boolean not null default false,
    discarded_at timestamptz,
    discarded_by text,
    constraint one_dead_letter_per_task primary key (job_id, task_index),
    constraint a_dead_letter_has_a_known_reason check (reason_code in (
        'exhausted_retries', 'validation_failed', 'parse_error', 'timeout', 'dependency_unavailable',
        'infrastructure_failure', 'policy_violation', 'compensation_failed')),
    constraint a_dead_letter_is_replayed_or_discarded_not_both check (
        replayed_at is null or discarded_at is null),
    constraint a_replay_names_its_job check ((replayed_at is null) = (replayed_as is null)),
    constraint an_input_is_edited_for_a_replay check (replayed_as is not null or not input_edited)
);
create index dead_letters_by_time on holdfast.dead_letters (dead_lettered_at);
create index open_dead_letters on holdfast.dead_letters (job_id, task_index)
    where replayed_at is null and discarded_at is null;
create index open_dead_letters_by_time on holdfast.dead_letters (dead_lettered_at, job_id, task_index)
    where replayed_at is null and discarded_at is null;
