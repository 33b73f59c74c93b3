-- Tasks, and where they stand in line. Tasks, attempts and events are partitioned by ranges of job ids, so that
-- retention drops whole ranges.

create table holdfast.partitions (
    first_job_id bigint primary key,
    end_job_id bigint not null unique,
    created_at timestamptz not null default holdfast.now(),
    -- Its jobs are being deleted, some at a time; its tables are dropped when none is left.
    retired_at timestamptz,
    constraint a_partition_holds_at_least_one_job check (end_job_id > first_job_id)
);

create table holdfast.tasks (
    job_id bigint not null,
    task_index int not null,
    state smallint not null default {PENDING},
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
    constraint a_task_has_a_state_it_can_have check (state between {PENDING} and {DEAD_LETTERED}),
    constraint a_task_index_is_not_negative check (task_index >= 0),
    constraint counters_are_not_negative check (
        least(attempt, seq, failure_count, preemption_count, free_loss_count) >= 0),
    constraint a_live_task_is_not_finished check (finished_at is null or state not in ({LIVE})),
    constraint a_final_state_is_finished check (
        finished_at is not null or state not in ({SUCCEEDED}, {UNSCHEDULABLE}, {DEAD_LETTERED}))
) partition by range (job_id);

-- What can be claimed or placed now.
create table holdfast.ready (
    queue text collate "C" not null,
    urgency int not null,
    eligible_at timestamptz not null,
    job_id bigint not null,
    task_index int not null,
    unschedulable_at timestamptz,
    -- The name of the worker that a retry should keep away from.
    avoid text,
    constraint a_task_is_ready_once primary key (queue, urgency, eligible_at, job_id, task_index)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_analyze_threshold = 20000);
create index ready_with_a_deadline on holdfast.ready (unschedulable_at) where unschedulable_at is not null;
-- Which jobs wait to be placed, and how many of their tasks: read by the scheduler, a few per job.
create index ready_to_be_placed on holdfast.ready (job_id, task_index) include (eligible_at, avoid) where queue = '';

-- What becomes claimable later.
create table holdfast.waiting (
    job_id bigint not null,
    task_index int not null,
    eligible_at timestamptz not null,
    constraint a_task_waits_once primary key (job_id, task_index)
);
create index waiting_by_eligibility on holdfast.waiting (eligible_at);

-- What the next attempt of a task finds of the last one.
create table holdfast.checkpoints (
    job_id bigint not null,
    task_index int not null,
    attempt int not null,
    saved_at timestamptz not null,
    checkpoint json not null,
    constraint one_checkpoint_per_task primary key (job_id, task_index)
);
