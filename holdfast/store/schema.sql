-- The whole schema as Postgres has it, to be read; `holdfast db migrate` makes it from schema/.
-- Written by `./run schema`; a test compares it with what a new database has.

create type holdfast.event_type as enum (
    'submitted',
    'started',
    'claimed',
    'placed',
    'building',
    'succeeded',
    'failed',
    'killed',
    'worker_failed',
    'retried',
    'unschedulable',
    'dead_lettered',
    'cancel_requested',
    'replayed',
    'compensated'
);

create sequence holdfast.job_ids;

create sequence holdfast.event_ids;

create table holdfast.schema_versions (
    version integer not null,
    name text not null,
    checksum text not null,
    applied_at timestamp with time zone not null default clock_timestamp(),
    constraint schema_versions_pkey PRIMARY KEY (version)
);

create table holdfast.schema_definitions (
    name text not null,
    checksum text not null,
    applied_at timestamp with time zone not null default clock_timestamp(),
    constraint schema_definitions_pkey PRIMARY KEY (name)
);

create table holdfast.jobs (
    job_id bigint not null,
    name text not null,
    type text not null,
    owner text not null,
    queue text collate "C",
    priority integer not null,
    spec jsonb not null,
    labels jsonb not null default '{}'::jsonb,
    parent_job_id bigint,
    replay_of bigint,
    correlation_id text not null,
    trace_id text,
    idempotency_key text,
    asked_hash bigint,
    submitted_at timestamp with time zone,
    abandoned_at timestamp with time zone,
    created_at timestamp with time zone not null,
    state smallint not null default 1,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    error text,
    exit_code integer,
    cancel_mode text,
    cancel_reason text,
    fan_out boolean not null,
    max_task_failures integer,
    num_tasks integer not null,
    pending integer not null,
    assigned integer not null default 0,
    building integer not null default 0,
    running integer not null default 0,
    succeeded integer not null default 0,
    failed integer not null default 0,
    killed integer not null default 0,
    worker_failed integer not null default 0,
    unschedulable integer not null default 0,
    dead_lettered integer not null default 0,
    timed_out integer not null default 0,
    seq integer not null default 0,
    event_type holdfast.event_type,
    event_at timestamp with time zone,
    event_actor text,
    event_cause text,
    event_payload jsonb,
    graph_id bigint,
    compensates_job_id bigint,
    unmet integer not null default 0,
    released_at timestamp with time zone,
    trace_parent text,
    constraint jobs_pkey PRIMARY KEY (job_id),
    constraint a_job_has_a_state_it_can_have CHECK (state >= 1 AND state <= 10 AND state <> 9),
    constraint a_job_has_at_least_one_task CHECK (num_tasks > 0),
    constraint counts_are_not_negative CHECK (LEAST(pending, assigned, building, running, succeeded, failed, killed, worker_failed, unschedulable, dead_lettered, timed_out) >= 0 AND timed_out <= killed),
    constraint counts_add_up_to_the_number_of_tasks CHECK ((pending + assigned + building + running + succeeded + failed + killed + worker_failed + unschedulable + dead_lettered) = num_tasks),
    constraint a_job_is_finished_if_and_only_if_its_state_is_final CHECK ((finished_at IS NOT NULL) = (state = ANY (ARRAY[4, 5, 6, 7, 8, 10]))),
    constraint an_abandoned_submission_is_never_shown CHECK (abandoned_at IS NULL OR submitted_at IS NULL),
    constraint a_cancel_is_soft_or_hard CHECK (cancel_mode = ANY (ARRAY['soft'::text, 'hard'::text])),
    constraint every_stream_starts_at_zero CHECK (seq >= 0),
    constraint a_job_is_released_when_nothing_is_unmet CHECK (unmet >= 0 AND (released_at IS NULL OR unmet = 0)),
    constraint a_trace_parent_is_short CHECK (length(trace_parent) <= 1024)
)
with (autovacuum_analyze_threshold=5000, fillfactor=40);
CREATE UNIQUE INDEX one_job_per_owner_and_idempotency_key ON holdfast.jobs USING btree (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_by_correlation ON holdfast.jobs USING btree (correlation_id COLLATE "C", job_id);
CREATE INDEX jobs_still_arriving ON holdfast.jobs USING btree (created_at) WHERE submitted_at IS NULL;
CREATE INDEX jobs_by_type ON holdfast.jobs USING btree (type COLLATE "C", job_id);
CREATE INDEX jobs_by_owner ON holdfast.jobs USING btree (owner COLLATE "C", job_id);
CREATE INDEX jobs_by_queue ON holdfast.jobs USING btree (queue, job_id) WHERE queue IS NOT NULL;
CREATE INDEX jobs_by_name ON holdfast.jobs USING btree (name COLLATE "C", job_id);
CREATE INDEX jobs_by_parent ON holdfast.jobs USING btree (parent_job_id, job_id) WHERE parent_job_id IS NOT NULL;
CREATE UNIQUE INDEX a_job_is_compensated_by_one_other ON holdfast.jobs USING btree (compensates_job_id) WHERE compensates_job_id IS NOT NULL AND replay_of IS NULL;
CREATE INDEX compensations_of_a_job ON holdfast.jobs USING btree (compensates_job_id) WHERE compensates_job_id IS NOT NULL;
CREATE INDEX jobs_of_a_graph ON holdfast.jobs USING btree (graph_id, job_id) WHERE graph_id IS NOT NULL;
CREATE INDEX jobs_that_arrive_in_chunks ON holdfast.jobs USING btree (job_id) WHERE num_tasks > 10000;
CREATE TRIGGER a_job_goes_after_its_tasks BEFORE DELETE ON holdfast.jobs FOR EACH ROW EXECUTE FUNCTION holdfast.refuse_delete_of_live_job();
CREATE TRIGGER a_job_has_a_trace BEFORE INSERT ON holdfast.jobs FOR EACH ROW WHEN (new.trace_id IS NULL) EXECUTE FUNCTION holdfast.name_trace();
CREATE TRIGGER a_job_is_born_pending BEFORE INSERT ON holdfast.jobs FOR EACH ROW WHEN (NOT (new.state = 1 AND new.pending = new.num_tasks AND new.cancel_mode IS NULL AND new.seq = (new.submitted_at IS NOT NULL)::integer)) EXECUTE FUNCTION holdfast.refuse();
CREATE TRIGGER a_job_only_moves_forward BEFORE UPDATE ON holdfast.jobs FOR EACH ROW WHEN (new.state <> old.state AND (old.finished_at IS NOT NULL OR new.seq <> (old.seq + 1) OR new.submitted_at IS NULL OR NOT (new.state = 3 AND old.state = 1 OR new.finished_at IS NOT NULL)) OR new.seq <> old.seq AND new.seq <> (old.seq + 1) OR new.seq = (old.seq + 1) AND new.event_type IS DISTINCT FROM
        CASE
            WHEN new.submitted_at IS DISTINCT FROM old.submitted_at THEN 'submitted'::holdfast.event_type
            WHEN new.state <> old.state THEN
            CASE new.state
                WHEN 3 THEN 'started'::holdfast.event_type
                WHEN 4 THEN 'succeeded'::holdfast.event_type
                WHEN 5 THEN 'failed'::holdfast.event_type
                WHEN 6 THEN 'killed'::holdfast.event_type
                WHEN 7 THEN 'worker_failed'::holdfast.event_type
                WHEN 8 THEN 'unschedulable'::holdfast.event_type
                WHEN 10 THEN 'dead_lettered'::holdfast.event_type
                ELSE NULL::holdfast.event_type
            END
            WHEN new.event_type = ANY (ARRAY['cancel_requested'::holdfast.event_type, 'replayed'::holdfast.event_type, 'compensated'::holdfast.event_type]) THEN new.event_type
            ELSE NULL::holdfast.event_type
        END OR new.seq = (old.seq + 1) AND new.event_at < old.event_at OR old.finished_at IS DISTINCT FROM new.finished_at AND old.finished_at IS NOT NULL OR old.submitted_at IS DISTINCT FROM new.submitted_at AND old.submitted_at IS NOT NULL OR old.cancel_mode = 'hard'::text AND new.cancel_mode IS DISTINCT FROM 'hard'::text OR old.cancel_mode IS NOT NULL AND new.cancel_mode IS NULL OR new.job_id <> old.job_id OR new.num_tasks <> old.num_tasks OR new.spec <> old.spec) EXECUTE FUNCTION holdfast.refuse();
CREATE TRIGGER a_job_starts_after_what_it_depends_on BEFORE UPDATE ON holdfast.jobs FOR EACH ROW WHEN (new.unmet > 0 AND (new.started_at IS NOT NULL OR (new.assigned + new.building + new.running) > 0) OR new.unmet > old.unmet OR old.released_at IS NOT NULL AND new.released_at IS DISTINCT FROM old.released_at OR old.submitted_at IS NOT NULL AND (old.graph_id IS DISTINCT FROM new.graph_id OR old.compensates_job_id IS DISTINCT FROM new.compensates_job_id)) EXECUTE FUNCTION holdfast.refuse();
CREATE TRIGGER a_listed_state_goes_with_its_job AFTER DELETE ON holdfast.jobs FOR EACH ROW WHEN (old.state <> 4 AND old.submitted_at IS NOT NULL) EXECUTE FUNCTION holdfast.forget_job_state();
CREATE TRIGGER a_submission_is_an_event AFTER INSERT ON holdfast.jobs REFERENCING NEW TABLE AS stored FOR EACH STATEMENT EXECUTE FUNCTION holdfast.write_submissions();
CREATE TRIGGER every_job_event_is_written AFTER UPDATE ON holdfast.jobs FOR EACH ROW WHEN (new.seq <> old.seq) EXECUTE FUNCTION holdfast.write_job_event();
CREATE TRIGGER labels_are_kept_with_their_job AFTER INSERT ON holdfast.jobs FOR EACH ROW WHEN (new.labels <> '{}'::jsonb) EXECUTE FUNCTION holdfast.keep_labels();
CREATE TRIGGER labels_go_with_their_job AFTER DELETE ON holdfast.jobs FOR EACH ROW WHEN (old.labels <> '{}'::jsonb) EXECUTE FUNCTION holdfast.drop_labels();

create table holdfast.job_labels (
    label bigint not null,
    job_id bigint not null,
    constraint a_label_of_a_job_is_kept_once PRIMARY KEY (label, job_id)
);

create table holdfast.job_states (
    state smallint not null,
    job_id bigint not null,
    constraint a_job_is_listed_under_one_state PRIMARY KEY (state, job_id),
    constraint a_success_is_not_listed CHECK (state <> 4)
)
with (autovacuum_analyze_threshold=20000, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=20000, fillfactor=90);

create table holdfast.partitions (
    first_job_id bigint not null,
    end_job_id bigint not null,
    created_at timestamp with time zone not null default holdfast.now(),
    retired_at timestamp with time zone,
    constraint partitions_pkey PRIMARY KEY (first_job_id),
    constraint partitions_end_job_id_key UNIQUE (end_job_id),
    constraint a_partition_holds_at_least_one_job CHECK (end_job_id > first_job_id)
);

create table holdfast.tasks (
    job_id bigint not null,
    task_index integer not null,
    state smallint not null default 1,
    attempt integer not null default 0,
    seq integer not null default 0,
    failure_count integer not null default 0,
    preemption_count integer not null default 0,
    free_loss_count integer not null default 0,
    placed boolean not null,
    eligible_at timestamp with time zone not null,
    submitted_at timestamp with time zone not null,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    moved_at timestamp with time zone not null,
    actor text,
    cause text,
    input json,
    result json,
    constraint tasks_pkey PRIMARY KEY (job_id, task_index),
    constraint a_task_has_a_state_it_can_have CHECK (state >= 1 AND state <= 10),
    constraint a_task_index_is_not_negative CHECK (task_index >= 0),
    constraint counters_are_not_negative CHECK (LEAST(attempt, seq, failure_count, preemption_count, free_loss_count) >= 0),
    constraint a_live_task_is_not_finished CHECK (finished_at IS NULL OR (state <> ALL (ARRAY[1, 2, 3, 9]))),
    constraint a_final_state_is_finished CHECK (finished_at IS NOT NULL OR (state <> ALL (ARRAY[4, 8, 10])))
)
partition by RANGE (job_id);
CREATE TRIGGER a_task_is_born_pending BEFORE INSERT ON holdfast.tasks FOR EACH ROW WHEN (NOT (new.state = 1 AND new.attempt = 0 AND new.seq = 0 AND new.failure_count = 0 AND new.preemption_count = 0 AND new.free_loss_count = 0)) EXECUTE FUNCTION holdfast.refuse();
CREATE TRIGGER a_task_of_a_submitted_job_stays BEFORE DELETE ON holdfast.tasks FOR EACH ROW EXECUTE FUNCTION holdfast.refuse_delete_of_shown_task();
CREATE TRIGGER a_task_only_moves_forward BEFORE UPDATE ON holdfast.tasks FOR EACH ROW WHEN (NOT (old.finished_at IS NULL AND ((('{0,1856,232,240,0,1026,1024,1026,0,236,0}'::integer[])[old.state + 1] >> new.state::integer) & 1) = 1 AND new.attempt = (old.attempt + (new.state = 1)::integer) AND new.seq = (old.seq + 1) AND new.failure_count >= old.failure_count AND new.preemption_count >= old.preemption_count AND new.moved_at >= old.moved_at AND new.job_id = old.job_id AND new.task_index = old.task_index)) EXECUTE FUNCTION holdfast.refuse();
CREATE CONSTRAINT TRIGGER an_ended_task_is_finished_or_retried AFTER UPDATE ON holdfast.tasks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.finished_at IS NULL AND (new.state = ANY (ARRAY[5, 6, 7]))) EXECUTE FUNCTION holdfast.refuse_task_left_ended();
CREATE TRIGGER every_move_is_an_event AFTER UPDATE ON holdfast.tasks REFERENCING NEW TABLE AS moved FOR EACH STATEMENT EXECUTE FUNCTION holdfast.write_task_events();

create table holdfast.ready (
    queue text collate "C" not null,
    urgency integer not null,
    eligible_at timestamp with time zone not null,
    job_id bigint not null,
    task_index integer not null,
    unschedulable_at timestamp with time zone,
    avoid text,
    constraint a_task_is_ready_once PRIMARY KEY (queue, urgency, eligible_at, job_id, task_index)
)
with (autovacuum_analyze_threshold=20000, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=20000);
CREATE INDEX ready_with_a_deadline ON holdfast.ready USING btree (unschedulable_at) WHERE unschedulable_at IS NOT NULL;
CREATE INDEX ready_to_be_placed ON holdfast.ready USING btree (job_id, task_index) INCLUDE (eligible_at, avoid) WHERE queue = ''::text;

create table holdfast.waiting (
    job_id bigint not null,
    task_index integer not null,
    eligible_at timestamp with time zone not null,
    constraint a_task_waits_once PRIMARY KEY (job_id, task_index)
);
CREATE INDEX waiting_by_eligibility ON holdfast.waiting USING btree (eligible_at);

create table holdfast.checkpoints (
    job_id bigint not null,
    task_index integer not null,
    attempt integer not null,
    saved_at timestamp with time zone not null,
    checkpoint json not null,
    constraint one_checkpoint_per_task PRIMARY KEY (job_id, task_index)
);

create table holdfast.leases (
    job_id bigint not null,
    task_index integer not null,
    attempt integer not null,
    worker_id text not null,
    lease_token uuid not null,
    created_at timestamp with time zone not null,
    expires_at timestamp with time zone not null,
    duration interval not null,
    run_timeout interval,
    run_deadline_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    cancel_deadline_at timestamp with time zone,
    cancel_reason text,
    ending boolean not null default false,
    claim_key text,
    placed boolean not null default false,
    acknowledged boolean not null default false,
    ports jsonb,
    devices jsonb,
    book text,
    constraint one_unreleased_attempt_per_task PRIMARY KEY (job_id, task_index),
    constraint a_lease_lasts_a_while CHECK (duration > '00:00:00'::interval)
)
with (autovacuum_analyze_threshold=20000, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, fillfactor=60);
CREATE INDEX leases_asked_to_stop ON holdfast.leases USING btree (worker_id) WHERE ending OR cancel_requested_at IS NOT NULL;
CREATE INDEX placed_leases_of_a_worker ON holdfast.leases USING btree (worker_id) WHERE placed;
CREATE INDEX claimed_leases_of_a_book ON holdfast.leases USING btree (book) WHERE book IS NOT NULL;
CREATE TRIGGER a_lease_keeps_its_identity BEFORE UPDATE ON holdfast.leases FOR EACH ROW WHEN (new.job_id <> old.job_id OR new.task_index <> old.task_index OR new.attempt <> old.attempt OR new.lease_token <> old.lease_token OR new.created_at <> old.created_at OR old.ending AND NOT new.ending) EXECUTE FUNCTION holdfast.refuse();

create table holdfast.attempts (
    job_id bigint not null,
    task_index integer not null,
    attempt integer not null,
    worker_id text not null,
    state smallint not null,
    created_at timestamp with time zone not null,
    started_at timestamp with time zone,
    finished_at timestamp with time zone not null,
    released_at timestamp with time zone,
    exit_code integer,
    error text,
    error_class text,
    stage text,
    lease_token uuid not null,
    last_lease_expires_at timestamp with time zone not null,
    reported boolean not null,
    constraint attempts_pkey PRIMARY KEY (job_id, task_index, attempt),
    constraint a_recorded_attempt_has_ended CHECK (state = ANY (ARRAY[4, 5, 6, 7])),
    constraint an_attempt_ends_after_it_began CHECK (finished_at >= created_at AND released_at >= finished_at)
)
partition by RANGE (job_id);
CREATE INDEX attempts_of_a_worker ON ONLY holdfast.attempts USING btree (hashtextextended(worker_id, 0::bigint), finished_at);
CREATE TRIGGER an_attempt_is_never_deleted BEFORE DELETE ON holdfast.attempts FOR EACH ROW EXECUTE FUNCTION holdfast.refuse();
CREATE TRIGGER an_ended_attempt_is_only_released BEFORE UPDATE ON holdfast.attempts FOR EACH ROW WHEN (old.released_at IS NOT NULL OR new.released_at IS NULL OR old.job_id IS DISTINCT FROM new.job_id OR old.task_index IS DISTINCT FROM new.task_index OR old.attempt IS DISTINCT FROM new.attempt OR old.worker_id IS DISTINCT FROM new.worker_id OR old.state IS DISTINCT FROM new.state OR old.created_at IS DISTINCT FROM new.created_at OR old.finished_at IS DISTINCT FROM new.finished_at OR old.lease_token IS DISTINCT FROM new.lease_token OR old.reported IS DISTINCT FROM new.reported OR old.started_at IS DISTINCT FROM new.started_at OR old.exit_code IS DISTINCT FROM new.exit_code OR old.error IS DISTINCT FROM new.error OR old.error_class IS DISTINCT FROM new.error_class OR old.stage IS DISTINCT FROM new.stage) EXECUTE FUNCTION holdfast.refuse();
CREATE TRIGGER attempts_are_never_truncated BEFORE TRUNCATE ON holdfast.attempts FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse();

create table holdfast.attempt_usage (
    job_id bigint not null,
    task_index integer not null,
    attempt integer not null,
    ports jsonb,
    devices jsonb,
    usage jsonb,
    build jsonb,
    is_final boolean not null default false,
    constraint one_account_per_attempt PRIMARY KEY (job_id, task_index, attempt)
);

create table holdfast.endpoints (
    name text collate "C" not null,
    address text not null,
    job_id bigint not null,
    task_index integer not null,
    attempt integer not null,
    lease_token uuid not null,
    registered_at timestamp with time zone not null,
    metadata jsonb,
    constraint endpoints_pkey PRIMARY KEY (name)
);
CREATE INDEX endpoints_of_a_job ON holdfast.endpoints USING btree (job_id, task_index);

create table holdfast.events (
    id bigint not null default nextval('holdfast.event_ids'::regclass),
    job_id bigint not null,
    task_index integer not null,
    seq integer not null,
    attempt integer not null,
    type holdfast.event_type not null,
    ts timestamp with time zone not null,
    actor text,
    cause text,
    payload jsonb,
    txid bigint not null,
    constraint one_event_per_transition UNIQUE (job_id, task_index, seq)
)
partition by RANGE (job_id);
CREATE INDEX events_by_time_and_transaction ON ONLY holdfast.events USING brin (ts, txid) WITH (pages_per_range='32', autosummarize='on');
CREATE TRIGGER an_event_never_changes BEFORE DELETE OR UPDATE ON holdfast.events FOR EACH ROW EXECUTE FUNCTION holdfast.refuse();
CREATE TRIGGER events_are_never_truncated BEFORE TRUNCATE ON holdfast.events FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse();
CREATE TRIGGER events_are_written_by_moves_alone BEFORE INSERT ON holdfast.events FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION holdfast.refuse();

create table holdfast.notes (
    id bigint not null generated always as identity,
    job_id bigint not null,
    task_index integer not null,
    attempt integer not null,
    kind text not null,
    ts timestamp with time zone not null,
    payload json,
    expires_at timestamp with time zone not null,
    constraint notes_pkey PRIMARY KEY (id)
);
CREATE INDEX notes_of_a_task ON holdfast.notes USING btree (job_id, task_index, id);
CREATE INDEX notes_by_expiry ON holdfast.notes USING btree (expires_at);
CREATE INDEX notes_of_a_kind ON holdfast.notes USING btree (job_id, kind, ts, id);
CREATE INDEX notes_of_user_code ON holdfast.notes USING btree (job_id, ts, id) WHERE starts_with(kind, 'user:'::text);
CREATE INDEX user_events_by_time ON holdfast.notes USING btree (ts, id) WHERE kind ~~ 'user:%'::text;

create table holdfast.logs (
    job_id bigint not null,
    task_index integer not null,
    attempt integer not null,
    start_offset bigint not null,
    content bytea not null,
    stored_at timestamp with time zone not null default holdfast.now(),
    constraint a_stretch_of_a_log_is_stored_once PRIMARY KEY (job_id, task_index, attempt, start_offset),
    constraint a_log_starts_at_zero CHECK (start_offset >= 0)
);
CREATE INDEX logs_of_a_job_as_they_came ON holdfast.logs USING btree (job_id, stored_at, task_index, attempt, start_offset);

create table holdfast.dependencies (
    job_id bigint not null,
    depends_on bigint not null,
    condition text not null,
    closed_at timestamp with time zone,
    holds boolean,
    constraint a_job_depends_on_another_once PRIMARY KEY (job_id, depends_on),
    constraint a_job_depends_on_earlier_ones CHECK (depends_on < job_id),
    constraint a_condition_is_known CHECK (condition = ANY (ARRAY['succeeded'::text, 'failed'::text, 'ended'::text])),
    constraint a_closed_dependency_holds_or_not CHECK ((closed_at IS NULL) = (holds IS NULL))
);
CREATE INDEX dependents_of_a_job ON holdfast.dependencies USING btree (depends_on, job_id);
CREATE INDEX open_dependencies ON holdfast.dependencies USING btree (depends_on, job_id) WHERE closed_at IS NULL;
CREATE TRIGGER a_dependency_is_closed_once BEFORE UPDATE ON holdfast.dependencies FOR EACH ROW WHEN (old.closed_at IS NOT NULL OR old.job_id IS DISTINCT FROM new.job_id OR old.depends_on IS DISTINCT FROM new.depends_on OR old.condition IS DISTINCT FROM new.condition) EXECUTE FUNCTION holdfast.refuse();

create table holdfast.undos (
    job_id bigint not null,
    graph_id bigint not null,
    cause_job_id bigint not null,
    requested_at timestamp with time zone not null,
    compensation_job_id bigint,
    ended_at timestamp with time zone,
    succeeded boolean,
    constraint a_job_is_undone_once PRIMARY KEY (job_id),
    constraint a_compensation_undoes_one_job UNIQUE (compensation_job_id),
    constraint an_undo_ends_as_its_compensation CHECK ((ended_at IS NULL) = (succeeded IS NULL) AND (ended_at IS NULL OR compensation_job_id IS NOT NULL))
);
CREATE INDEX open_undos_of_a_graph ON holdfast.undos USING btree (graph_id) WHERE ended_at IS NULL;

create table holdfast.outbox (
    id bigint not null generated always as identity,
    kind text not null,
    job_id bigint not null,
    next_index integer not null default 0,
    created_at timestamp with time zone not null,
    due_at timestamp with time zone not null default holdfast.now(),
    constraint outbox_pkey PRIMARY KEY (id),
    constraint an_outbox_row_has_a_known_kind CHECK (kind = ANY (ARRAY['feed'::text, 'sweep'::text, 'sweep_held'::text, 'job_ended'::text, 'release'::text, 'undo'::text, 'undo_graph'::text, 'undone'::text]))
);
CREATE INDEX outbox_by_kind ON holdfast.outbox USING btree (kind, job_id);
CREATE INDEX outbox_by_time ON holdfast.outbox USING btree (kind, due_at, id);

create table holdfast.dead_letters (
    job_id bigint not null,
    task_index integer not null,
    reason_code text not null,
    stage text,
    error_class text,
    last_error text,
    attempts integer not null,
    last_owner text,
    last_lease_expires_at timestamp with time zone,
    correlation_id text not null,
    type text not null,
    queue text collate "C",
    input json,
    dead_lettered_at timestamp with time zone not null,
    replayed_at timestamp with time zone,
    replayed_as bigint,
    input_edited boolean not null default false,
    discarded_at timestamp with time zone,
    discarded_by text,
    constraint one_dead_letter_per_task PRIMARY KEY (job_id, task_index),
    constraint a_dead_letter_has_a_known_reason CHECK (reason_code = ANY (ARRAY['exhausted_retries'::text, 'validation_failed'::text, 'parse_error'::text, 'timeout'::text, 'dependency_unavailable'::text, 'infrastructure_failure'::text, 'policy_violation'::text, 'compensation_failed'::text])),
    constraint a_dead_letter_is_replayed_or_discarded_not_both CHECK (replayed_at IS NULL OR discarded_at IS NULL),
    constraint a_replay_names_its_job CHECK ((replayed_at IS NULL) = (replayed_as IS NULL)),
    constraint an_input_is_edited_for_a_replay CHECK (replayed_as IS NOT NULL OR NOT input_edited)
);
CREATE INDEX dead_letters_by_time ON holdfast.dead_letters USING btree (dead_lettered_at);
CREATE INDEX open_dead_letters ON holdfast.dead_letters USING btree (job_id, task_index) WHERE replayed_at IS NULL AND discarded_at IS NULL;
CREATE INDEX open_dead_letters_by_time ON holdfast.dead_letters USING btree (dead_lettered_at, job_id, task_index) WHERE replayed_at IS NULL AND discarded_at IS NULL;

create table holdfast.workers (
    worker_id text not null,
    name text not null,
    host text not null,
    queues text[] not null default '{}'::text[],
    registered_at timestamp with time zone not null,
    lost_at timestamp with time zone,
    lost_cause text,
    replaced_by text,
    last_seen_at timestamp with time zone,
    draining_at timestamp with time zone,
    draining_by text,
    address text,
    capacity jsonb,
    attributes jsonb not null default '{}'::jsonb,
    answered_epoch bigint,
    answered_number bigint,
    answered_at timestamp with time zone,
    consecutive_failures integer not null default 0,
    last_failure text,
    book text,
    claims_up_to jsonb,
    secret_hash bytea,
    token_id text collate "C",
    constraint workers_pkey PRIMARY KEY (worker_id),
    constraint failures_are_counted_from_zero CHECK (consecutive_failures >= 0),
    constraint a_called_worker_has_a_secret_and_a_capacity CHECK ((address IS NULL OR secret_hash IS NOT NULL) AND (address IS NULL) = (capacity IS NULL)),
    constraint hashes_of_workers_are_sha_256 CHECK (octet_length(secret_hash) = 32)
);
CREATE INDEX workers_that_are_called ON holdfast.workers USING btree (worker_id) WHERE address IS NOT NULL AND lost_at IS NULL;
CREATE INDEX workers_of_a_book ON holdfast.workers USING btree (book) WHERE book IS NOT NULL;
CREATE INDEX workers_that_joined_with_a_token ON holdfast.workers USING btree (token_id) WHERE token_id IS NOT NULL AND lost_at IS NULL;

create table holdfast.queues (
    queue text collate "C" not null,
    paused_at timestamp with time zone not null,
    paused_by text not null,
    constraint queues_pkey PRIMARY KEY (queue)
);

create table holdfast.leadership (
    one boolean not null default true,
    epoch bigint not null default 0,
    leader text,
    expires_at timestamp with time zone not null default holdfast.now(),
    constraint leadership_pkey PRIMARY KEY (one),
    constraint there_is_one_leader CHECK (one)
);

create table holdfast.reaper (
    one boolean not null default true,
    last_pass_at timestamp with time zone not null,
    outage_from timestamp with time zone,
    outage_until timestamp with time zone,
    constraint reaper_pkey PRIMARY KEY (one),
    constraint there_is_one_reaper_row CHECK (one)
);

create table holdfast.datasets (
    name text collate "C" not null,
    created_at timestamp with time zone not null,
    created_by text not null,
    metadata jsonb not null default '{}'::jsonb,
    current_version integer,
    constraint a_dataset_has_a_name_of_its_own PRIMARY KEY (name),
    constraint a_dataset_is_named_plainly CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'::text)
);
CREATE CONSTRAINT TRIGGER every_cut_over_is_recorded AFTER INSERT OR UPDATE ON holdfast.datasets DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.current_version IS NOT NULL) EXECUTE FUNCTION holdfast.refuse_unrecorded_cut_over();
CREATE TRIGGER the_current_version_is_sealed BEFORE INSERT OR UPDATE ON holdfast.datasets FOR EACH ROW WHEN (new.current_version IS NOT NULL) EXECUTE FUNCTION holdfast.refuse_unsealed_current_version();
CREATE TRIGGER there_is_a_current_version_from_the_first_cut_over_on BEFORE UPDATE ON holdfast.datasets FOR EACH ROW WHEN (old.current_version IS NOT NULL AND new.current_version IS NULL OR old.name <> new.name) EXECUTE FUNCTION holdfast.refuse();

create table holdfast.dataset_versions (
    dataset text collate "C" not null,
    version integer not null,
    state text not null default 'open'::text,
    created_at timestamp with time zone not null,
    created_by text not null,
    based_on integer,
    opened_by_job bigint,
    may_be_replaced boolean not null default false,
    cut_over_at timestamp with time zone,
    entries bigint,
    size_bytes bigint,
    dropped_at timestamp with time zone,
    dropped_by text,
    swept_at timestamp with time zone,
    constraint a_version_has_a_number_of_its_own PRIMARY KEY (dataset, version),
    constraint a_version_belongs_to_a_dataset FOREIGN KEY (dataset) REFERENCES holdfast.datasets(name),
    constraint versions_count_from_one CHECK (version > 0),
    constraint a_version_is_open_sealed_or_dropped CHECK (state = ANY (ARRAY['open'::text, 'sealed'::text, 'dropped'::text])),
    constraint a_cut_over_seals_a_version CHECK (state = 'dropped'::text OR (state = 'sealed'::text) = (cut_over_at IS NOT NULL)),
    constraint a_sealed_version_has_been_counted CHECK ((cut_over_at IS NULL) = (entries IS NULL) AND (entries IS NULL) = (size_bytes IS NULL)),
    constraint a_dropped_version_says_when_and_by_whom CHECK ((state = 'dropped'::text) = (dropped_at IS NOT NULL) AND (dropped_at IS NULL) = (dropped_by IS NULL)),
    constraint only_a_dropped_version_is_swept CHECK (swept_at IS NULL OR state = 'dropped'::text)
);
CREATE INDEX open_versions ON holdfast.dataset_versions USING btree (dataset, version) WHERE state = 'open'::text;
CREATE INDEX versions_to_sweep ON holdfast.dataset_versions USING btree (dropped_at) WHERE state = 'dropped'::text AND swept_at IS NULL;
CREATE INDEX versions_opened_by_a_job ON holdfast.dataset_versions USING btree (opened_by_job) WHERE opened_by_job IS NOT NULL;
CREATE TRIGGER a_version_is_filled_then_sealed_then_dropped BEFORE UPDATE ON holdfast.dataset_versions FOR EACH ROW WHEN (NOT (old.state = 'open'::text AND (new.state <> 'open'::text OR new.may_be_replaced) OR (old.state = 'sealed'::text OR old.swept_at IS NULL) AND new.state = 'dropped'::text AND NOT (old.cut_over_at IS DISTINCT FROM new.cut_over_at OR old.entries IS DISTINCT FROM new.entries OR old.size_bytes IS DISTINCT FROM new.size_bytes)) OR old.dataset IS DISTINCT FROM new.dataset OR old.version IS DISTINCT FROM new.version OR old.created_at IS DISTINCT FROM new.created_at OR old.created_by IS DISTINCT FROM new.created_by OR old.based_on IS DISTINCT FROM new.based_on OR old.opened_by_job IS DISTINCT FROM new.opened_by_job) EXECUTE FUNCTION holdfast.refuse();
CREATE TRIGGER a_version_is_remembered BEFORE DELETE ON holdfast.dataset_versions FOR EACH ROW EXECUTE FUNCTION holdfast.refuse_delete_of_known_version();
CREATE TRIGGER the_current_version_is_not_dropped BEFORE UPDATE ON holdfast.dataset_versions FOR EACH ROW WHEN (new.state = 'dropped'::text) EXECUTE FUNCTION holdfast.refuse_drop_of_current_version();

create table holdfast.cut_overs (
    dataset text collate "C" not null,
    number integer not null,
    version integer not null,
    previous integer,
    at timestamp with time zone not null,
    actor text not null,
    reason text,
    forced boolean not null,
    constraint cut_overs_of_a_dataset_are_counted PRIMARY KEY (dataset, number),
    constraint a_cut_over_leads_to_a_version FOREIGN KEY (dataset, version) REFERENCES holdfast.dataset_versions(dataset, version),
    constraint cut_overs_count_from_one CHECK (number > 0),
    constraint a_cut_over_leads_elsewhere CHECK (previous IS DISTINCT FROM version)
);
CREATE TRIGGER a_cut_over_is_history BEFORE DELETE OR UPDATE ON holdfast.cut_overs FOR EACH ROW EXECUTE FUNCTION holdfast.refuse();

create table holdfast.job_outputs (
    job_id bigint not null,
    dataset text collate "C" not null,
    version integer not null,
    mode text not null,
    declared text,
    constraint a_job_writes_one_version_of_a_dataset PRIMARY KEY (job_id, dataset),
    constraint a_version_is_declared_new_or_newest CHECK (declared = ANY (ARRAY['new'::text, 'newest'::text])),
    constraint a_job_appends_or_replaces CHECK (mode = ANY (ARRAY['append'::text, 'replace'::text]))
);
CREATE INDEX jobs_bound_to_a_version ON holdfast.job_outputs USING btree (dataset, version, job_id);
CREATE TRIGGER a_job_stays_bound_to_its_version BEFORE UPDATE ON holdfast.job_outputs FOR EACH ROW EXECUTE FUNCTION holdfast.refuse();

create table holdfast.commits (
    job_id bigint not null,
    task_index integer not null,
    attempt integer not null,
    entries integer not null,
    committed_at timestamp with time zone not null,
    constraint a_task_commits_once PRIMARY KEY (job_id, task_index),
    constraint a_commit_counts_its_entries CHECK (entries >= 0)
);
CREATE CONSTRAINT TRIGGER a_commit_goes_with_a_success AFTER INSERT ON holdfast.commits DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION holdfast.refuse_commit_without_success();
CREATE TRIGGER a_commit_never_changes BEFORE UPDATE ON holdfast.commits FOR EACH ROW EXECUTE FUNCTION holdfast.refuse();

create table holdfast.dataset_entries (
    dataset text collate "C" not null,
    version integer not null,
    key text collate "C" not null,
    partition_key text collate "C" not null,
    uri text not null,
    size_bytes bigint,
    checksum text,
    metadata jsonb,
    job_id bigint not null,
    task_index integer not null,
    attempt integer not null,
    committed_at timestamp with time zone not null,
    copied_from integer,
    constraint a_version_has_a_key_once PRIMARY KEY (dataset, version, key),
    constraint a_size_is_not_negative CHECK (size_bytes >= 0)
);
CREATE INDEX entries_of_a_partition ON holdfast.dataset_entries USING btree (dataset, version, partition_key);
CREATE INDEX entries_of_a_task ON holdfast.dataset_entries USING btree (job_id, task_index) WHERE copied_from IS NULL;
CREATE TRIGGER a_sealed_version_keeps_its_entries AFTER DELETE ON holdfast.dataset_entries REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse_removal_from_sealed_versions();
CREATE TRIGGER an_entry_never_changes BEFORE UPDATE ON holdfast.dataset_entries FOR EACH ROW EXECUTE FUNCTION holdfast.refuse();
CREATE TRIGGER entries_are_written_by_commits AFTER INSERT ON holdfast.dataset_entries REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse_entries_without_commit();
CREATE TRIGGER entries_go_into_open_versions AFTER INSERT ON holdfast.dataset_entries REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse_entries_of_unopen_versions();

create table holdfast.dataset_triggers (
    dataset text collate "C" not null,
    name text collate "C" not null,
    spec jsonb not null,
    inputs json,
    created_at timestamp with time zone not null,
    created_by text not null,
    changed_at timestamp with time zone not null,
    constraint a_trigger_has_a_name_of_its_own PRIMARY KEY (dataset, name),
    constraint a_trigger_belongs_to_a_dataset FOREIGN KEY (dataset) REFERENCES holdfast.datasets(name),
    constraint a_trigger_is_named_plainly CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'::text)
);

create table holdfast.trigger_runs (
    dataset text collate "C" not null,
    trigger text collate "C" not null,
    version integer not null,
    requested_at timestamp with time zone not null,
    job_id bigint,
    started_at timestamp with time zone,
    problem text,
    due_at timestamp with time zone not null,
    constraint a_trigger_runs_once_per_version PRIMARY KEY (dataset, trigger, version),
    constraint a_run_that_started_has_a_job CHECK ((job_id IS NULL) = (started_at IS NULL))
);
CREATE INDEX runs_that_have_not_started ON holdfast.trigger_runs USING btree (due_at) WHERE job_id IS NULL;
CREATE TRIGGER a_run_starts_once BEFORE UPDATE ON holdfast.trigger_runs FOR EACH ROW WHEN (old.job_id IS NOT NULL OR old.dataset IS DISTINCT FROM new.dataset OR old.trigger IS DISTINCT FROM new.trigger OR old.version IS DISTINCT FROM new.version) EXECUTE FUNCTION holdfast.refuse();

create table holdfast.limits (
    one boolean not null default true,
    input_bytes_max integer not null default 1048576,
    spec_bytes_max integer not null default 1048576,
    text_length_max integer not null default 256,
    error_length_max integer not null default 65536,
    tasks_max integer not null default 10000000,
    batch_tasks_max integer not null default 10000,
    lease_seconds_min double precision not null default 30,
    lease_seconds_max double precision not null default 120,
    retries_max integer not null default 10000,
    constraint limits_pkey PRIMARY KEY (one),
    constraint there_is_one_row_of_limits CHECK (one),
    constraint the_shortest_lease_is_not_longer_than_the_longest CHECK (lease_seconds_min > 0::double precision AND lease_seconds_min <= lease_seconds_max AND lease_seconds_max < 'Infinity'::double precision),
    constraint limits_leave_room_for_something CHECK (LEAST(input_bytes_max, spec_bytes_max, text_length_max, error_length_max, tasks_max, batch_tasks_max) > 0)
);

create table holdfast.policies (
    type text collate "C" not null,
    policy jsonb not null,
    version bigint not null,
    updated_at timestamp with time zone not null,
    updated_by text not null,
    constraint policies_pkey PRIMARY KEY (type)
);

create table holdfast.policy_changes (
    version bigint not null,
    type text collate "C" not null,
    before jsonb,
    after jsonb,
    actor text not null,
    changed_at timestamp with time zone not null,
    constraint policy_changes_pkey PRIMARY KEY (version),
    constraint a_change_of_a_policy_changes_it CHECK (before IS DISTINCT FROM after)
);
CREATE INDEX policy_changes_of_a_type ON holdfast.policy_changes USING btree (type, version);
CREATE TRIGGER a_change_of_a_policy_stays_as_it_was BEFORE DELETE OR UPDATE ON holdfast.policy_changes FOR EACH ROW EXECUTE FUNCTION holdfast.refuse();

create table holdfast.policy_clock (
    one boolean not null default true,
    version bigint not null default 0,
    functions_version bigint not null default 0,
    constraint policy_clock_pkey PRIMARY KEY (one),
    constraint there_is_one_policy_clock CHECK (one)
);

create table holdfast.idempotency_keys (
    scope text not null,
    key text not null,
    request_digest bytea not null,
    created_at timestamp with time zone not null,
    answer json,
    constraint one_use_of_a_key_per_scope PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_keys_by_age ON holdfast.idempotency_keys USING btree (created_at);

create table holdfast.samples (
    step_seconds integer not null,
    at timestamp with time zone not null,
    server_id text not null,
    seen_at timestamp with time zone not null,
    submitted bigint not null,
    succeeded bigint not null,
    failed bigint not null,
    killed bigint not null,
    worker_failed bigint not null,
    unschedulable bigint not null,
    dead_lettered bigint not null,
    retried bigint not null,
    waits bigint[] not null,
    depth bigint not null,
    running bigint not null,
    constraint one_sample_per_step_and_server PRIMARY KEY (step_seconds, at, server_id),
    constraint a_step_has_a_length CHECK (step_seconds > 0),
    constraint a_sample_stands_where_its_step_begins CHECK ((EXTRACT(epoch FROM at) % step_seconds::numeric) = 0::numeric),
    constraint a_wait_falls_into_one_of_seventeen_ranges CHECK (cardinality(waits) = 17),
    constraint samples_are_not_negative CHECK (LEAST(submitted, succeeded, failed, killed, worker_failed, unschedulable, dead_lettered, retried, depth, running) >= 0 AND (0 <= ALL (waits)))
)
with (fillfactor=50);

create table holdfast.type_samples (
    at timestamp with time zone not null,
    server_id text not null,
    type text collate "C" not null,
    attempts bigint not null,
    failures bigint not null,
    waits bigint[] not null,
    runs bigint[] not null,
    constraint one_sample_per_minute_server_and_type PRIMARY KEY (at, server_id, type),
    constraint a_type_is_sampled_by_the_minute CHECK ((EXTRACT(epoch FROM at) % 60::numeric) = 0::numeric),
    constraint an_attempt_fails_once CHECK (0 <= failures AND failures <= attempts),
    constraint a_time_falls_into_one_of_seventeen_ranges CHECK (cardinality(waits) = 17 AND cardinality(runs) = 17)
)
with (fillfactor=50);

create table holdfast.continuations (
    job_id bigint not null,
    continues bigint not null,
    constraint a_job_continues_one_other PRIMARY KEY (job_id),
    constraint a_job_continues_an_earlier_one CHECK (continues < job_id)
);

create table holdfast.functions (
    path text collate "C" not null,
    options jsonb not null,
    parameters jsonb not null,
    doc text,
    announced_by text not null,
    changed_at timestamp with time zone not null,
    last_seen_at timestamp with time zone not null,
    constraint functions_pkey PRIMARY KEY (path)
);
CREATE INDEX functions_by_last_seen ON holdfast.functions USING btree (last_seen_at);

create table holdfast.worker_samples (
    at timestamp with time zone not null,
    server_id text not null,
    worker_id text collate "C" not null,
    succeeded bigint not null,
    failed bigint not null,
    worker_failed bigint not null,
    killed bigint not null,
    constraint one_sample_per_step_server_and_worker PRIMARY KEY (at, server_id, worker_id),
    constraint a_worker_is_sampled_by_five_minutes CHECK ((EXTRACT(epoch FROM at) % 300::numeric) = 0::numeric),
    constraint ended_attempts_are_not_negative CHECK (LEAST(succeeded, failed, worker_failed, killed) >= 0)
)
with (fillfactor=50);

create table holdfast.tokens (
    token_id text collate "C" not null,
    name text collate "C" not null,
    secret_hash bytea not null,
    previous_hash bytea,
    previous_until timestamp with time zone,
    roles text[] not null,
    owners text[] not null default '{}'::text[],
    queues text[] not null default '{}'::text[],
    created_at timestamp with time zone not null,
    created_by text not null,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    revoked_by text,
    last_used_at timestamp with time zone,
    constraint tokens_pkey PRIMARY KEY (token_id),
    constraint hashes_of_tokens_are_sha_256 CHECK (octet_length(secret_hash) = 32 AND COALESCE(octet_length(previous_hash), 32) = 32),
    constraint a_token_has_a_known_role CHECK (cardinality(roles) > 0 AND roles <@ ARRAY['read'::text, 'data'::text, 'submit'::text, 'worker'::text, 'admin'::text]),
    constraint the_hash_before_has_an_end CHECK ((previous_hash IS NULL) = (previous_until IS NULL)),
    constraint a_token_is_revoked_by_somebody CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
CREATE UNIQUE INDEX one_living_token_per_name ON holdfast.tokens USING btree (name) WHERE revoked_at IS NULL;

create table holdfast.actions (
    action_id bigint not null generated always as identity,
    at timestamp with time zone not null,
    actor text collate "C" not null,
    action text collate "C" not null,
    subject_kind text collate "C" not null,
    subject text collate "C" not null,
    reason text,
    facts jsonb,
    token_id text collate "C",
    constraint actions_pkey PRIMARY KEY (action_id)
);
CREATE INDEX actions_of_an_actor ON holdfast.actions USING btree (actor, action_id);
CREATE INDEX actions_of_a_kind ON holdfast.actions USING btree (action, action_id);
CREATE INDEX actions_on_a_subject ON holdfast.actions USING btree (subject_kind, subject, action_id);

create table holdfast.sessions (
    secret_hash bytea not null,
    csrf_hash bytea not null,
    token_id text collate "C",
    token_hash bytea,
    subject text collate "C",
    roles text[] not null default '{}'::text[],
    owners text[] not null default '{}'::text[],
    created_at timestamp with time zone not null,
    expires_at timestamp with time zone not null,
    constraint sessions_pkey PRIMARY KEY (secret_hash),
    constraint sessions_token_id_fkey FOREIGN KEY (token_id) REFERENCES holdfast.tokens(token_id),
    constraint hashes_of_sessions_are_sha_256 CHECK (octet_length(secret_hash) = 32 AND octet_length(csrf_hash) = 32 AND COALESCE(octet_length(token_hash), 32) = 32),
    constraint a_session_is_of_a_token_or_of_a_subject CHECK ((token_id IS NULL) = (token_hash IS NULL) AND (token_id IS NULL) <> (subject IS NULL)),
    constraint only_a_subject_has_roles_of_its_own CHECK (subject IS NOT NULL OR roles = '{}'::text[] AND owners = '{}'::text[]),
    constraint a_session_has_known_roles CHECK (roles <@ ARRAY['read'::text, 'data'::text, 'submit'::text, 'worker'::text, 'admin'::text]),
    constraint a_session_ends_after_its_beginning CHECK (expires_at > created_at)
);
CREATE INDEX sessions_of_a_token ON holdfast.sessions USING btree (token_id, created_at) WHERE token_id IS NOT NULL;
CREATE INDEX sessions_of_a_subject ON holdfast.sessions USING btree (subject, created_at) WHERE subject IS NOT NULL;

create table holdfast.tasks_1 partition of holdfast.tasks FOR VALUES FROM ('1') TO ('10001')
with (autovacuum_analyze_threshold=5000, fillfactor=60);
CREATE TRIGGER a_partition_is_written_through_its_parent BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON holdfast.tasks_1 FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse();

create table holdfast.attempts_1 partition of holdfast.attempts FOR VALUES FROM ('1') TO ('10001')
with (autovacuum_analyze_threshold=5000, fillfactor=100);
CREATE TRIGGER a_partition_is_written_through_its_parent BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON holdfast.attempts_1 FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse();

create table holdfast.events_1 partition of holdfast.events FOR VALUES FROM ('1') TO ('10001')
with (autovacuum_analyze_threshold=5000, fillfactor=100);
CREATE TRIGGER a_partition_is_written_through_its_parent BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON holdfast.events_1 FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse();

create view holdfast.attempt_history as
 SELECT attempts.job_id,
    attempts.task_index,
    attempts.attempt,
    attempts.worker_id,
    attempts.state,
    attempts.created_at,
    attempts.started_at,
    attempts.finished_at,
    attempts.released_at,
    attempts.exit_code,
    attempts.error,
    attempts.error_class,
    attempts.stage,
    attempts.state = 7 AS is_worker_failure,
    attempts.last_lease_expires_at
   FROM holdfast.attempts
UNION ALL
 SELECT leases.job_id,
    leases.task_index,
    leases.attempt,
    leases.worker_id,
    tasks.state,
    leases.created_at,
    tasks.started_at,
    NULL::timestamp with time zone AS finished_at,
    NULL::timestamp with time zone AS released_at,
    NULL::integer AS exit_code,
    NULL::text AS error,
    NULL::text AS error_class,
    NULL::text AS stage,
    false AS is_worker_failure,
    leases.expires_at AS last_lease_expires_at
   FROM holdfast.leases
     JOIN holdfast.tasks USING (job_id, task_index)
  WHERE NOT leases.ending;

create view holdfast.event_log as
 SELECT events.id,
    events.job_id,
    events.task_index,
    events.attempt,
    events.seq,
    events.type,
    events.ts,
    events.actor,
    jobs.correlation_id,
    jobs.trace_id,
    events.cause,
    events.payload,
    1 AS version,
    events.txid
   FROM holdfast.events
     JOIN holdfast.jobs USING (job_id);

CREATE OR REPLACE FUNCTION holdfast.now()
 RETURNS timestamp with time zone
 LANGUAGE sql
AS $function$select clock_timestamp()$function$;

CREATE OR REPLACE FUNCTION holdfast.summarise_events()
 RETURNS integer
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'holdfast', 'pg_temp'
AS $function$
    select coalesce(sum(brin_summarize_new_values(pg_index.indexrelid)), 0)::int
      from (select first_job_id from holdfast.partitions
             where first_job_id <= (select last_value from holdfast.job_ids)
             order by first_job_id desc limit 2) as newest
      join pg_index on pg_index.indrelid = to_regclass('holdfast.events_' || newest.first_job_id)
      join pg_class on pg_class.oid = pg_index.indexrelid
      join pg_am on pg_am.oid = pg_class.relam and pg_am.amname = 'brin'
$function$;
revoke all on function holdfast.summarise_events() from public;

CREATE OR REPLACE FUNCTION holdfast.refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    raise exception using
        errcode = 'integrity_constraint_violation',
        constraint = tg_name,
        message = format('%s on %I.%I refused: %s', tg_op, tg_table_schema, tg_table_name,
                         replace(tg_name, '_', ' '));
end $function$;

CREATE OR REPLACE FUNCTION holdfast.label_hash(key text, value text)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
AS $function$ select hashtextextended(value, hashtextextended(key, 0)) $function$;

CREATE OR REPLACE FUNCTION holdfast.add_partition(first_job_id bigint, end_job_id bigint)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'holdfast', 'pg_temp'
AS $function$
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
                       'before insert or update or delete or truncate on holdfast.%I '
                       'for each statement execute function holdfast.refuse()',
                       parent || '_' || first_job_id);
    end loop;
end $function$;
revoke all on function holdfast.add_partition(bigint,bigint) from public;

CREATE OR REPLACE FUNCTION holdfast.drop_partition(first bigint)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'holdfast', 'pg_temp'
AS $function$
declare
    parent text;
begin
    if exists (select from holdfast.partitions join holdfast.jobs
                   on job_id >= first_job_id and job_id < end_job_id
                where first_job_id = first and finished_at is null) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = 'a_partition_with_live_jobs_stays',
            message = format('partition %s holds jobs that have not ended', first);
    end if;
    delete from holdfast.partitions where first_job_id = first;
    foreach parent in array array['tasks', 'attempts', 'events'] loop
        execute format('drop table holdfast.%I', parent || '_' || first);
    end loop;
end $function$;
revoke all on function holdfast.drop_partition(bigint) from public;

CREATE OR REPLACE FUNCTION holdfast.ensure_partition(job_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
    newest holdfast.partitions;
begin
    lock table holdfast.partitions in share row exclusive mode;
    select * into newest from holdfast.partitions order by first_job_id desc limit 1;
    while job_id >= newest.end_job_id loop
        newest := (newest.end_job_id, newest.end_job_id
                   + greatest(10000, least(1000000, (newest.end_job_id - newest.first_job_id) * 4)), null, null);
        perform holdfast.add_partition(newest.first_job_id, newest.end_job_id);
    end loop;
exception
    -- Somebody made it after this transaction's snapshot was taken: it is there, although it cannot be seen.
    when unique_violation then null;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.as_interval(seconds numeric)
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select trunc(float) * interval '1 second' + round((float - trunc(float)) * 1e6) * interval '1 microsecond'
      from (select round(seconds, 9)::float8) as rounded(float)
$function$;

CREATE OR REPLACE FUNCTION holdfast.answer_repeat(plain jsonb, inputs jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
    first record;
begin
    select job_id, coalesce(asked_hash = jsonb_hash_extended(plain, 0), spec = plain) and case
               when num_tasks = jsonb_array_length(inputs)
               then inputs = (select jsonb_agg(input::jsonb order by task_index)
                                from holdfast.tasks where tasks.job_id = jobs.job_id)
               else inputs is null and not fan_out end as is_same
      into first from holdfast.jobs
     where owner = plain ->> 'owner' and idempotency_key = plain ->> 'idempotency_key';
    if not found then
        raise exception using errcode = 'serialization_failure',
            message = 'the job under this idempotency_key was deleted at the same moment; try again';
    end if;
    perform holdfast.refuse_field('idempotency_key', format(
                '%L was used for job %s with a different spec; use a new key, or submit the same spec',
                plain ->> 'idempotency_key', first.job_id))
      where not first.is_same;
    return first.job_id;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.submit(spec jsonb, inputs jsonb DEFAULT NULL::jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET standard_conforming_strings TO 'on'
 SET extra_float_digits TO '1'
AS $function$
declare
    limits holdfast.limits;
    num_tasks int;
    asked jsonb;
    plain jsonb;
    complete jsonb;
    rules jsonb;
    clock timestamptz;
    eligible timestamptz;
    id bigint;
begin
    select * into strict limits from holdfast.limits;
    perform holdfast.check_shape(spec);
    asked := spec - 'placed';
    spec := holdfast.add_announced(spec, inputs is not null);
    perform holdfast.check_shape(spec);
    perform holdfast.check_entrypoint(spec -> 'entrypoint');
    perform holdfast.check_texts(spec, limits);
    perform holdfast.check_numbers(spec, limits);
    num_tasks := holdfast.check_inputs(spec, inputs, limits);
    plain := holdfast.complete_spec(spec, inputs is not null, limits);
    complete := plain;
    select policy into rules from holdfast.policies where type = plain ->> 'type';
    if found then
        complete := holdfast.complete_spec(
            holdfast.follow_policy(spec, plain, num_tasks, rules), inputs is not null, limits);
    end if;
    -- A repeat is known by what the job would be without a policy and without what workers have announced, whatever
    -- those were the first time.
    plain := holdfast.complete_spec(asked, inputs is not null, limits);
    perform holdfast.check_size('spec', octet_length(complete::text), limits.spec_bytes_max, 'bytes');

    id := nextval('holdfast.job_ids');
    if id >= (select max(end_job_id) from holdfast.partitions) then
        perform holdfast.ensure_partition(id);
    end if;
    clock := holdfast.now();
    insert into holdfast.jobs (
        job_id, name, type, owner, queue, priority, spec, labels, correlation_id, trace_id, idempotency_key,
        asked_hash, created_at, submitted_at, fan_out, max_task_failures, num_tasks, pending, seq, event_type,
        event_at, event_actor)
    values (
        id, complete ->> 'name', complete ->> 'type', complete ->> 'owner', complete ->> 'queue',
        coalesce((complete ->> 'priority')::int, 0), complete, coalesce(complete -> 'labels', '{}'),
        coalesce(complete ->> 'correlation_id', gen_random_uuid()::text), complete ->> 'trace_id',
        complete ->> 'idempotency_key',
        case when complete ? 'idempotency_key' then jsonb_hash_extended(nullif(plain, complete), 0) end,
        clock, clock, inputs is not null, (complete ->> 'max_task_failures')::int, num_tasks, num_tasks, 1,
        'submitted', clock, complete ->> 'owner')
    on conflict (owner, idempotency_key) where idempotency_key is not null do nothing;
    if not found then
        return holdfast.answer_repeat(plain, inputs);
    end if;
    eligible := greatest(clock, to_timestamp(0) + holdfast.as_interval((complete ->> 'not_before')::numeric));
    insert into holdfast.tasks (job_id, task_index, placed, eligible_at, submitted_at, moved_at, input)
    select id, task_index, complete ->> 'queue' is null, eligible, clock, clock, (inputs -> task_index)::json
      from generate_series(0, num_tasks - 1) as task_index;
    if eligible > clock then
        insert into holdfast.waiting (job_id, task_index, eligible_at)
        select id, task_index, eligible from generate_series(0, num_tasks - 1) as task_index;
    else
        insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at)
        select coalesce(complete ->> 'queue', ''), -coalesce((complete ->> 'priority')::int, 0), eligible, id,
               task_index, eligible + holdfast.as_interval((complete ->> 'scheduling_timeout')::numeric)
          from generate_series(0, num_tasks - 1) as task_index;
        perform pg_notify('holdfast_ready', complete ->> 'queue') where complete ? 'queue';
    end if;
    return id;
end $function$;
revoke all on function holdfast.submit(jsonb,jsonb) from public;

CREATE OR REPLACE FUNCTION holdfast.refuse_field(field text, problem text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
    raise exception using
        errcode = 'invalid_parameter_value', column = field, message = format('%s: %s', field, problem);
end $function$;

CREATE OR REPLACE FUNCTION holdfast.check_size(field text, size bigint, size_max bigint, unit text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
    if size > size_max then
        perform holdfast.refuse_field(field, format(
            '%s %s is over the limit of %s %s', size, unit, size_max, unit));
    end if;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.check_value(field text, value jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
    perform holdfast.refuse_field(field, 'is nested more than 100 levels deep; flatten it')
      where jsonb_path_exists(value, 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")');
    perform holdfast.refuse_field(field, 'holds a number beyond 1.7976931348623157e308; send it as a string')
      where jsonb_path_exists(value, 'strict $.** ? (@.type() == "number" && (@ > 1.7976931348623157e308
                                                                           || @ < -1.7976931348623157e308))');
end $function$;

CREATE OR REPLACE FUNCTION holdfast.check_fields(path text, value jsonb, fields jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
    whole constant text := coalesce(nullif(rtrim(path, '.'), ''), 'spec');
    given record;
begin
    perform holdfast.refuse_field(whole, 'is not an object; give one')
      where jsonb_typeof(value) is distinct from 'object';
    for given in select case key when '' then whole else path || key end as field,
                        rtrim(fields ->> key, '?') as type, jsonb_typeof(each.value) as found,
                        jsonb_typeof(each.value) = 'null' and fields ->> key like '%?' as left_out,
                        each.value #>> '{}' as text
                   from jsonb_each(value) as each loop
        if given.type is null then
            perform holdfast.refuse_field(given.field, 'is not a known field; remove it or correct its name');
        elsif given.left_out then
            continue;
        elsif given.found <> (case given.type when 'integer' then 'number' else given.type end) then
            perform holdfast.refuse_field(given.field, format(
                'is of type %s; give one of type %s', given.found, given.type));
        elsif given.type = 'integer' and scale(given.text::numeric) > 0 then
            perform holdfast.refuse_field(given.field, 'has a fraction; give a whole number');
        end if;
    end loop;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.check_shape(spec jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
    perform holdfast.refuse_field(field, 'is not taken by SQL; submit the job through the server')
       from unnest('{resources,constraints,coscheduling,bundle,requirements,depends_on,
                      compensation,outputs,start_delay,start_rate}'::text[]) as field where spec ? field;
    perform holdfast.refuse_field('entrypoint.results', 'is not taken by SQL; submit the job through the server')
      where jsonb_typeof(spec -> 'entrypoint') = 'object' and spec -> 'entrypoint' ? 'results';
    perform holdfast.check_fields('', spec, '{
        "entrypoint": "object", "name": "string?", "type": "string?", "owner": "string?", "replicas": "integer?",
        "queue": "string?", "environment": "object", "labels": "object", "max_attempts": "integer?",
        "max_retries_failure": "integer?", "max_retries_preemption": "integer?", "backoff": "object?",
        "max_task_failures": "integer?", "on_exhausted": "string?", "scheduling_timeout": "number?",
        "timeout": "number?", "on_timeout": "string?", "lease": "number?", "grace": "number?",
        "not_before": "number?", "priority": "integer?", "idempotency_key": "string?",
        "correlation_id": "string?", "trace_id": "string?", "verbose_events": "boolean?", "placed": "boolean"}');
    perform holdfast.refuse_field('placed', format('goes without a queue, and %L is one; give one of them',
                                                   spec ->> 'queue'))
      where spec -> 'placed' = 'true' and spec ->> 'queue' is not null;
    perform holdfast.check_fields('entrypoint.', spec -> 'entrypoint', '{
        "command": "array?", "shell": "string?", "function": "string?", "args": "array", "kwargs": "object",
        "pickle": "string?"}');
    perform holdfast.check_fields('backoff.', coalesce(nullif(spec -> 'backoff', 'null'), '{}'), '{
        "base": "number", "factor": "number", "ceiling": "number"}');
    perform holdfast.refuse_field(format('entrypoint.command[%s]', position - 1), 'is not a string; give one')
       from jsonb_array_elements(nullif(spec #> '{entrypoint,command}', 'null'))
            with ordinality as words(word, position)
      where jsonb_typeof(word) <> 'string';
    perform holdfast.refuse_field(field, 'holds something else than strings; write each value as a string')
       from unnest(array['labels', 'environment']) as field, jsonb_each(spec -> field)
      where jsonb_typeof(value) <> 'string';
    perform holdfast.refuse_field(field, format('is unknown; use %s or %s', one, other))
       from (values ('on_exhausted', 'fail', 'dead_letter'), ('on_timeout', 'kill', 'fail')) as known(field, one, other)
      where spec ->> field not in (one, other);
end $function$;

CREATE OR REPLACE FUNCTION holdfast.check_entrypoint(entrypoint jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
    -- Which characters beyond ASCII are letters depends on the database's locale: here they all are.
    letter constant text := '(?:[A-Za-z_]|[^\x01-\x7f])';
    word constant text := letter || '(?:[0-9]|' || letter || ')*';
    dotted constant text := word || '(?:\.' || word || ')*';
begin
    perform holdfast.refuse_field('entrypoint', 'give exactly one of command, shell, function, pickle')
      where num_nonnulls(entrypoint ->> 'command', entrypoint ->> 'shell', entrypoint ->> 'function',
                         entrypoint ->> 'pickle') <> 1;
    perform holdfast.refuse_field('entrypoint.command', 'is empty; give a program and its arguments')
      where entrypoint ->> 'command' is not null and coalesce(entrypoint #>> '{command,0}', '') = '';
    perform holdfast.refuse_field('entrypoint.shell', 'is empty; give a shell line')
      where entrypoint ->> 'shell' is not null and holdfast.first_word(entrypoint ->> 'shell') is null;
    perform holdfast.refuse_field('entrypoint.function', 'is not an import path; write it like package.module:name')
      where entrypoint ->> 'function' !~ ('^' || dotted || ':' || dotted || '$');
    perform holdfast.refuse_field('entrypoint.pickle', 'is empty; give a pickled callable')
      where entrypoint ->> 'pickle' = '';
    perform case when entrypoint ->> 'function' is null
                 then holdfast.refuse_field('entrypoint.' || field, 'goes with function only')
                 else holdfast.check_value('entrypoint.' || field, entrypoint -> field) end
       from unnest(array['args', 'kwargs']) as field
      where entrypoint -> field not in ('[]', '{}');
end $function$;

CREATE OR REPLACE FUNCTION holdfast.check_texts(spec jsonb, limits holdfast.limits)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
    field text;
begin
    foreach field in array array['name', 'type', 'owner', 'queue', 'idempotency_key', 'correlation_id',
                                 'trace_id'] loop
        perform holdfast.refuse_field(field, 'is empty; leave it out or give it a value') where spec ->> field = '';
        perform holdfast.check_size(field, length(spec ->> field), limits.text_length_max, 'characters');
    end loop;
    perform holdfast.refuse_field('idempotency_key',
                'begins with holdfast:, which is kept for jobs that the server submits; use another')
      where spec ->> 'idempotency_key' like 'holdfast:%';
    perform holdfast.refuse_field('queue', format(
                '%L is not a queue name; use letters, digits and ._:/-', spec ->> 'queue'))
      where spec ->> 'queue' !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]*$';
    foreach field in array array['labels', 'environment'] loop
        perform case when key = '' then holdfast.refuse_field(field, 'has an empty name; give it one') end,
                holdfast.check_size(field, length(key), limits.text_length_max, 'characters'),
                holdfast.check_size(field || '.' || key, length(value), limits.error_length_max, 'characters')
           from jsonb_each_text(spec -> field);
    end loop;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.check_numbers(spec jsonb, limits holdfast.limits)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
    year constant numeric := 366 * 86400;
begin
    perform holdfast.refuse_field(field, format('is out of range; use %s to %s', lowest, highest))
       from (values ('max_retries_failure', numeric '0', limits.retries_max::numeric),
                    ('max_retries_preemption', 0, limits.retries_max),
                    ('max_attempts', 1, limits.retries_max + 1),
                    ('max_task_failures', 0, limits.tasks_max),
                    ('replicas', 1, limits.tasks_max),
                    ('priority', -1000000, 1000000),
                    ('lease', limits.lease_seconds_min::numeric, limits.lease_seconds_max::numeric),
                    ('timeout', 0.001, year),
                    ('scheduling_timeout', 0.001, year),
                    ('grace', 0, 86400),
                    ('not_before', 0, 253370764800),
                    ('backoff.base', 0, 86400),
                    ('backoff.factor', 1, 100),
                    ('backoff.ceiling', coalesce((spec #>> '{backoff,base}')::numeric, 0.5), 86400)
            ) as ranges(field, lowest, highest)
      where coalesce((spec #>> string_to_array(field, '.'))::numeric, case field when 'backoff.ceiling' then 60 end)
            not between lowest and highest;
    perform holdfast.refuse_field('max_attempts', 'means max_retries_failure + 1; give one of the two')
      where num_nonnulls(spec ->> 'max_attempts', spec ->> 'max_retries_failure') = 2;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.check_inputs(spec jsonb, inputs jsonb, limits holdfast.limits)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
    num_tasks int;
begin
    perform holdfast.refuse_field('replicas', 'goes without inputs; give one of the two')
      where inputs is not null and spec ->> 'replicas' is not null;
    perform holdfast.refuse_field('inputs', 'is not an array; give one') where jsonb_typeof(inputs) <> 'array';
    perform holdfast.refuse_field('inputs', 'is empty; give at least one input') where inputs = '[]';
    num_tasks := coalesce(jsonb_array_length(inputs), (spec ->> 'replicas')::int, 1);
    perform holdfast.refuse_field(case when inputs is null then 'replicas' else 'inputs' end, format(
                '%s tasks is over the limit of %s tasks in one transaction; submit them through the server',
                num_tasks, limits.batch_tasks_max))
      where num_tasks > limits.batch_tasks_max;
    perform holdfast.check_size(field, octet_length(value::text), limits.input_bytes_max, 'bytes'),
            holdfast.check_value(field, value)
       from (select format('inputs[%s]', position - 1) as field, value
               from jsonb_array_elements(inputs) with ordinality as each(value, position)) as given;
    return num_tasks;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.first_word(line text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select substring(line from '[^\x09-\x0d\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+')
$function$;

CREATE OR REPLACE FUNCTION holdfast.complete_spec(spec jsonb, fan_out boolean, limits holdfast.limits)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
    entrypoint constant jsonb := spec -> 'entrypoint';
    placed constant boolean := spec ->> 'queue' is null;
    name constant text := coalesce(spec ->> 'name', left(case
        when entrypoint ->> 'function' is not null then split_part(entrypoint ->> 'function', ':', 2)
        when entrypoint ->> 'shell' is not null then holdfast.first_word(entrypoint ->> 'shell')
        when entrypoint ->> 'pickle' is not null then 'pickle'
        else coalesce(nullif(regexp_replace(rtrim(entrypoint #>> '{command,0}', '/'), '^.*/', ''), ''), 'command')
        end, limits.text_length_max));
    defaults constant jsonb := jsonb_build_object(
        'name', name,
        'type', name,
        'owner', 'anonymous',
        'max_retries_failure', coalesce((spec ->> 'max_attempts')::int - 1, 0),
        'max_retries_preemption', case when placed then 100 else 5 end,
        'on_exhausted', case when placed then 'fail' else 'dead_letter' end,
        'on_timeout', case when placed then 'kill' else 'fail' end,
        'lease', least(limits.lease_seconds_max, greatest(
            limits.lease_seconds_min, case when placed then 60 else 30 end)),
        'grace', 30)
        || case when fan_out then '{}' else '{"replicas": 1, "max_task_failures": 0}'::jsonb end;
    own constant jsonb := (
        select jsonb_object_agg(key, case key
                   when 'entrypoint' then (select jsonb_object_agg(part.key, part.value) from jsonb_each(value) as part
                                            where part.value not in ('null', '[]', '{}'))
                   when 'backoff' then '{"base": 0.5, "factor": 2, "ceiling": 60}' || value
                   else value end)
          from jsonb_each(spec)
         where value <> 'null' and key <> 'max_attempts'
           and (key, value) not in (('environment', '{}'), ('labels', '{}'), ('priority', '0')));
begin
    return defaults || own;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.add_announced(spec jsonb, fan_out boolean)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
    own constant jsonb := (
        select jsonb_object_agg(key, value) from jsonb_each(spec)
         where value <> 'null' and key <> 'placed'
           and (key, value) not in (('environment', '{}'), ('labels', '{}')));
    announced jsonb;
begin
    select options into announced from holdfast.functions where path = spec #>> '{entrypoint,function}';
    if not found
       or (announced -> 'only_in_queue' = 'true' and own ->> 'queue' is distinct from announced ->> 'queue') then
        return spec - 'placed';
    end if;
    announced := announced - 'only_in_queue';
    if spec -> 'placed' = 'true' then
        announced := announced - 'queue';
    end if;
    if own ? 'queue' and not announced ? 'queue' then
        announced := announced - '{resources,constraints,coscheduling,bundle,requirements}'::text[];
    end if;
    if own ? 'max_attempts' then
        announced := announced - 'max_retries_failure';
    end if;
    if fan_out then
        announced := announced - 'replicas';
    end if;
    if own ? 'idempotency_key' then
        announced := announced - 'owner';
    end if;
    return announced || own;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.refuse_beyond(field text, given jsonb, type text, lowest jsonb, highest jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
    perform holdfast.refuse_field(field, format(
                '%s is beyond what type %s allows; use at most %s', given, type, highest))
      where given > highest;
    perform holdfast.refuse_field(field, format(
                '%s is beyond what type %s allows; use at least %s', given, type, lowest))
      where given < lowest;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.follow_policy(spec jsonb, plain jsonb, num_tasks integer, policy jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
    defaults constant jsonb := coalesce(policy -> 'defaults', '{}');
    limits constant jsonb := coalesce(policy -> 'limits', '{}');
    own constant jsonb := jsonb_strip_nulls(spec);
    field record;
    given jsonb;
    filled jsonb := spec;
begin
    for field in
        select * from (values ('lease', limits -> 'lease_min', limits -> 'lease_max'),
                              ('max_retries_failure', null, limits -> 'max_retries_failure'),
                              ('max_retries_preemption', null, limits -> 'max_retries_preemption'),
                              ('timeout', null, limits -> 'timeout'),
                              ('grace', null, limits -> 'grace'),
                              ('priority', null, limits -> 'priority')) as ranges(name, lowest, highest)
    loop
        if field.name = 'max_retries_failure' and own ? 'max_attempts' then
            perform holdfast.refuse_beyond('max_attempts', own -> 'max_attempts', plain ->> 'type', null,
                                           to_jsonb((field.highest)::int + 1));
            continue;
        end if;
        given := own -> field.name;
        if given is not null then
            perform holdfast.refuse_beyond(field.name, given, plain ->> 'type', field.lowest, field.highest);
            continue;
        end if;
        given := coalesce(defaults -> field.name, plain -> field.name,
                          case field.name when 'priority' then jsonb '0' end);
        if given is null or given > field.highest then
            given := coalesce(field.highest, given);
        elsif given < field.lowest then
            given := field.lowest;
        end if;
        if given is not null then
            filled := filled || jsonb_build_object(field.name, given);
        end if;
    end loop;
    if own ? 'backoff' then
        perform holdfast.refuse_beyond('backoff.ceiling', coalesce(own #> '{backoff,ceiling}', '60'),
                                       plain ->> 'type', null, limits -> 'backoff_ceiling');
    elsif defaults ? 'backoff' or coalesce(limits ->> 'backoff_ceiling', '60')::numeric < 60 then
        filled := filled || jsonb_build_object('backoff', coalesce(
            defaults -> 'backoff',
            jsonb_build_object('base', least(0.5, (limits ->> 'backoff_ceiling')::numeric),
                               'ceiling', limits -> 'backoff_ceiling')));
    end if;
    for field in select name from unnest(array['on_exhausted', 'on_timeout', 'verbose_events']) as name loop
        if own ? field.name then
            perform holdfast.refuse_field(field.name, format(
                        'type %s allows %s only', plain ->> 'type', limits ->> field.name))
              where own -> field.name <> limits -> field.name;
        elsif coalesce(limits -> field.name, defaults -> field.name) is not null then
            filled := filled || jsonb_build_object(
                field.name, coalesce(limits -> field.name, defaults -> field.name));
        end if;
    end loop;
    perform holdfast.refuse_beyond(case when own ? 'replicas' then 'replicas' else 'inputs' end, to_jsonb(num_tasks),
                                   plain ->> 'type', null, limits -> 'tasks');
    return filled;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.refuse_commit_without_success()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    if not exists (select from holdfast.tasks
                    where job_id = new.job_id and task_index = new.task_index
                      and attempt = new.attempt and state = 4) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('attempt %s of task %s.%s has not succeeded', new.attempt, new.job_id, new.task_index);
    end if;
    return null;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.refuse_entries_of_unopen_versions()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    if (select count(*) from (select distinct dataset, version from added) as wanted) <>
       (select count(*) from (
           select 1 from holdfast.dataset_versions
            where (dataset, version) in (select distinct dataset, version from added) and state = 'open'
            order by dataset, version for share) as held) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = 'an entry was to go into a version that is not open';
    end if;
    return null;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.refuse_entries_without_commit()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    if exists (select from added
                where copied_from is null
                  and not exists (select from holdfast.commits
                                   where commits.job_id = added.job_id and commits.task_index = added.task_index
                                     and commits.attempt = added.attempt)) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = 'an entry was to be written without the commit of its task';
    end if;
    return null;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.refuse_removal_from_sealed_versions()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    perform 1 from holdfast.dataset_versions
      where (dataset, version) in (select distinct dataset, version from removed) and state = 'sealed'
      order by dataset, version for share;
    if found then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = 'an entry was to be removed from a sealed version';
    end if;
    return null;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.refuse_delete_of_known_version()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    if old.state <> 'open' or old.opened_by_job is null
       or exists (select from holdfast.dataset_entries where dataset = old.dataset and version = old.version) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('version %s of dataset %s is remembered', old.version, old.dataset);
    end if;
    return old;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.refuse_drop_of_current_version()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    if exists (select from holdfast.datasets where name = new.dataset and current_version = new.version) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('version %s of dataset %s is the current one', new.version, new.dataset);
    end if;
    return new;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.refuse_unsealed_current_version()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    perform 1 from holdfast.dataset_versions
      where dataset = new.name and version = new.current_version and state = 'sealed' for share;
    if not found then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('version %s of dataset %s is not sealed', new.current_version, new.name);
    end if;
    return new;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.refuse_unrecorded_cut_over()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    if (select current_version from holdfast.datasets where name = new.name) is distinct from
       (select version from holdfast.cut_overs where dataset = new.name order by number desc limit 1) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('dataset %s was cut over without a record', new.name);
    end if;
    return null;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.refuse_delete_of_live_job()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    -- Of a range that is being pruned the tasks go last, all at once.
    if old.finished_at is not null and exists (
           select from holdfast.partitions
            where retired_at is not null and old.job_id >= first_job_id and old.job_id < end_job_id) then
        return old;
    end if;
    if exists (select from holdfast.tasks where job_id = old.job_id) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('job %s still has tasks', old.job_id);
    end if;
    return old;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.name_trace()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
    new.trace_id := replace(pg_catalog.gen_random_uuid()::text, '-', '');
    return new;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.write_submissions()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, actor, cause, payload, txid)
    select job_id, -1, 0, -1, event_type, event_at, event_actor, event_cause, event_payload, txid_current()
      from stored where seq = 1;
    insert into holdfast.job_states (state, job_id) select state, job_id from stored where seq = 1;
    return null;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.write_job_event()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, actor, cause, payload, txid)
    values (new.job_id, -1, new.seq - 1, -1, new.event_type, new.event_at, new.event_actor,
            new.event_cause, new.event_payload, txid_current());
    if new.seq = 1 then
        insert into holdfast.job_states (state, job_id) values (new.state, new.job_id);
    elsif new.state = 4 and old.state <> 4 then
        delete from holdfast.job_states where state = old.state and job_id = new.job_id;
    elsif new.state <> old.state then
        update holdfast.job_states set state = new.state where state = old.state and job_id = new.job_id;
    end if;
    return null;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.forget_job_state()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    delete from holdfast.job_states where state = old.state and job_id = old.job_id;
    return null;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.keep_labels()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    insert into holdfast.job_labels (label, job_id)
    select distinct holdfast.label_hash(key, value), new.job_id from jsonb_each_text(new.labels);
    return null;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.drop_labels()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    delete from holdfast.job_labels
     where job_id = old.job_id
       and label in (select holdfast.label_hash(key, value) from jsonb_each_text(old.labels));
    return null;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.refuse_task_left_ended()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION holdfast.write_task_events()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, actor, cause, payload, txid)
    select job_id, task_index, seq - 1, attempt,
           case when state = 9 and placed then 'placed'
                else ('{NULL,retried,building,started,succeeded,failed,killed,worker_failed,unschedulable,'
                      'claimed,dead_lettered}'::holdfast.event_type[])[state + 1] end,
           moved_at, actor, cause,
           case when state = 1 then jsonb_build_object(
               'eligible_at', eligible_at, 'failure_count', failure_count,
               'preemption_count', preemption_count) end,
           txid_current()
      from moved;
    return null;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.refuse_delete_of_shown_task()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    if exists (select from holdfast.jobs where job_id = old.job_id and submitted_at is not null) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('task %s.%s belongs to a submitted job', old.job_id, old.task_index);
    end if;
    return old;
end $function$;
