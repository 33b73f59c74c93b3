-- The ledger: jobs, tasks, attempts, and one event per state change.
--
-- What must never be true is refused here, by constraints and triggers whose names are sentences,
-- whoever the writer is. A trigger's rule stands in its WHEN clause where it can: that costs next to
-- nothing while the rule holds. Events are written by the triggers alone, so that no client can move a
-- task without its event, write an event without a move, or leave a gap in a stream.

-- A test replaces this function to travel in time; nothing else in Holdfast asks for the time.
create function holdfast.now() returns timestamptz
    language sql volatile as 'select clock_timestamp()';

create type holdfast.event_type as enum (
    'submitted', 'started', 'claimed', 'placed', 'building', 'succeeded', 'failed', 'killed',
    'worker_failed', 'retried', 'unschedulable', 'dead_lettered',
    'cancel_requested', 'replayed', 'compensated'
);

create function holdfast.refuse() returns trigger
    language plpgsql as $$
begin
    raise exception using
        errcode = 'integrity_constraint_violation',
        constraint = tg_name,
        message = format('%s on %I.%I refused: %s', tg_op, tg_table_schema, tg_table_name, replace(tg_name, '_', ' '));
end $$;

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
create index events_by_time on holdfast.events using brin (ts) with (pages_per_range = 32, autosummarize = on);
create index events_by_transaction on holdfast.events using brin (txid) with (pages_per_range = 32, autosummarize = on);

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

-- The guards --------------------------------------------------------------------------------------

-- The array is the table of legal moves of rules/lifecycle.py: for each state, a bit per successor.
create trigger a_task_only_moves_forward before update on holdfast.tasks for each row
    when (not (
        old.finished_at is null
        and (('{0,1856,232,240,0,1026,1024,1026,0,236,0}'::int[])[old.state + 1] >> new.state) & 1 = 1
        and new.attempt = old.attempt + (new.state = 1)::int
        and new.seq = old.seq + 1
        and new.failure_count >= old.failure_count
        and new.preemption_count >= old.preemption_count
        and new.moved_at >= old.moved_at
        and new.job_id = old.job_id and new.task_index = old.task_index))
    execute function holdfast.refuse();

create trigger a_task_is_born_pending before insert on holdfast.tasks for each row
    when (not (new.state = 1 and new.attempt = 0 and new.seq = 0 and new.failure_count = 0
               and new.preemption_count = 0 and new.free_loss_count = 0))
    execute function holdfast.refuse();

create function holdfast.refuse_unsettled_task() returns trigger
    language plpgsql as $$
begin
    if exists (select from holdfast.tasks
                where job_id = new.job_id and task_index = new.task_index
                  and state in (5, 6, 7) and finished_at is null) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('task %s.%s is neither finished nor retried', new.job_id, new.task_index);
    end if;
    return null;
end $$;
create constraint trigger an_ended_task_is_finished_or_retried after update on holdfast.tasks
    deferrable initially deferred for each row
    when (new.finished_at is null and new.state in (5, 6, 7))
    execute function holdfast.refuse_unsettled_task();

create function holdfast.write_task_events() returns trigger
    language plpgsql as $$
begin
    insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, actor, cause, payload, txid)
    select job_id, task_index, seq - 1, attempt,
           case when state = 9 and placed then 'placed'
                else ('{NULL,retried,building,started,succeeded,failed,killed,worker_failed,unschedulable,claimed,dead_lettered}'
                      ::holdfast.event_type[])[state + 1] end,
           moved_at, actor, cause,
           case when state = 1 then jsonb_build_object(
               'eligible_at', eligible_at, 'failure_count', failure_count,
               'preemption_count', preemption_count) end,
           txid_current()
      from moved;
    return null;
end $$;
create trigger every_move_is_an_event after update on holdfast.tasks
    referencing new table as moved for each statement execute function holdfast.write_task_events();

create function holdfast.refuse_delete_of_shown_task() returns trigger
    language plpgsql as $$
begin
    if exists (select from holdfast.jobs where job_id = old.job_id and submitted_at is not null) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('task %s.%s belongs to a submitted job', old.job_id, old.task_index);
    end if;
    return old;
end $$;
create trigger a_task_of_a_submitted_job_stays before delete on holdfast.tasks for each row
    execute function holdfast.refuse_delete_of_shown_task();

create trigger events_are_written_by_moves_alone before insert on holdfast.events for each row
    when (pg_trigger_depth() = 0) execute function holdfast.refuse();
create trigger an_event_never_changes before update or delete on holdfast.events for each row
    execute function holdfast.refuse();

create trigger an_ended_attempt_is_only_released before update on holdfast.attempts for each row
    when (old.released_at is not null or new.released_at is null
          or (old.job_id, old.task_index, old.attempt, old.worker_id, old.state, old.created_at,
              old.finished_at, old.lease_token, old.reported)
             is distinct from
             (new.job_id, new.task_index, new.attempt, new.worker_id, new.state, new.created_at,
              new.finished_at, new.lease_token, new.reported)
          or (old.started_at, old.exit_code, old.error, old.error_class, old.stage)
             is distinct from
             (new.started_at, new.exit_code, new.error, new.error_class, new.stage))
    execute function holdfast.refuse();
create trigger an_attempt_is_never_deleted before delete on holdfast.attempts for each row
    execute function holdfast.refuse();

create trigger a_lease_keeps_its_identity before update on holdfast.leases for each row
    when (new.job_id <> old.job_id or new.task_index <> old.task_index
          or new.attempt <> old.attempt or new.lease_token <> old.lease_token
          or new.created_at <> old.created_at or (old.ending and not new.ending))
    execute function holdfast.refuse();

create trigger a_job_only_moves_forward before update on holdfast.jobs for each row
    when (new.state <> old.state and (
              old.finished_at is not null or new.seq <> old.seq + 1 or new.submitted_at is null
              or not (new.state = 3 and old.state = 1 or new.finished_at is not null))
          or new.seq not in (old.seq, old.seq + 1)
          or new.seq = old.seq + 1 and new.event_type is distinct from
             case when new.submitted_at is distinct from old.submitted_at then 'submitted'
                  when new.state <> old.state
                  then ('{NULL,NULL,NULL,started,succeeded,failed,killed,worker_failed,unschedulable,NULL,dead_lettered}'
                        ::holdfast.event_type[])[new.state + 1]
                  when new.event_type in ('cancel_requested', 'replayed', 'compensated') then new.event_type end
          or new.seq = old.seq + 1 and new.event_at < old.event_at
          or old.finished_at is distinct from new.finished_at and old.finished_at is not null
          or old.submitted_at is distinct from new.submitted_at and old.submitted_at is not null
          or old.cancel_mode = 'hard' and new.cancel_mode is distinct from 'hard'
          or old.cancel_mode is not null and new.cancel_mode is null
          or new.job_id <> old.job_id or new.num_tasks <> old.num_tasks or new.spec <> old.spec)
    execute function holdfast.refuse();

create trigger a_job_is_born_pending before insert on holdfast.jobs for each row
    when (not (new.state = 1 and new.pending = new.num_tasks and new.cancel_mode is null
               and new.seq = (new.submitted_at is not null)::int))
    execute function holdfast.refuse();

create function holdfast.write_job_event() returns trigger
    language plpgsql as $$
begin
    insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, actor, cause, payload, txid)
    values (new.job_id, -1, new.seq - 1, -1, new.event_type, new.event_at, new.event_actor,
            new.event_cause, new.event_payload, txid_current());
    return null;
end $$;
create trigger a_submission_is_an_event after insert on holdfast.jobs for each row
    when (new.seq = 1) execute function holdfast.write_job_event();
create trigger every_job_event_is_written after update on holdfast.jobs for each row
    when (new.seq <> old.seq) execute function holdfast.write_job_event();

create function holdfast.refuse_delete_of_live_job() returns trigger
    language plpgsql as $$
begin
    if exists (select from holdfast.tasks where job_id = old.job_id) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('job %s still has tasks', old.job_id);
    end if;
    return old;
end $$;
create trigger a_job_goes_after_its_tasks before delete on holdfast.jobs for each row
    execute function holdfast.refuse_delete_of_live_job();

-- A statement that names a partition would pass the statement-level triggers of its parent by.
create function holdfast.add_partition(first_job_id bigint, end_job_id bigint) returns void
    language plpgsql as $$
declare
    parent text;
    options text;
begin
    insert into holdfast.partitions values (first_job_id, end_job_id);
    foreach parent in array array['tasks', 'attempts', 'events'] loop
        -- A partition that was analyzed while it held a handful of rows would be planned for a handful.
        options := format('with (fillfactor = %s, autovacuum_analyze_threshold = 5000)',
                          case parent when 'tasks' then 60 else 100 end);
        -- Made apart and then attached: creating it in place would wait for every reader of the parent.
        execute format('create table holdfast.%I (like holdfast.%I including defaults including constraints) %s',
                       parent || '_' || first_job_id, parent, options);
        execute format('alter table holdfast.%I attach partition holdfast.%I for values from (%s) to (%s)',
                       parent, parent || '_' || first_job_id, first_job_id, end_job_id);
        execute format('create trigger a_partition_is_written_through_its_parent '
                       'before insert or update or delete on holdfast.%I '
                       'for each statement execute function holdfast.refuse()',
                       parent || '_' || first_job_id);
    end loop;
end $$;

create function holdfast.drop_partition(first bigint) returns void
    language plpgsql as $$
declare
    parent text;
begin
    delete from holdfast.partitions where first_job_id = first;
    foreach parent in array array['tasks', 'attempts', 'events'] loop
        execute format('drop table holdfast.%I', parent || '_' || first);
    end loop;
end $$;

select holdfast.add_partition(1, 10001);

-- Views: what people read -------------------------------------------------------------------------

create view holdfast.attempt_history as
select job_id, task_index, attempt, worker_id, state, created_at, started_at, finished_at, released_at,
       exit_code, error, error_class, stage, state = 7 as is_worker_failure, last_lease_expires_at
  from holdfast.attempts
union all
select leases.job_id, leases.task_index, leases.attempt, leases.worker_id, tasks.state,
       leases.created_at, tasks.started_at, null, null, null, null, null, null, false, leases.expires_at
  from holdfast.leases join holdfast.tasks using (job_id, task_index)
 where not leases.ending;

create view holdfast.event_log as
select events.id, events.job_id, events.task_index, events.attempt, events.seq, events.type, events.ts,
       events.actor, jobs.correlation_id, jobs.trace_id, events.cause, events.payload, 1 as version,
       events.txid
  from holdfast.events join holdfast.jobs using (job_id);
