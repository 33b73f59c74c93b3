-- Jobs, and what lists of them are read by. What must never be true of a row is refused by constraints whose names
-- are sentences; what must never happen to one, by triggers (../triggers).

create type holdfast.event_type as enum (
    'submitted', 'started', 'claimed', 'placed', 'building', 'succeeded', 'failed', 'killed',
    'worker_failed', 'retried', 'unschedulable', 'dead_lettered',
    'cancel_requested', 'replayed', 'compensated'
);
create sequence holdfast.job_ids;

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
    -- Of what came under the key, where it is not what is stored: a policy, a graph or a dataset has changed the spec.
    asked_hash bigint,
    -- Null while a large submission is still arriving in chunks: the job does not exist for anybody yet.
    submitted_at timestamptz,
    -- Given up while it was arriving: retention takes it away.
    abandoned_at timestamptz,
    created_at timestamptz not null,

    state smallint not null default {PENDING},
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

    -- The jobs of one graph were submitted in one call; it is named after the first of them.
    graph_id bigint,
    -- What this job undoes; the replay of a failed compensation undoes the same.
    compensates_job_id bigint,
    -- How many of its dependencies have not been met yet, and when the last of them was.
    unmet int not null default 0,
    released_at timestamptz,
    -- The span that submitted the job: its traceparent, and behind a space its tracestate if there is one.
    trace_parent text,

    constraint a_job_has_a_state_it_can_have check (
        state between {PENDING} and {DEAD_LETTERED} and state <> {ASSIGNED}),
    constraint a_job_has_at_least_one_task check (num_tasks > 0),
    constraint counts_are_not_negative check (
        least(pending, assigned, building, running, succeeded, failed, killed, worker_failed,
              unschedulable, dead_lettered, timed_out) >= 0 and timed_out <= killed),
    constraint counts_add_up_to_the_number_of_tasks check (
        pending + assigned + building + running + succeeded + failed + killed + worker_failed
        + unschedulable + dead_lettered = num_tasks),
    constraint a_job_is_finished_if_and_only_if_its_state_is_final check (
        (finished_at is not null) = (state in ({ENDED}))),
    constraint an_abandoned_submission_is_never_shown check (abandoned_at is null or submitted_at is null),
    constraint a_cancel_is_soft_or_hard check (cancel_mode in ('soft', 'hard')),
    constraint every_stream_starts_at_zero check (seq >= 0),
    constraint a_job_is_released_when_nothing_is_unmet
        check (unmet >= 0 and (released_at is null or unmet = 0)),
    constraint a_trace_parent_is_short check (length(trace_parent) <= 1024)
-- A job with one task has five versions in its short life. With room for them on its page, four of five updates
-- touch no index.
) with (fillfactor = 40, autovacuum_analyze_threshold = 5000);

-- No index has a column that a job's moves change, nor a condition on one: updates stay heap-only, and an index costs
-- its share of the submission alone. Texts are compared by their bytes: that is faster, and no update of the
-- system's locales can break the order.
create unique index one_job_per_owner_and_idempotency_key on holdfast.jobs (owner, idempotency_key)
    where idempotency_key is not null;
create index jobs_by_correlation on holdfast.jobs (correlation_id collate "C", job_id);
create index jobs_still_arriving on holdfast.jobs (created_at) where submitted_at is null;
create index jobs_by_type on holdfast.jobs (type collate "C", job_id);
create index jobs_by_owner on holdfast.jobs (owner collate "C", job_id);
create index jobs_by_queue on holdfast.jobs (queue, job_id) where queue is not null;
create index jobs_by_name on holdfast.jobs (name collate "C", job_id);
create index jobs_by_parent on holdfast.jobs (parent_job_id, job_id) where parent_job_id is not null;
create unique index a_job_is_compensated_by_one_other on holdfast.jobs (compensates_job_id)
    where compensates_job_id is not null and replay_of is null;
create index compensations_of_a_job on holdfast.jobs (compensates_job_id) where compensates_job_id is not null;
create index jobs_of_a_graph on holdfast.jobs (graph_id, job_id) where graph_id is not null;
-- A large job is seen long after its id was given out: whoever lists jobs by time looks for these apart.
create index jobs_that_arrive_in_chunks on holdfast.jobs (job_id) where num_tasks > 10000;

-- Labels, for jobs that have any: a GIN index knows which jobs carry one, but not in what order, and a
-- label of half a million jobs would be read whole for each page. Values may be long, so they are hashed.
create table holdfast.job_labels (
    label bigint not null,
    job_id bigint not null,
    constraint a_label_of_a_job_is_kept_once primary key (label, job_id)
);

-- Jobs by state, but for the many that succeeded. An index on the state itself would have every move of a job
-- touch all indexes of its table; a narrow table costs its own share alone.
create table holdfast.job_states (
    state smallint not null,
    job_id bigint not null,
    constraint a_job_is_listed_under_one_state primary key (state, job_id),
    constraint a_success_is_not_listed check (state <> {SUCCEEDED})
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_analyze_threshold = 20000);
