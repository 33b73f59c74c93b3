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
    compatible_with integer,
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
    unique_states integer,
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
CREATE TRIGGER a_job_lets_go_of_its_unique_key AFTER UPDATE OF state, cancel_mode ON holdfast.jobs FOR EACH ROW WHEN (new.unique_states IS NOT NULL AND (((new.unique_states >> new.state::integer) & 1) = 0 OR new.state = 1 AND new.cancel_mode IS NOT NULL) AND (new.state <> old.state OR new.cancel_mode IS DISTINCT FROM old.cancel_mode)) EXECUTE FUNCTION holdfast.release_unique_key();
CREATE TRIGGER a_job_only_moves_forward AFTER UPDATE OF job_id, num_tasks, spec, state, seq, event_type, event_at, submitted_at, finished_at, cancel_mode ON holdfast.jobs FOR EACH ROW WHEN (new.state <> old.state AND (old.finished_at IS NOT NULL OR new.seq <> (old.seq + 1) OR new.submitted_at IS NULL OR NOT (new.state = 3 AND old.state = 1 OR new.finished_at IS NOT NULL)) OR new.seq <> old.seq AND new.seq <> (old.seq + 1) OR new.seq = (old.seq + 1) AND new.event_type IS DISTINCT FROM
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
CREATE TRIGGER a_job_starts_after_what_it_depends_on AFTER UPDATE OF unmet, started_at, assigned, building, running ON holdfast.jobs FOR EACH ROW WHEN (new.unmet > 0 AND (new.started_at IS NOT NULL OR (new.assigned + new.building + new.running) > 0)) EXECUTE FUNCTION holdfast.refuse();
CREATE TRIGGER a_job_that_expires_is_noted AFTER INSERT ON holdfast.jobs FOR EACH ROW WHEN (new.spec ?| '{expires,expires_at}'::text[]) EXECUTE FUNCTION holdfast.note_expiry();
CREATE TRIGGER a_listed_state_goes_with_its_job AFTER DELETE ON holdfast.jobs FOR EACH ROW WHEN (old.state <> 4 AND old.submitted_at IS NOT NULL) EXECUTE FUNCTION holdfast.forget_job_state();
CREATE TRIGGER a_submission_is_an_event AFTER INSERT ON holdfast.jobs REFERENCING NEW TABLE AS stored FOR EACH STATEMENT EXECUTE FUNCTION holdfast.write_submissions();
CREATE TRIGGER a_unique_job_knows_its_states BEFORE INSERT ON holdfast.jobs FOR EACH ROW WHEN (new.spec ? 'unique'::text) EXECUTE FUNCTION holdfast.note_unique_states();
CREATE TRIGGER a_unique_key_goes_with_its_job AFTER DELETE ON holdfast.jobs FOR EACH ROW WHEN (old.unique_states IS NOT NULL) EXECUTE FUNCTION holdfast.release_unique_key();
CREATE TRIGGER an_expiry_goes_with_its_job AFTER DELETE ON holdfast.jobs FOR EACH ROW WHEN (old.spec ?| '{expires,expires_at}'::text[]) EXECUTE FUNCTION holdfast.forget_expiry();
CREATE TRIGGER every_job_event_is_written AFTER UPDATE OF seq ON holdfast.jobs FOR EACH ROW WHEN (new.seq <> old.seq) EXECUTE FUNCTION holdfast.write_job_event();
CREATE TRIGGER labels_are_kept_with_their_job AFTER INSERT ON holdfast.jobs FOR EACH ROW WHEN (new.labels <> '{}'::jsonb) EXECUTE FUNCTION holdfast.keep_labels();
CREATE TRIGGER labels_go_with_their_job AFTER DELETE ON holdfast.jobs FOR EACH ROW WHEN (old.labels <> '{}'::jsonb) EXECUTE FUNCTION holdfast.drop_labels();
CREATE TRIGGER what_a_job_depends_on_is_settled_once AFTER UPDATE OF unmet, released_at, submitted_at, graph_id, compensates_job_id ON holdfast.jobs FOR EACH ROW WHEN (new.unmet > old.unmet OR old.released_at IS NOT NULL AND new.released_at IS DISTINCT FROM old.released_at OR old.submitted_at IS NOT NULL AND (old.graph_id IS DISTINCT FROM new.graph_id OR old.compensates_job_id IS DISTINCT FROM new.compensates_job_id)) EXECUTE FUNCTION holdfast.refuse();

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
    claim_seq integer,
    constraint tasks_pkey PRIMARY KEY (job_id, task_index),
    constraint a_task_has_a_state_it_can_have CHECK (state >= 1 AND state <= 10),
    constraint a_task_index_is_not_negative CHECK (task_index >= 0),
    constraint counters_are_not_negative CHECK (LEAST(attempt, seq, failure_count, preemption_count, free_loss_count) >= 0),
    constraint a_live_task_is_not_finished CHECK (finished_at IS NULL OR (state <> ALL (ARRAY[1, 2, 3, 9]))),
    constraint a_final_state_is_finished CHECK (finished_at IS NOT NULL OR (state <> ALL (ARRAY[4, 8, 10])))
)
partition by RANGE (job_id);
CREATE TRIGGER a_task_is_born_pending BEFORE INSERT ON holdfast.tasks FOR EACH ROW WHEN (NOT (new.state = 1 AND new.attempt = 0 AND new.seq = 0 AND new.failure_count = 0 AND new.preemption_count = 0 AND new.free_loss_count = 0 AND new.claim_seq IS NULL)) EXECUTE FUNCTION holdfast.refuse();
CREATE TRIGGER a_task_keeps_its_identity BEFORE UPDATE OF job_id, task_index ON holdfast.tasks FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse();
CREATE TRIGGER a_task_of_a_submitted_job_stays BEFORE DELETE ON holdfast.tasks FOR EACH ROW EXECUTE FUNCTION holdfast.refuse_delete_of_shown_task();
CREATE TRIGGER a_task_only_moves_forward AFTER UPDATE ON holdfast.tasks FOR EACH ROW WHEN (NOT (old.finished_at IS NULL AND (((('{0,1856,232,240,0,1026,1024,1026,0,236,0}'::integer[])[old.state + 1] >> new.state::integer) & 1) = 1 AND new.seq = (old.seq + 1) AND NOT new.claim_seq IS DISTINCT FROM old.claim_seq OR old.state = 1 AND new.state = 3 AND new.seq = (old.seq + 2) AND NOT new.claim_seq IS DISTINCT FROM old.seq) AND new.attempt = (old.attempt + (new.state = 1)::integer) AND new.failure_count >= old.failure_count AND new.preemption_count >= old.preemption_count AND new.moved_at >= old.moved_at)) EXECUTE FUNCTION holdfast.refuse();
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
    held bigint[],
    slots integer,
    constraint one_unreleased_attempt_per_task PRIMARY KEY (job_id, task_index),
    constraint a_lease_lasts_a_while CHECK (duration > '00:00:00'::interval)
)
with (autovacuum_analyze_threshold=20000, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, fillfactor=60);
CREATE INDEX leases_asked_to_stop ON holdfast.leases USING btree (worker_id) WHERE ending OR cancel_requested_at IS NOT NULL;
CREATE INDEX placed_leases_of_a_worker ON holdfast.leases USING btree (worker_id) WHERE placed;
CREATE INDEX claimed_leases_of_a_book ON holdfast.leases USING btree (book) WHERE book IS NOT NULL;
CREATE INDEX slots_held_1 ON holdfast.leases USING btree ((held[1])) INCLUDE (slots) WHERE held[1] IS NOT NULL;
CREATE INDEX slots_held_2 ON holdfast.leases USING btree ((held[2])) INCLUDE (slots) WHERE held[2] IS NOT NULL;
CREATE INDEX slots_held_3 ON holdfast.leases USING btree ((held[3])) INCLUDE (slots) WHERE held[3] IS NOT NULL;
CREATE INDEX slots_held_4 ON holdfast.leases USING btree ((held[4])) INCLUDE (slots) WHERE held[4] IS NOT NULL;
CREATE TRIGGER a_lease_keeps_its_identity AFTER UPDATE OF job_id, task_index, attempt, lease_token, created_at, ending ON holdfast.leases FOR EACH ROW WHEN (new.job_id <> old.job_id OR new.task_index <> old.task_index OR new.attempt <> old.attempt OR new.lease_token <> old.lease_token OR new.created_at <> old.created_at OR old.ending AND NOT new.ending) EXECUTE FUNCTION holdfast.refuse();

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
    on_failure text,
    constraint a_job_depends_on_another_once PRIMARY KEY (job_id, depends_on),
    constraint a_job_depends_on_earlier_ones CHECK (depends_on < job_id),
    constraint a_condition_is_known CHECK (condition = ANY (ARRAY['succeeded'::text, 'failed'::text, 'ended'::text])),
    constraint a_closed_dependency_holds_or_not CHECK ((closed_at IS NULL) = (holds IS NULL)),
    constraint a_chain_goes_on_or_stands_still CHECK (on_failure = ANY (ARRAY['pass'::text, 'block'::text]))
);
CREATE INDEX dependents_of_a_job ON holdfast.dependencies USING btree (depends_on, job_id);
CREATE INDEX open_dependencies ON holdfast.dependencies USING btree (depends_on, job_id) WHERE closed_at IS NULL;
CREATE TRIGGER a_chain_waits_for_all_before BEFORE UPDATE OF closed_at ON holdfast.dependencies FOR EACH ROW WHEN (old.on_failure IS NOT NULL AND old.closed_at IS NULL AND new.closed_at IS NOT NULL) EXECUTE FUNCTION holdfast.keep_chain_waiting();
CREATE TRIGGER a_dependency_is_closed_once BEFORE UPDATE ON holdfast.dependencies FOR EACH ROW WHEN (old.closed_at IS NOT NULL OR old.job_id IS DISTINCT FROM new.job_id OR old.condition IS DISTINCT FROM new.condition OR old.on_failure IS DISTINCT FROM new.on_failure AND NOT (old.on_failure = 'block'::text AND new.on_failure = 'pass'::text) OR old.depends_on <> new.depends_on AND (old.on_failure IS NULL OR new.closed_at IS NOT NULL OR new.depends_on > old.depends_on)) EXECUTE FUNCTION holdfast.refuse();

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
    version text collate "C",
    clock_skew_seconds double precision,
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

create table holdfast.servers (
    server_id uuid not null,
    host text collate "C" not null,
    version text collate "C" not null,
    migration integer not null,
    started_at timestamp with time zone not null,
    seen_at timestamp with time zone not null,
    clock_skew_seconds double precision not null,
    report jsonb not null,
    constraint servers_pkey PRIMARY KEY (server_id)
);

create table holdfast.usage_limits (
    limit_id bigint not null generated always as identity,
    name text collate "C" not null,
    scope text not null,
    only_for text collate "C",
    in_queue text collate "C",
    in_type text collate "C",
    kind text not null,
    most double precision not null,
    period interval,
    burst double precision,
    updated_at timestamp with time zone not null,
    updated_by text not null,
    constraint usage_limits_pkey PRIMARY KEY (limit_id),
    constraint a_limit_has_a_name_of_its_own UNIQUE (name),
    constraint a_limit_has_a_known_scope CHECK (scope = ANY (ARRAY['queue'::text, 'type'::text, 'owner'::text, 'key'::text, 'name'::text])),
    constraint a_limit_is_of_a_known_kind CHECK (kind = ANY (ARRAY['concurrency'::text, 'bucket'::text, 'window'::text])),
    constraint a_limit_allows_something CHECK (most >= 0::double precision AND most < 'Infinity'::double precision),
    constraint slots_are_whole CHECK (kind <> 'concurrency'::text OR most = floor(most)),
    constraint a_rate_has_a_period CHECK ((kind = 'concurrency'::text) = (period IS NULL) AND period > '00:00:00'::interval),
    constraint a_token_bucket_has_a_burst CHECK ((kind = 'bucket'::text) = (burst IS NOT NULL) AND burst > 0::double precision)
);

create table holdfast.limit_buckets (
    bucket_id bigint not null generated always as identity,
    limit_id bigint not null,
    value text collate "C" not null,
    tokens double precision,
    filled_at timestamp with time zone,
    open_at timestamp with time zone,
    open_queue text collate "C",
    gang_urgency integer,
    gang_eligible_at timestamp with time zone,
    gang_job_id bigint,
    gang_task_index integer,
    gang_slots integer,
    gang_until timestamp with time zone,
    constraint limit_buckets_pkey PRIMARY KEY (bucket_id),
    constraint one_bucket_per_limit_and_value UNIQUE (limit_id, value),
    constraint limit_buckets_limit_id_fkey FOREIGN KEY (limit_id) REFERENCES holdfast.usage_limits(limit_id) ON DELETE CASCADE
)
with (fillfactor=70);
CREATE INDEX buckets_that_open ON holdfast.limit_buckets USING btree (open_queue, open_at) WHERE open_at IS NOT NULL;

create table holdfast.limit_spent (
    bucket_id bigint not null,
    slice timestamp with time zone not null,
    spent double precision not null,
    constraint one_sum_per_slice PRIMARY KEY (bucket_id, slice),
    constraint limit_spent_bucket_id_fkey FOREIGN KEY (bucket_id) REFERENCES holdfast.limit_buckets(bucket_id) ON DELETE CASCADE
)
with (fillfactor=70);

create table holdfast.gated (
    job_id bigint not null,
    task_index integer not null,
    queue text collate "C" not null,
    urgency integer not null,
    eligible_at timestamp with time zone not null,
    unschedulable_at timestamp with time zone,
    avoid text,
    bucket_id bigint,
    share_id bigint,
    slots integer not null default 1,
    gated_at timestamp with time zone not null,
    constraint a_task_is_gated_once PRIMARY KEY (job_id, task_index),
    constraint a_task_is_gated_by_one_thing CHECK (num_nonnulls(bucket_id, share_id) = 1)
)
with (autovacuum_analyze_threshold=20000, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=20000);
CREATE INDEX gated_by_a_bucket ON holdfast.gated USING btree (bucket_id, urgency, eligible_at, job_id, task_index) WHERE bucket_id IS NOT NULL;
CREATE INDEX gated_with_several_slots ON holdfast.gated USING btree (bucket_id, urgency, eligible_at, job_id, task_index) WHERE bucket_id IS NOT NULL AND slots > 1;
CREATE INDEX gated_by_a_share ON holdfast.gated USING btree (share_id, urgency, eligible_at, job_id, task_index) WHERE share_id IS NOT NULL;
CREATE INDEX gated_with_a_deadline ON holdfast.gated USING btree (unschedulable_at) WHERE unschedulable_at IS NOT NULL;

create table holdfast.schedules (
    schedule_id bigint not null generated always as identity,
    name text collate "C" not null,
    spec jsonb not null,
    inputs json,
    placed boolean not null default false,
    terms jsonb not null,
    declared_by text collate "C",
    created_at timestamp with time zone not null,
    created_by text not null,
    changed_at timestamp with time zone not null,
    changed_by text not null,
    version bigint not null default 1,
    paused_at timestamp with time zone,
    paused_by text,
    retired_at timestamp with time zone,
    next_at timestamp with time zone,
    due_at timestamp with time zone,
    problem text,
    constraint schedules_pkey PRIMARY KEY (schedule_id),
    constraint schedules_name_key UNIQUE (name),
    constraint a_schedule_that_rests_is_not_due CHECK (due_at IS NULL OR paused_at IS NULL AND retired_at IS NULL),
    constraint what_is_due_has_an_instant CHECK ((next_at IS NULL) = (due_at IS NULL)),
    constraint only_declared_schedules_retire CHECK (retired_at IS NULL OR declared_by IS NOT NULL),
    constraint a_pause_has_its_author CHECK ((paused_at IS NULL) = (paused_by IS NULL))
);
CREATE INDEX schedules_by_due ON holdfast.schedules USING btree (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX declared_schedules ON holdfast.schedules USING btree (declared_by) WHERE declared_by IS NOT NULL;

create table holdfast.schedule_firings (
    schedule_id bigint not null,
    instant timestamp with time zone not null,
    kind text not null,
    outcome text not null,
    job_id bigint,
    problem text,
    fired_at timestamp with time zone not null,
    is_open boolean not null default false,
    constraint an_instant_fires_once PRIMARY KEY (schedule_id, instant),
    constraint firings_are_of_a_kind CHECK (kind = ANY (ARRAY['scheduled'::text, 'caught_up'::text, 'manual'::text, 'backfill'::text])),
    constraint firings_have_an_outcome CHECK (outcome = ANY (ARRAY['fired'::text, 'skipped'::text, 'refused'::text])),
    constraint what_was_fired_has_a_job CHECK ((outcome = 'fired'::text) = (job_id IS NOT NULL)),
    constraint what_was_not_fired_says_why CHECK ((outcome = 'fired'::text) = (problem IS NULL)),
    constraint only_jobs_are_open CHECK (NOT is_open OR job_id IS NOT NULL)
);
CREATE UNIQUE INDEX a_job_is_of_one_firing ON holdfast.schedule_firings USING btree (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX open_firings ON holdfast.schedule_firings USING btree (schedule_id, instant) WHERE is_open;
CREATE INDEX firings_by_age ON holdfast.schedule_firings USING btree (fired_at);

create table holdfast.schedule_misses (
    schedule_id bigint not null,
    first_instant timestamp with time zone not null,
    last_instant timestamp with time zone not null,
    instants bigint not null,
    noted_at timestamp with time zone not null,
    constraint an_instant_is_missed_once PRIMARY KEY (schedule_id, first_instant),
    constraint misses_have_an_order CHECK (first_instant <= last_instant AND instants > 0)
);
CREATE INDEX misses_by_age ON holdfast.schedule_misses USING btree (noted_at);

create table holdfast.unique_jobs (
    digest bytea not null,
    job_id bigint not null,
    constraint one_job_per_unique_key PRIMARY KEY (digest)
)
with (autovacuum_analyze_threshold=20000, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=20000, fillfactor=90);
CREATE UNIQUE INDEX a_job_holds_one_unique_key ON holdfast.unique_jobs USING btree (job_id);

create table holdfast.expiries (
    job_id bigint not null,
    expires_at timestamp with time zone not null,
    next_index integer not null default 0,
    constraint expiries_pkey PRIMARY KEY (job_id)
);
CREATE INDEX expiries_by_time ON holdfast.expiries USING btree (expires_at);

create table holdfast.signals (
    job_id bigint not null,
    task_index integer not null,
    name text collate "C" not null,
    number integer not null,
    payload json not null,
    sent_at timestamp with time zone not null,
    sent_by text not null,
    idempotency_key text,
    constraint a_signal_is_kept_once PRIMARY KEY (job_id, task_index, name, number),
    constraint a_signal_has_a_name CHECK (length(name) >= 1 AND length(name) <= 200)
);
CREATE UNIQUE INDEX a_key_sends_one_signal ON holdfast.signals USING btree (job_id, task_index, idempotency_key) WHERE idempotency_key IS NOT NULL;

create table holdfast.signal_waits (
    job_id bigint not null,
    task_index integer not null,
    name text collate "C" not null,
    number integer not null,
    attempt integer not null,
    since timestamp with time zone not null,
    until timestamp with time zone,
    parked_at timestamp with time zone,
    ended_at timestamp with time zone,
    signal_number integer,
    constraint a_wait_is_asked_in_its_turn PRIMARY KEY (job_id, task_index, name, number),
    constraint a_signal_ends_one_wait UNIQUE (job_id, task_index, name, signal_number),
    constraint a_signal_ends_its_wait CHECK (signal_number IS NULL OR ended_at IS NOT NULL)
);

create table holdfast.share_rules (
    rule_id bigint not null generated always as identity,
    queue text collate "C" not null,
    share_by text not null,
    age_step interval,
    age_max integer not null default 0,
    updated_at timestamp with time zone not null,
    updated_by text not null,
    sorted_at timestamp with time zone,
    ended_at timestamp with time zone,
    constraint share_rules_pkey PRIMARY KEY (rule_id),
    constraint a_queue_has_one_rule_of_shares UNIQUE (queue),
    constraint shares_are_by_what_a_job_says CHECK (share_by = ANY (ARRAY['owner'::text, 'key'::text, 'nothing'::text])),
    constraint ageing_has_a_step_and_a_bound CHECK ((age_step IS NULL) = (age_max = 0) AND age_max >= 0 AND age_max <= 1000),
    constraint a_step_of_ageing_takes_time CHECK (age_step > '00:00:00'::interval)
);

create table holdfast.share_weights (
    rule_id bigint not null,
    value text collate "C" not null,
    weight double precision not null,
    constraint one_weight_per_value PRIMARY KEY (rule_id, value),
    constraint share_weights_rule_id_fkey FOREIGN KEY (rule_id) REFERENCES holdfast.share_rules(rule_id) ON DELETE CASCADE,
    constraint a_weight_is_more_than_nothing CHECK (weight > 0::double precision AND weight < 'Infinity'::double precision)
);

create table holdfast.shares (
    share_id bigint not null generated always as identity,
    rule_id bigint not null,
    urgency integer not null,
    value text collate "C" not null,
    pass double precision not null,
    idle_at timestamp with time zone,
    constraint shares_pkey PRIMARY KEY (share_id),
    constraint one_share_per_value_and_urgency UNIQUE (rule_id, urgency, value),
    constraint shares_rule_id_fkey FOREIGN KEY (rule_id) REFERENCES holdfast.share_rules(rule_id) ON DELETE CASCADE
)
with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, fillfactor=70);
CREATE INDEX shares_in_turn ON holdfast.shares USING btree (rule_id, urgency, pass, share_id) WHERE idle_at IS NULL;
CREATE INDEX shares_by_pass ON holdfast.shares USING btree (rule_id, urgency, pass);

create table holdfast.chains (
    owner text collate "C" not null,
    key text collate "C" not null,
    last_job_id bigint,
    joined_at timestamp with time zone not null default holdfast.now(),
    constraint a_chain_has_one_last_job PRIMARY KEY (owner, key)
);
CREATE INDEX chains_by_last_job ON holdfast.chains USING btree (last_job_id);

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

CREATE OR REPLACE FUNCTION holdfast.walk_chain(last bigint)
 RETURNS TABLE(job_id bigint, is_over boolean, stops boolean)
 LANGUAGE sql
 STABLE
AS $function$
    with recursive walk(job_id, on_failure, is_over, failed) as (
        select jobs.job_id, 'block', jobs.finished_at is not null,
               jobs.state <> 4 and jobs.cancel_mode is null
          from holdfast.jobs where jobs.job_id = last
        union
        select earlier.*
          from walk
         cross join lateral (
               select jobs.job_id, dependencies.on_failure, jobs.finished_at is not null,
                      jobs.state <> 4 and jobs.cancel_mode is null
                 from holdfast.dependencies join holdfast.jobs on jobs.job_id = dependencies.depends_on
                where dependencies.job_id = walk.job_id and dependencies.closed_at is null
                  and dependencies.on_failure is not null
               offset 0) as earlier
         where walk.is_over
    )
    select walk.job_id, walk.is_over, walk.is_over and walk.failed and walk.on_failure = 'block' from walk
$function$;

CREATE OR REPLACE FUNCTION holdfast.find_in_chain(last bigint)
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
    select max(job_id) from holdfast.walk_chain(last) where not is_over
$function$;

CREATE OR REPLACE FUNCTION holdfast.find_stop(last bigint)
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
    select max(job_id) from holdfast.walk_chain(last) where stops
$function$;

CREATE OR REPLACE FUNCTION holdfast.choose_gated(bucket_ids bigint[], now timestamp with time zone, OUT job_ids bigint[], OUT task_indexes integer[])
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
#variable_conflict use_column
declare
    task record;
    last_bucket bigint;
    is_kept boolean;
    -- By queue: how much room is left for it, how many of it may be looked at, and how many were.
    rooms jsonb;
    looks jsonb := '{}';
    numbers jsonb;
    number int;
    room_left int;
begin
    for task in
        with roomy as materialized (
            select limit_buckets as bucket, usage_limits as mine, floor(measured.room)::int as room,
                   coalesce(usage_limits.burst, usage_limits.most) as most,
                   holdfast.gang_before(limit_buckets, now) is not null as is_kept
              from unnest(bucket_ids) as behind(bucket_id)
              join holdfast.limit_buckets using (bucket_id)
              join holdfast.usage_limits using (limit_id)
             cross join lateral holdfast.measure_bucket(usage_limits, limit_buckets, now) as measured
             where measured.room >= 1
               and (usage_limits.kind = 'concurrency' or limit_buckets.open_at < now - interval '2 seconds')
        )
        select roomy.mine, roomy.room, line.*
          from roomy
         cross join lateral (
               select gated.* from holdfast.gated
                where gated.bucket_id = (bucket).bucket_id and gated.slots <= roomy.most
                  -- Who comes after a gang for which the bucket is kept would be put back at once.
                  and (not is_kept or (bucket).gang_slots > most
                       or (gated.urgency, gated.eligible_at, gated.job_id, gated.task_index)
                          < ((bucket).gang_urgency, (bucket).gang_eligible_at, (bucket).gang_job_id,
                             (bucket).gang_task_index))
                order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index
                limit case when (select count(*) from roomy) > 10 then 100 else 1000 end) as line
         order by line.bucket_id, line.urgency, line.eligible_at, line.job_id, line.task_index
    loop
        if last_bucket is distinct from task.bucket_id then
            last_bucket := task.bucket_id;
            is_kept := false;
            rooms := '{}';
            numbers := '{}';
        end if;
        continue when is_kept;
        if not looks ? task.queue then
            looks := looks || jsonb_build_object(
                task.queue, case when exists (select from holdfast.ready where queue = task.queue) then 1 else 100 end);
        end if;
        number := coalesce((numbers ->> task.queue)::int, 0) + 1;
        numbers := numbers || jsonb_build_object(task.queue, number);
        room_left := coalesce((rooms ->> task.queue)::int, task.room);
        if number <= (looks ->> task.queue)::int and (room_left > 0 or task.slots > 1)
           and holdfast.waits_elsewhere(task.mine, task.room, task.job_id, task.task_index, task.slots, task.urgency,
                                        task.eligible_at, now) then
            room_left := room_left + task.slots;  -- goes through, and takes nothing
        elsif number > (looks ->> task.queue)::int or task.slots > room_left then
            is_kept := task.slots > 1;
            continue;
        end if;
        rooms := rooms || jsonb_build_object(task.queue, room_left - task.slots);
        job_ids := job_ids || task.job_id;
        task_indexes := task_indexes || task.task_index;
        exit when cardinality(job_ids) = 5000;
    end loop;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.waits_elsewhere(mine holdfast.usage_limits, room integer, job_id bigint, task_index integer, slots integer, urgency integer, eligible_at timestamp with time zone, now timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
#variable_conflict use_column
begin
    return (
        select true
          from holdfast.jobs
          join holdfast.tasks on tasks.job_id = jobs.job_id and tasks.task_index = waits_elsewhere.task_index
         cross join lateral (select coalesce(jobs.queue, '') as queue) as own
         cross join holdfast.usage_limits as other
         cross join lateral (select case other.scope when 'queue' then jobs.queue when 'type' then jobs.type
                                         when 'owner' then jobs.owner
                                         when 'key' then holdfast.limit_key(jobs.spec, tasks.input) end as value)
               as by_scope
         cross join lateral (select coalesce(other.burst, other.most) as most) as whole
          left join lateral (
               select * from holdfast.limit_buckets
                where limit_buckets.limit_id = other.limit_id and limit_buckets.value = by_scope.value
                limit 1) as bucket on true
         where jobs.job_id = waits_elsewhere.job_id and other.limit_id <> mine.limit_id
           and coalesce(other.only_for, by_scope.value) = by_scope.value
           and coalesce(other.in_queue, own.queue) = own.queue and coalesce(other.in_type, jobs.type) = jobs.type
           and (waits_elsewhere.slots > whole.most
                or waits_elsewhere.slots <= waits_elsewhere.room
                   and (other.scope <> 'queue' or other.in_type is not null)
                   and ((holdfast.measure_bucket(other, bucket, now)).room < waits_elsewhere.slots
                        or exists (
                            select from holdfast.gated
                             where gated.bucket_id = bucket.bucket_id and gated.bucket_id is not null
                               and gated.slots > 1 and gated.slots <= whole.most
                               and (gated.urgency, gated.eligible_at, gated.job_id, gated.task_index)
                                   < (waits_elsewhere.urgency, waits_elsewhere.eligible_at, waits_elsewhere.job_id,
                                      waits_elsewhere.task_index))))
         limit 1) is true;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.is_to_stop(ended_job_id bigint, ended_index integer, ended_attempt integer, deadline timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
    select coalesce(deadline <= holdfast.now(), false)
           or not exists (select from holdfast.attempts
                           where attempts.job_id = ended_job_id and attempts.task_index = ended_index
                             and attempts.attempt = ended_attempt and attempts.state = 4)
$function$;

CREATE OR REPLACE FUNCTION holdfast.complete(task_id text, attempt integer, lease_token uuid, result jsonb DEFAULT NULL::jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET standard_conforming_strings TO 'on'
 SET extra_float_digits TO '1'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
    parts text[] := regexp_match(complete.task_id, '^(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,8})$');
    kept constant text := nullif(complete.result, 'null')::text;
    id bigint;
    place int;
    start smallint;
    lease holdfast.leases;
    clock timestamptz;
    ended_at timestamptz;
    begun_at timestamptz;
begin
    perform holdfast.refuse_field('task_id', format('%L is not a task id; pass it as it came, such as 4182.3',
                                                    complete.task_id)) where parts is null;
    perform holdfast.refuse_field('attempt', 'is missing; pass the number of the attempt')
      where complete.attempt is null;
    perform holdfast.refuse_field('lease_token', 'is missing; pass the lease token of the attempt')
      where complete.lease_token is null;
    perform holdfast.check_value('result', complete.result) where kept is not null;
    perform holdfast.check_size('result', octet_length(kept), (select input_bytes_max from holdfast.limits), 'bytes');
    id := parts[1];
    place := parts[2];
    select state into start from holdfast.tasks where job_id = id and task_index = place for update;
    select leases.* into lease from holdfast.leases
     where leases.job_id = id and leases.task_index = place and leases.attempt = complete.attempt
       and leases.lease_token = complete.lease_token
       for update;
    if lease is null or lease.ending then
        if exists (select from holdfast.attempts
                    where attempts.job_id = id and attempts.task_index = place
                      and attempts.attempt = complete.attempt and attempts.lease_token = complete.lease_token
                      and attempts.state = 4) then
            raise exception using errcode = 'HF004',
                message = format('task %s: attempt %s has completed already; roll back, and change nothing more',
                                 complete.task_id, complete.attempt);
        end if;
        raise exception using errcode = 'HF003',
            message = format('task %s: attempt %s does not hold the lease, or no longer; roll back, and stop',
                             complete.task_id, complete.attempt);
    end if;
    perform holdfast.refuse_field('task_id', format(
        'job %s writes datasets; let the worker complete it, with what it has written', id))
      where exists (select from holdfast.job_outputs where job_outputs.job_id = id);
    perform holdfast.refuse_field('result', format(
        'job %s runs a pickle, whose result is one too; return it, or complete without a result', id))
      where kept is not null
        and (select jobs.spec -> 'entrypoint' ? 'pickle' from holdfast.jobs where jobs.job_id = id);
    clock := holdfast.now();
    -- The report of the start may be on its way: the code runs, at the latest since it was claimed.
    if start <> 3 then
        update holdfast.tasks
           set state = 3, seq = tasks.seq + 1, started_at = tasks.moved_at, actor = lease.worker_id,
               cause = null
         where tasks.job_id = id and tasks.task_index = place;
    end if;
    update holdfast.tasks
       set state = 4, seq = tasks.seq + 1, moved_at = greatest(clock, tasks.moved_at),
           finished_at = greatest(clock, tasks.moved_at), actor = lease.worker_id, cause = null, result = kept::json
     where tasks.job_id = id and tasks.task_index = place
    returning tasks.started_at, tasks.finished_at into begun_at, ended_at;
    update holdfast.leases set ending = true where leases.job_id = id and leases.task_index = place;
    insert into holdfast.attempts (job_id, task_index, attempt, worker_id, state, created_at, started_at, finished_at,
                                   exit_code, lease_token, last_lease_expires_at, reported)
    values (id, place, lease.attempt, lease.worker_id, 4, lease.created_at, begun_at, ended_at, 0,
            lease.lease_token, lease.expires_at, true);
    perform holdfast.count_moves(
        array[id], '{}', array[-(start = 9)::int], array[-(start = 2)::int],
        array[-(start = 3)::int], array[1], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', array[false]);
end $function$;
revoke all on function holdfast.complete(text,integer,uuid,jsonb) from public;

CREATE OR REPLACE FUNCTION holdfast.gate_crowds(job_ids bigint[], task_indexes integer[], adds_buckets boolean)
 RETURNS integer
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET join_collapse_limit TO '1'
 SET jit TO 'off'
AS $function$
declare
    mine text;
    num_gated int := 0;
begin
    if not holdfast.has_limits() then
        return 0;
    end if;
    -- The narrowest first: what is a crowd of one key is none of its owner or type, and in the way of that key alone.
    foreach mine in array '{key,owner,type,queue}'::text[] loop
        if exists (select from holdfast.usage_limits
                    where usage_limits.scope = mine and (mine <> 'queue' or usage_limits.in_type is not null)) then
            num_gated := num_gated + holdfast.gate_crowds_of(mine, job_ids, task_indexes, adds_buckets);
        end if;
    end loop;
    return num_gated;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.gate_crowds_of(scope text, job_ids bigint[], task_indexes integer[], adds_buckets boolean)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    rows_of_line tid[];
    limits bigint[];
    bucket_values text[];
    behind bigint[];
    num_gated int;
begin
    with line as materialized (
        select ready.row_id, -jobs.priority as urgency, ready.eligible_at, mine.job_id, mine.task_index, jobs.queue,
               jobs.type, jobs.owner, jobs.spec,
               holdfast.limit_key(jobs.spec, tasks.input) as key
          from unnest(job_ids, task_indexes) as mine(job_id, task_index)
          join holdfast.jobs on jobs.job_id = mine.job_id
          join holdfast.tasks on tasks.job_id = mine.job_id and tasks.task_index = mine.task_index
         -- By the whole key of the line: a join would be content with the beginning of it.
         cross join lateral (
               select ready.ctid as row_id, ready.eligible_at
                 from holdfast.ready
                where ready.queue = jobs.queue and ready.urgency = -jobs.priority
                  and ready.eligible_at = greatest(tasks.eligible_at, jobs.released_at)
                  and ready.job_id = mine.job_id and ready.task_index = mine.task_index
                limit 1) as ready
    ),
    -- By the first limit of these: what finds another in its way is put behind that when its turn comes.
    places as materialized (
        select line.row_id, mine.limit_id, mine.value, mine.most,
               row_number() over (partition by mine.limit_id, mine.value
                                  order by line.urgency, line.eligible_at, line.job_id, line.task_index) as place
          from line
         cross join lateral (
               select usage_limits.limit_id, usage_limits.most, by_scope.value
                 from holdfast.usage_limits
                cross join lateral (select case usage_limits.scope when 'queue' then line.queue
                                                when 'type' then line.type when 'owner' then line.owner
                                                when 'key' then line.key end as value) as by_scope
                where usage_limits.scope = gate_crowds_of.scope and by_scope.value is not null
                  and coalesce(usage_limits.only_for, by_scope.value) = by_scope.value
                  and coalesce(usage_limits.in_queue, line.queue) = line.queue
                  and coalesce(usage_limits.in_type, line.type) = line.type
                  and (usage_limits.scope <> 'queue' or usage_limits.in_type is not null)
                order by usage_limits.limit_id limit 1) as mine
    ),
    lined as materialized (
        select limit_id, value
          from (select distinct limit_id, value from places) as known
         -- As a value: an `exists` may be joined with all that is gated.
         where (select true from holdfast.limit_buckets join holdfast.gated using (bucket_id)
                 where limit_buckets.limit_id = known.limit_id and limit_buckets.value = known.value limit 1)
    )
    select array_agg(places.row_id), array_agg(places.limit_id), array_agg(places.value)
      into rows_of_line, limits, bucket_values
      from places left join lined using (limit_id, value)
     where lined.limit_id is not null or places.place > greatest(2 * places.most, 100);
    if rows_of_line is null then
        return 0;
    end if;
    if adds_buckets then
        insert into holdfast.limit_buckets (limit_id, value)
        select distinct limit_id, value from unnest(limits, bucket_values) as wanted(limit_id, value)
         order by limit_id, value
            on conflict do nothing;
    end if;
    -- So that none is dropped before this is seen; those that were, a moment ago, are nobody's obstacle.
    perform from holdfast.limit_buckets
      where (limit_id, value) in (select limit_id, value from unnest(limits, bucket_values) as wanted(limit_id, value))
      order by bucket_id
        for key share;
    with wanted as materialized (
        select row_id, limit_buckets.bucket_id
          from unnest(rows_of_line, limits, bucket_values) as wanted(row_id, limit_id, value)
          join holdfast.limit_buckets using (limit_id, value)
    ),
    taken as (
        delete from holdfast.ready using wanted where ready.ctid = wanted.row_id
        returning ready.*, wanted.bucket_id
    )
    insert into holdfast.gated (job_id, task_index, queue, urgency, eligible_at, unschedulable_at, avoid, bucket_id,
                                slots, gated_at)
    select job_id, task_index, taken.queue, urgency, eligible_at, unschedulable_at, avoid, bucket_id,
           coalesce((jobs.spec ->> 'slots')::int, 1), holdfast.now()
      from taken join holdfast.jobs using (job_id);
    get diagnostics num_gated = row_count;
    return num_gated;
end $function$;

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

CREATE OR REPLACE FUNCTION holdfast.keep_for_gang(waiting_job_id bigint, lasting interval)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    now constant timestamptz := holdfast.now();
    wanted_ids bigint[];
    wanted_slots int[];
    never_fits boolean;
    num_kept int;
begin
    if not holdfast.has_limits() then
        return 0;
    end if;
    select array_agg(bucket_id), array_agg(slots), bool_or(slots > most) into wanted_ids, wanted_slots, never_fits
      from (select limit_buckets.bucket_id, sum(mine.slots)::int as slots, min(mine.most) as most
              from (select usage_limits.limit_id, usage_limits.only_for,
                           coalesce(usage_limits.burst, usage_limits.most) as most,
                           coalesce((jobs.spec ->> 'slots')::int, 1) as slots,
                           case usage_limits.scope when 'type' then jobs.type when 'owner' then jobs.owner
                                when 'key' then holdfast.limit_key(jobs.spec, tasks.input) end as value
                      from holdfast.ready
                      join holdfast.jobs on jobs.job_id = ready.job_id
                      join holdfast.tasks on tasks.job_id = ready.job_id and tasks.task_index = ready.task_index
                     cross join holdfast.usage_limits
                     where ready.queue = '' and ready.job_id = waiting_job_id and usage_limits.in_queue is null
                       and coalesce(usage_limits.in_type, jobs.type) = jobs.type) as mine
              left join holdfast.limit_buckets
                on limit_buckets.limit_id = mine.limit_id and limit_buckets.value = mine.value
             where mine.value is not null and coalesce(mine.only_for, mine.value) = mine.value
             group by mine.limit_id, mine.value, limit_buckets.bucket_id) as wanted;
    if never_fits is distinct from false then
        return 0;
    end if;
    perform from holdfast.limit_buckets where bucket_id = any (wanted_ids) order by bucket_id for no key update;
    update holdfast.limit_buckets
       set gang_urgency = last.urgency, gang_eligible_at = last.eligible_at, gang_job_id = last.job_id,
           gang_task_index = last.task_index, gang_slots = mine.slots, gang_until = now + lasting
      from unnest(wanted_ids, wanted_slots) as mine(bucket_id, slots)
      join holdfast.limit_buckets as kept using (bucket_id)
      join holdfast.usage_limits using (limit_id)
     cross join (
           select ready.urgency, ready.eligible_at, ready.job_id, ready.task_index from holdfast.ready
            where ready.queue = '' and ready.job_id = waiting_job_id
            order by ready.urgency desc, ready.eligible_at desc, ready.task_index desc limit 1) as last
     where limit_buckets.bucket_id = mine.bucket_id
       and (kept.gang_job_id = waiting_job_id
            or (holdfast.measure_bucket(usage_limits, kept, now)).room < mine.slots
               and (holdfast.gang_before(kept, now) is null
                    or (last.urgency, last.eligible_at, last.job_id, last.task_index)
                        < (kept.gang_urgency, kept.gang_eligible_at, kept.gang_job_id, kept.gang_task_index)));
    get diagnostics num_kept = row_count;
    return num_kept;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.gang_before(bucket holdfast.limit_buckets, now timestamp with time zone)
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
    select ready.job_id from holdfast.ready
     where bucket.gang_until > now and ready.queue = '' and ready.urgency = bucket.gang_urgency
       and ready.eligible_at = bucket.gang_eligible_at and ready.job_id = bucket.gang_job_id
       and ready.task_index = bucket.gang_task_index
     limit 1
$function$;

CREATE OR REPLACE FUNCTION holdfast.open_gated(bucket_ids bigint[], slots_free integer[], only_queues text[], OUT queues text[], OUT job_ids bigint[], OUT task_indexes integer[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
begin
    with chosen as materialized (
        select line.row_id
          from unnest(bucket_ids, slots_free) as mine(bucket_id, slots_free)
          join holdfast.limit_buckets using (bucket_id)
          join holdfast.usage_limits using (limit_id)
         cross join lateral (
               select first.row_id, first.queue,
                      sum(first.slots) over (order by first.urgency, first.eligible_at, first.job_id,
                                                      first.task_index) as up_to
                 from (select gated.ctid as row_id, gated.queue, gated.slots, gated.urgency, gated.eligible_at,
                              gated.job_id, gated.task_index
                         from holdfast.gated
                        where gated.bucket_id = mine.bucket_id
                          and gated.slots <= coalesce(usage_limits.burst, usage_limits.most)
                        order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index
                        limit mine.slots_free
                          for update skip locked) as first) as line
         where line.up_to <= mine.slots_free and (only_queues is null or line.queue = any (only_queues))
    ),
    opened as (
        delete from holdfast.gated where ctid = any (array(select row_id from chosen))
        returning queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid
    ),
    in_line as (
        insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid)
        select * from opened
    )
    select array_agg(queue), array_agg(job_id), array_agg(task_index) into queues, job_ids, task_indexes from opened;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.open_freed(held text[], slots integer[], OUT queues text[], OUT job_ids bigint[], OUT task_indexes integer[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    is_waited_for constant boolean := exists (select from holdfast.gated where gated.bucket_id is not null);
    of_queues constant bigint[] := array(
        select limit_id from holdfast.usage_limits
         where usage_limits.scope = 'queue' and usage_limits.in_type is null);
    freed_ids bigint[];
    freed_slots int[];
    bucket_ids bigint[];
    slots_free int[];
    own_queues text[];
begin
    -- Mostly nobody waits for anything.
    if not is_waited_for and cardinality(of_queues) = 0 then
        return;
    end if;
    select array_agg(freed.bucket_id), array_agg(freed.slots) into freed_ids, freed_slots
      from (select bucket_id, sum(lease.slots)::int as slots
              from unnest(held, open_freed.slots) as lease(held, slots)
             cross join lateral unnest(lease.held::bigint[]) as bucket_id
             group by bucket_id) as freed;
    if is_waited_for then
        with waited_for as materialized (
            select freed.bucket_id, freed.slots, head.slots as wanted, usage_limits.most
              from unnest(freed_ids, freed_slots) as freed(bucket_id, slots)
             -- Before its limit is looked for: most buckets have nobody behind them.
             cross join lateral (
                   select from holdfast.gated where gated.bucket_id = freed.bucket_id limit 1) as anybody
              join holdfast.limit_buckets on limit_buckets.bucket_id = freed.bucket_id
              join holdfast.usage_limits on usage_limits.limit_id = limit_buckets.limit_id
             cross join lateral (
                   select gated.slots from holdfast.gated
                    where gated.bucket_id = freed.bucket_id and gated.slots <= usage_limits.most
                    order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index limit 1) as head
        )
        select array_agg(measured.bucket_id), array_agg(measured.slots_free) into bucket_ids, slots_free
          from (select bucket_id, least(greatest(slots, wanted), most - holdfast.slots_used(bucket_id))::int
                       as slots_free
                  from waited_for) as measured
         where measured.slots_free > 0;
    end if;
    if cardinality(of_queues) > 0 then
        select array_agg(own.value) into own_queues
          from (select limit_buckets.value, least(freed.slots, 1000) as slots
                  from unnest(freed_ids, freed_slots) as freed(bucket_id, slots)
                  join holdfast.limit_buckets on limit_buckets.bucket_id = freed.bucket_id
                 where limit_buckets.limit_id = any (of_queues)
                   -- As a value: an `exists` would be joined with all that stands in line.
                   and (select true from holdfast.ready where ready.queue = limit_buckets.value limit 1)
                -- So that each queue is looked at once.
                offset 0) as own
         cross join generate_series(1, own.slots);
    end if;
    if bucket_ids is not null then
        select * into queues, job_ids, task_indexes from holdfast.open_gated(bucket_ids, slots_free, null);
    end if;
    if own_queues is not null then
        queues := queues || own_queues;
        job_ids := job_ids || array_fill(null::bigint, array[cardinality(own_queues)]);
        task_indexes := task_indexes || array_fill(null::int, array[cardinality(own_queues)]);
    end if;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.slots_used(bucket_id bigint)
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
    select coalesce(sum(slots), 0)::bigint
      from (select slots from holdfast.leases where held[1] = slots_used.bucket_id and held[1] is not null
             union all
            select slots from holdfast.leases where held[2] = slots_used.bucket_id and held[2] is not null
             union all
            select slots from holdfast.leases where held[3] = slots_used.bucket_id and held[3] is not null
             union all
            select slots from holdfast.leases where held[4] = slots_used.bucket_id and held[4] is not null) as leases
$function$;

CREATE OR REPLACE FUNCTION holdfast.measure_bucket(mine holdfast.usage_limits, bucket holdfast.limit_buckets, now timestamp with time zone, OUT room double precision, OUT opens_at timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
    per_second constant float8 := mine.most / extract(epoch from mine.period)::float8;
begin
    case mine.kind
        when 'concurrency' then
            room := mine.most - case when bucket.bucket_id is null then 0
                                     else holdfast.slots_used(bucket.bucket_id) end;
        when 'bucket' then
            -- A clock that was put back takes nothing out of the bucket.
            room := least(mine.burst, coalesce(
                bucket.tokens + greatest(date_part('epoch', now - bucket.filled_at), 0) * per_second, mine.burst));
            if room < 1 and per_second > 0 then
                opens_at := now + (1 - room) / per_second * interval '1 second';
            end if;
        else
            select mine.most - coalesce(sum(spent), 0), min(slice) + mine.period * 1.01 into room, opens_at
              from holdfast.limit_spent
             where limit_spent.bucket_id = bucket.bucket_id and slice > now - mine.period * 1.01;
    end case;
    if room >= 1 then
        opens_at := null;
    end if;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.open_changed(changed_limit_id bigint, buckets_max integer, tasks_max integer, OUT queues text[], OUT job_ids bigint[], OUT task_indexes integer[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
    now constant timestamptz := holdfast.now();
    bucket_ids bigint[];
    slots_free int[];
begin
    select array_agg(bucket_id), array_agg(least(floor(measured.room), tasks_max)::int) into bucket_ids, slots_free
      from (select limit_buckets.bucket_id, limit_buckets, usage_limits
              from holdfast.usage_limits
              join holdfast.limit_buckets on limit_buckets.limit_id = usage_limits.limit_id
             where usage_limits.limit_id = changed_limit_id
               and (select true from holdfast.gated where gated.bucket_id = limit_buckets.bucket_id limit 1)
             limit buckets_max) as waited_for
     cross join lateral holdfast.measure_bucket(waited_for.usage_limits, waited_for.limit_buckets, now) as measured
     where measured.room >= 1;
    if bucket_ids is not null then
        select * into queues, job_ids, task_indexes from holdfast.open_gated(bucket_ids, slots_free, null);
    end if;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.open_due(queues text[], tasks_max integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
    now constant timestamptz := holdfast.now();
    bucket_ids bigint[];
    slots_free int[];
begin
    select array_agg(due.bucket_id), array_agg(least(floor(measured.room), greatest(tasks_max, due.wanted))::int)
      into bucket_ids, slots_free
      from (select limit_buckets.bucket_id, limit_buckets, usage_limits, head.slots as wanted
              from unnest(queues) as mine(queue)
              join holdfast.limit_buckets on open_queue = mine.queue and open_at <= now
              join holdfast.usage_limits using (limit_id)
             cross join lateral (
                   select gated.slots from holdfast.gated
                    where gated.bucket_id = limit_buckets.bucket_id
                      and gated.slots <= coalesce(usage_limits.burst, usage_limits.most)
                    order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index limit 1) as head
             order by open_at limit 100) as due
     cross join lateral holdfast.measure_bucket(due.usage_limits, due.limit_buckets, now) as measured
     where measured.room >= 1;
    if bucket_ids is not null then
        perform holdfast.open_gated(bucket_ids, slots_free, queues);
    end if;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.find_room(queues text[], tasks_max integer, OUT caps integer[], OUT opens_at timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
    now constant timestamptz := holdfast.now();
    first_opens_at timestamptz;
begin
    select array_agg(cap order by number), min(caps.opens_at) into caps, opens_at
      from (select mine.number, least(tasks_max, floor(min(measured.room)))::int as cap,
                   max(measured.opens_at) as opens_at
              from unnest(queues) with ordinality as mine(queue, number)
              left join holdfast.usage_limits
                on usage_limits.scope = 'queue' and usage_limits.in_type is null
               and coalesce(usage_limits.only_for, mine.queue) = mine.queue
               and coalesce(usage_limits.in_queue, mine.queue) = mine.queue
              left join holdfast.limit_buckets
                on limit_buckets.limit_id = usage_limits.limit_id and limit_buckets.value = mine.queue
              left join lateral holdfast.measure_bucket(usage_limits, limit_buckets, now) as measured
                on usage_limits.limit_id is not null
             group by mine.number) as caps;
    select min(open_at) into first_opens_at
      from unnest(queues) as mine(queue)
      join holdfast.limit_buckets on open_queue = mine.queue and open_at > now;
    opens_at := least(opens_at, first_opens_at);
end $function$;

CREATE OR REPLACE FUNCTION holdfast.tend_gated(after_bucket_id bigint, buckets_max integer, OUT queues text[], OUT job_ids bigint[], OUT task_indexes integer[], OUT last_bucket_id bigint)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    now constant timestamptz := holdfast.now();
    bucket_ids bigint[];
    chosen_jobs bigint[];
    chosen_tasks int[];
begin
    with recursive heads as (
        (select gated.bucket_id from holdfast.gated
          where gated.bucket_id > after_bucket_id order by gated.bucket_id limit 1)
        union all
        select following.bucket_id
          from heads cross join lateral (
               select gated.bucket_id from holdfast.gated
                where gated.bucket_id > heads.bucket_id order by gated.bucket_id limit 1) as following
    )
    select array_agg(bucket_id) into bucket_ids from (select bucket_id from heads limit buckets_max) as known;
    if cardinality(bucket_ids) = buckets_max then
        last_bucket_id := bucket_ids[buckets_max];
    end if;
    update holdfast.limit_buckets
       set open_queue = rate.queue, open_at = rate.opens_at
      from (select limit_buckets.bucket_id, head.queue, coalesce(measured.opens_at, now) as opens_at
              from unnest(bucket_ids) as mine(bucket_id)
              join holdfast.limit_buckets using (bucket_id)
              join holdfast.usage_limits using (limit_id)
             cross join lateral (
                   select gated.queue from holdfast.gated
                    where gated.bucket_id = limit_buckets.bucket_id
                      and gated.slots <= coalesce(usage_limits.burst, usage_limits.most)
                    order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index limit 1) as head
             cross join lateral holdfast.measure_bucket(usage_limits, limit_buckets, now) as measured
             where usage_limits.kind <> 'concurrency'
               and (limit_buckets.open_queue is distinct from head.queue or limit_buckets.open_at is null
                    or limit_buckets.open_at > now + interval '1 second')
               for no key update of limit_buckets skip locked) as rate
     where limit_buckets.bucket_id = rate.bucket_id;
    select chosen.job_ids, chosen.task_indexes into chosen_jobs, chosen_tasks
      from holdfast.choose_gated(bucket_ids, now) as chosen;
    with opened as (
        delete from holdfast.gated where ctid = any (array(
            select gated.ctid from unnest(chosen_jobs, chosen_tasks) as mine(job_id, task_index)
              join holdfast.gated using (job_id, task_index)
             where gated.bucket_id = any (bucket_ids)
               for update of gated skip locked))
        returning queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid
    ),
    in_line as (
        insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid)
        select * from opened
    )
    select array_agg(queue), array_agg(job_id), array_agg(task_index) into queues, job_ids, task_indexes from opened;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.drop_idle_buckets(after_bucket_id bigint, buckets_max integer)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
    now constant timestamptz := holdfast.now();
    chosen bigint[];
    last_bucket_id bigint;
begin
    -- Whoever sets a limit gives its buckets to what runs already: meanwhile none is dropped.
    perform holdfast.has_limits();
    select max(bucket_id) into last_bucket_id
      from (select bucket_id from holdfast.limit_buckets
             where bucket_id > after_bucket_id order by bucket_id limit buckets_max) as stretch
    having count(*) = buckets_max;
    select array_agg(bucket_id) into chosen
      from (select bucket_id from holdfast.limit_buckets
             where bucket_id > after_bucket_id order by bucket_id limit buckets_max
               for update skip locked) as locked;
    -- In a later statement, that sees what the last one who held it has done.
    delete from holdfast.limit_buckets
     using holdfast.usage_limits
     where limit_buckets.bucket_id = any (chosen) and usage_limits.limit_id = limit_buckets.limit_id
       and (holdfast.measure_bucket(usage_limits, limit_buckets, now)).room
           >= coalesce(usage_limits.burst, usage_limits.most)
       and not exists (select from holdfast.gated where gated.bucket_id = limit_buckets.bucket_id);
    return last_bucket_id;
end $function$;

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

CREATE OR REPLACE FUNCTION holdfast.has_limits()
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
    perform pg_advisory_xact_lock_shared(holdfast.limits_lock_key());
    return exists (select from holdfast.usage_limits);
end $function$;

CREATE OR REPLACE FUNCTION holdfast.short_key(key text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select case when length(key) > 256 then 'sha256:' || encode(sha256(convert_to(key, 'UTF8')), 'hex') else key end
$function$;

CREATE OR REPLACE FUNCTION holdfast.asked_key(spec jsonb, input json)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select case jsonb_typeof(spec -> 'concurrency_key')
                when 'string' then spec ->> 'concurrency_key'
                when 'object' then case
                    when input is not null then input #>> string_to_array(spec #>> '{concurrency_key,input}', '.')
                    else spec #>> (case when spec #> '{entrypoint,args,0}' is null then '{entrypoint,kwargs}'::text[]
                                        else '{entrypoint,args,0}' end
                                   || string_to_array(spec #>> '{concurrency_key,input}', '.')) end end
$function$;

CREATE OR REPLACE FUNCTION holdfast.limit_key(spec jsonb, input json)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select holdfast.short_key(holdfast.asked_key(spec, input))
$function$;

CREATE OR REPLACE FUNCTION holdfast.running_under(mine holdfast.usage_limits)
 RETURNS TABLE(job_id bigint, task_index integer, value text, slots integer)
 LANGUAGE sql
 STABLE
AS $function$
    select running.job_id, running.task_index, running.value, running.slots
      from (select leases.job_id, leases.task_index, coalesce((jobs.spec ->> 'slots')::int, 1) as slots,
                   case mine.scope when 'queue' then jobs.queue when 'type' then jobs.type
                                   when 'owner' then jobs.owner else holdfast.limit_key(jobs.spec, tasks.input)
                                   end as value
              from holdfast.leases join holdfast.jobs using (job_id) join holdfast.tasks using (job_id, task_index)
             where mine.kind = 'concurrency' and mine.scope <> 'name'
               and coalesce(mine.in_queue, coalesce(jobs.queue, '')) = coalesce(jobs.queue, '')
               and coalesce(mine.in_type, jobs.type) = jobs.type) as running
     where running.value is not null and coalesce(mine.only_for, running.value) = running.value
$function$;

CREATE OR REPLACE FUNCTION holdfast.lock_limited_leases(of_limit_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
    mine holdfast.usage_limits;
begin
    select * into mine from holdfast.usage_limits where usage_limits.limit_id = of_limit_id for update;
    perform from holdfast.leases
      where (leases.job_id, leases.task_index) in (select job_id, task_index from holdfast.running_under(mine))
         or leases.held && array(
                select bucket_id from holdfast.limit_buckets where limit_buckets.limit_id = of_limit_id)
      order by leases.job_id, leases.task_index
        for no key update;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.count_running(new_limit_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    mine holdfast.usage_limits;
    leased_jobs bigint[];
    leased_tasks int[];
    bucket_values text[];
    taken int[];
begin
    select * into strict mine from holdfast.usage_limits where usage_limits.limit_id = new_limit_id;
    select array_agg(job_id), array_agg(task_index), array_agg(value), array_agg(slots)
      into leased_jobs, leased_tasks, bucket_values, taken
      from holdfast.running_under(mine);
    insert into holdfast.limit_buckets (limit_id, value)
    select distinct new_limit_id, value from unnest(bucket_values) as value order by 2
        on conflict do nothing;
    update holdfast.leases
       set held = coalesce(leases.held, '{}') || limit_buckets.bucket_id, slots = running.slots
      from unnest(leased_jobs, leased_tasks, bucket_values, taken)
             as running(job_id, task_index, value, slots)
      join holdfast.limit_buckets on limit_buckets.limit_id = new_limit_id and limit_buckets.value = running.value
     where leases.job_id = running.job_id and leases.task_index = running.task_index
       and limit_buckets.bucket_id <> all (coalesce(leases.held, '{}'));
end $function$;

CREATE OR REPLACE FUNCTION holdfast.release_slots(old_limit_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
    gone constant bigint[] := array(
        select bucket_id from holdfast.limit_buckets where limit_buckets.limit_id = old_limit_id);
begin
    update holdfast.leases
       set held = kept.held, slots = case when kept.held is not null then leases.slots end
      from (select leases.job_id, leases.task_index, nullif(array(
                   select bucket_id from unnest(leases.held) as bucket_id where bucket_id <> all (gone)), '{}') as held
              from holdfast.leases where leases.held && gone) as kept
     where leases.job_id = kept.job_id and leases.task_index = kept.task_index;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.limits_lock_key()
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$select x'686F6C66'::bigint$function$;

CREATE OR REPLACE FUNCTION holdfast.job_state(pending integer, assigned integer, building integer, running integer, succeeded integer, failed integer, killed integer, worker_failed integer, unschedulable integer, dead_lettered integer, timed_out integer, fan_out boolean, max_task_failures integer, cancel_mode text, has_started boolean)
 RETURNS smallint
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select case
        when pending + assigned + building + running + failed + killed + worker_failed + unschedulable
             + dead_lettered = 0 then 4
        else coalesce(
            case when pending + assigned + building + running = 0
                      or not (cancel_mode is not distinct from 'soft' or fan_out and max_task_failures is null) then
                case when failed + case when fan_out then timed_out else 0 end > coalesce(max_task_failures, 0)
                     then 5
                     when failed + case when fan_out then timed_out else 0 end + dead_lettered
                          > coalesce(max_task_failures, 0)
                     then 10
                     when unschedulable > 0 then 8
                     when killed > 0
                          and (not fan_out or cancel_mode is not null
                               or pending + assigned + building + running + succeeded = 0)
                     then 6 end end,
            case when pending + assigned + building + running = 0
                 then case when worker_failed > 0 then 7 else 4 end
                 when assigned + building + running > 0 or has_started then 3
                 else 1 end) end::smallint
$function$;

CREATE OR REPLACE FUNCTION holdfast.count_moves(job_ids bigint[], pending integer[], assigned integer[], building integer[], running integer[], succeeded integer[], failed integer[], killed integer[], worker_failed integer[], unschedulable integer[], dead_lettered integer[], timed_out integer[], errors text[], exit_codes integer[], must_be_live boolean[], OUT num_counted integer, OUT ended_job_ids bigint[], OUT ended_states integer[], OUT has_follow_ups boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    changed_job_id bigint;
    started_job_ids bigint[];
    live int[];
begin
    with counted as (
        update holdfast.jobs
           set pending = jobs.pending + coalesce(moves.pending, 0),
               assigned = jobs.assigned + coalesce(moves.assigned, 0),
               building = jobs.building + coalesce(moves.building, 0),
               running = jobs.running + coalesce(moves.running, 0),
               succeeded = jobs.succeeded + coalesce(moves.succeeded, 0),
               failed = jobs.failed + coalesce(moves.failed, 0),
               killed = jobs.killed + coalesce(moves.killed, 0),
               worker_failed = jobs.worker_failed + coalesce(moves.worker_failed, 0),
               unschedulable = jobs.unschedulable + coalesce(moves.unschedulable, 0),
               dead_lettered = jobs.dead_lettered + coalesce(moves.dead_lettered, 0),
               timed_out = jobs.timed_out + coalesce(moves.timed_out, 0),
               error = coalesce(jobs.error, moves.error),
               exit_code = case when jobs.error is null then coalesce(moves.exit_code, jobs.exit_code)
                                else jobs.exit_code end
          from unnest(job_ids, count_moves.pending, count_moves.assigned, count_moves.building, count_moves.running,
                      count_moves.succeeded, count_moves.failed, count_moves.killed, count_moves.worker_failed,
                      count_moves.unschedulable, count_moves.dead_lettered, count_moves.timed_out, errors,
                      exit_codes, must_be_live)
                 as moves(job_id, pending, assigned, building, running, succeeded, failed, killed, worker_failed,
                          unschedulable, dead_lettered, timed_out, error, exit_code, must_be_live)
         where jobs.job_id = moves.job_id
        returning jobs.job_id, jobs.state,
                  moves.must_be_live and (jobs.finished_at is not null or jobs.cancel_mode is not null) as is_changed,
                  jobs.pending + jobs.assigned + jobs.building + jobs.running as live,
                  case when jobs.finished_at is not null then jobs.state
                       else holdfast.job_state(
                           jobs.pending, jobs.assigned, jobs.building, jobs.running, jobs.succeeded, jobs.failed,
                           jobs.killed, jobs.worker_failed, jobs.unschedulable, jobs.dead_lettered, jobs.timed_out,
                           jobs.fan_out, jobs.max_task_failures, jobs.cancel_mode, jobs.started_at is not null)
                       end as following
    )
    select count(*), min(job_id) filter (where is_changed),
           array_agg(job_id) filter (where following <> state and following = 3),
           array_agg(job_id) filter (where following <> state and following <> 3),
           array_agg(following::int) filter (where following <> state and following <> 3),
           array_agg(live) filter (where following <> state and following <> 3)
      into num_counted, changed_job_id, started_job_ids, ended_job_ids, ended_states, live
      from counted;
    if changed_job_id is not null then
        raise exception using
            errcode = 'HF001',
            message = format('job %s has ended, or was cancelled, while its tasks were being moved', changed_job_id);
    end if;
    has_follow_ups := false;
    if started_job_ids is not null then
        with clock as materialized (select holdfast.now() as now)
        update holdfast.jobs
           set state = 3, started_at = greatest(clock.now, jobs.event_at), seq = jobs.seq + 1,
               event_type = 'started', event_at = greatest(clock.now, jobs.event_at), event_actor = 'server',
               event_cause = null, event_payload = null
          from unnest(started_job_ids) as mine(job_id), clock
         where jobs.job_id = mine.job_id;
    end if;
    if ended_job_ids is not null then
        has_follow_ups := holdfast.finish_jobs(ended_job_ids, ended_states, live);
    end if;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.finish_jobs(job_ids bigint[], states integer[], live integer[])
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
begin
    with clock as materialized (select holdfast.now() as now),
    finished as (
        update holdfast.jobs
           set state = ended.state, finished_at = greatest(clock.now, jobs.event_at), seq = jobs.seq + 1,
               event_type = case ended.state
                   when 4 then 'succeeded'::holdfast.event_type when 5 then 'failed'
                   when 6 then 'killed' when 7 then 'worker_failed'
                   when 8 then 'unschedulable' when 10 then 'dead_lettered' end,
               event_at = greatest(clock.now, jobs.event_at), event_actor = 'server',
               event_cause = case ended.state when 4 then null
                                              when 6 then coalesce(jobs.cancel_reason, jobs.error)
                                              else jobs.error end,
               event_payload = null,
               error = case when ended.state = 6 then coalesce(jobs.cancel_reason, jobs.error)
                            else jobs.error end,
               exit_code = case when ended.state = 4 then 0 else jobs.exit_code end
          from unnest(job_ids, states, finish_jobs.live) as ended(job_id, state, live), clock
         where jobs.job_id = ended.job_id
        returning jobs.job_id, ended.state <> 4 as is_bad, ended.live > 0 as is_live,
                  -- A large spec is stored elsewhere, and looked at after a failure alone.
                  ended.state <> 4 and (jobs.graph_id is not null or jobs.spec ? 'compensation')
                  as is_to_be_undone,
                  jobs.compensates_job_id is not null as is_compensation,
                  -- With `exists`, a planner may read all that is open instead, into a hash.
                  (select true from holdfast.dependencies
                    where depends_on = jobs.job_id and closed_at is null limit 1) is not null as is_awaited
    )
    insert into holdfast.outbox (kind, job_id, next_index, created_at)
    select wanted.kind, finished.job_id, 0, clock.now
      from finished, clock,
           lateral (values (1, 'sweep', is_live), (2, 'job_ended', is_bad), (3, 'undo', is_to_be_undone),
                           (4, 'undone', is_compensation), (5, 'release', is_awaited))
             as wanted(number, kind, is_wanted)
     where wanted.is_wanted
     order by wanted.number, finished.job_id;
    return found;
end $function$;

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

CREATE OR REPLACE FUNCTION holdfast.pass_limits(queues text[], types text[], owners text[], keys text[], slots integer[], urgencies integer[], eligibles timestamp with time zone[], job_ids bigint[], task_indexes integer[], give_ups timestamp with time zone[], avoids text[], passed_max integer, OUT verdicts bigint[], OUT held text[], OUT opens_at timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    num_tasks constant int := cardinality(job_ids);
    -- Each pair of a task and a bucket, by the task's number.
    numbers int[];
    pair_limits bigint[];
    pair_values text[];
    pair_buckets bigint[];
    ranks int[];
    is_new boolean;
    -- Each bucket, by its rank, as it was when it was locked.
    bucket_ids bigint[];
    bucket_limits bigint[];
    tokens float8[];
    filled_ats timestamptz[];
    fits boolean;
    kinds text[];
    rooms float8[];
    mosts float8[];
    rates float8[];
    of_queues boolean[];
    openings timestamptz[];
    is_closed boolean[];
    spent float8[];
    has_gangs boolean;
    barrier_urgencies int[];
    barrier_eligibles timestamptz[];
    barrier_jobs bigint[];
    barrier_indexes int[];
    now timestamptz;
    pair int := 1;
    first_pair int;
    blocker int;
    rank int;
    num_passed int := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'at isolation level % a slot that was just taken would count as free',
            current_setting('transaction_isolation')
            using hint = 'set default_transaction_isolation of the role that Holdfast uses to read committed';
    end if;
    select array_agg(number), array_agg(limit_id), array_agg(value), array_agg(bucket_id), bool_or(bucket_id is null)
      into numbers, pair_limits, pair_values, pair_buckets, is_new
      from (select task.number::int, mine.limit_id, task.value, known.bucket_id
              from (select *, array_position('{key,owner,type,queue}', usage_limits.scope) as breadth
                      from holdfast.usage_limits
                     cross join lateral (select case usage_limits.scope when 'queue' then queues
                                                                        when 'type' then types
                                                                        when 'owner' then owners
                                                                        when 'key' then keys end as of_tasks)
                           as by_scope
                     where usage_limits.only_for is null or usage_limits.only_for = any (of_tasks)) as mine
             cross join lateral unnest(mine.of_tasks) with ordinality as task(value, number)
             -- By the whole key: a join would be content with all buckets of the limit.
              left join lateral (
                   select limit_buckets.bucket_id from holdfast.limit_buckets
                    where limit_buckets.limit_id = mine.limit_id and limit_buckets.value = task.value
                    limit 1) as known on true
             -- Placed work is of no queue, and its limits are none of it.
             where task.value is not null and (mine.scope <> 'queue' or task.value <> '')
               and (mine.only_for is null or mine.only_for = task.value)
               and (mine.in_queue is null or mine.in_queue = queues[task.number])
               and (mine.in_type is null or mine.in_type = types[task.number])
             -- What has to wait does so behind the narrowest: a crowd of one key is in the way of that key alone.
             order by task.number, mine.breadth, mine.limit_id) as pairs;
    if numbers is null then
        verdicts := array(select case when number <= passed_max then 0 else -1 end
                            from generate_series(1, num_tasks) as number order by number);
        held := array_fill(null::text, array[num_tasks]);
        return;
    end if;
    -- A bucket that nobody used any more may have been dropped after it was found.
    loop
        if is_new then
            insert into holdfast.limit_buckets (limit_id, value)
            select distinct limit_id, value from unnest(pair_limits, pair_values) as pairs(limit_id, value)
             where not exists (select from holdfast.limit_buckets as known
                                where known.limit_id = pairs.limit_id and known.value = pairs.value)
             order by limit_id, value
                on conflict do nothing;
            pair_buckets := array(
                select limit_buckets.bucket_id
                  from unnest(pair_limits, pair_values) with ordinality as pairs(limit_id, value, position)
                  left join holdfast.limit_buckets using (limit_id, value)
                 order by position);
        end if;
        select array_agg(locked.bucket_id), array_agg(locked.limit_id), array_agg(locked.tokens),
               array_agg(locked.filled_at),
               bool_or(case when locked.gang_until is not null then locked.gang_until > holdfast.now() end)
          into bucket_ids, bucket_limits, tokens, filled_ats, has_gangs
          from (select * from holdfast.limit_buckets
                 where limit_buckets.bucket_id = any (pair_buckets)
                 order by limit_buckets.bucket_id
                   for no key update) as locked;
        is_new := cardinality(bucket_ids) is distinct from (
            select count(distinct coalesce(bucket_id, 0)) from unnest(pair_buckets) as bucket_id);
        exit when not is_new;
    end loop;
    now := holdfast.now();
    -- In a statement after the locks. One part for each index of those that hold slots, for as many limits as a task
    -- can have; and what the tasks want.
    select array_agg(kind), array_agg(room), array_agg(most), array_agg(rate), array_agg(of_queue), array_agg(opening),
           bool_and(room >= wanted)
      into kinds, rooms, mosts, rates, of_queues, openings, fits
      from (select bucket_id, max(kind) as kind, max(room) - coalesce(sum(taken), 0) as room, max(most) as most,
                   max(rate) as rate, bool_or(of_queue) as of_queue, max(opening) as opening, sum(wanted) as wanted
              from (select mine.bucket_id, usage_limits.kind,
                           case usage_limits.kind
                               when 'concurrency' then usage_limits.most
                               -- A clock that was put back takes nothing out of the bucket.
                               when 'bucket' then least(usage_limits.burst, coalesce(
                                   mine.tokens + greatest(date_part('epoch', now - mine.filled_at), 0)
                                                 * usage_limits.most / date_part('epoch', usage_limits.period),
                                   usage_limits.burst))
                               -- A slice counts as long as any part of it is within the period.
                               else usage_limits.most - coalesce((
                                   select sum(limit_spent.spent) from holdfast.limit_spent
                                    where limit_spent.bucket_id = mine.bucket_id
                                      and limit_spent.slice > now - usage_limits.period * 1.01), 0) end as room,
                           coalesce(usage_limits.burst, usage_limits.most) as most,
                           case usage_limits.kind when 'bucket' then
                               usage_limits.most / date_part('epoch', usage_limits.period) end as rate,
                           usage_limits.scope = 'queue' and usage_limits.in_type is null as of_queue,
                           case usage_limits.kind when 'window' then (
                               select min(limit_spent.slice) + usage_limits.period * 1.01 from holdfast.limit_spent
                                where limit_spent.bucket_id = mine.bucket_id
                                  and limit_spent.slice > now - usage_limits.period * 1.01) end as opening,
                           null::int as taken, null::int as wanted
                      from unnest(bucket_ids, bucket_limits, tokens, filled_ats)
                             as mine(bucket_id, limit_id, tokens, filled_at)
                      join holdfast.usage_limits on usage_limits.limit_id = mine.limit_id
                     union all
                    select bucket_id, null, null, null, null, null, null, null, slots[number]
                      from unnest(pair_buckets, numbers) as pairs(bucket_id, number)
                     union all
                    select held[1], null, null, null, null, null, null, leases.slots, null from holdfast.leases
                     where held[1] = any (bucket_ids) and held[1] is not null
                     union all
                    select held[2], null, null, null, null, null, null, leases.slots, null from holdfast.leases
                     where held[2] = any (bucket_ids) and held[2] is not null
                     union all
                    select held[3], null, null, null, null, null, null, leases.slots, null from holdfast.leases
                     where held[3] = any (bucket_ids) and held[3] is not null
                       and (select exists (select from holdfast.leases where held[3] is not null))
                     union all
                    select held[4], null, null, null, null, null, null, leases.slots, null from holdfast.leases
                     where held[4] = any (bucket_ids) and held[4] is not null
                       and (select exists (select from holdfast.leases where held[4] is not null))) as parts
             group by bucket_id order by bucket_id) as buckets;
    -- Whom the others do not pass: the first who takes several slots, or the gang for which the bucket is kept.
    if has_gangs or exists (
        select from holdfast.gated where gated.bucket_id = any (bucket_ids) and gated.bucket_id is not null
                                     and gated.slots > 1) then
        select array_agg(urgency order by bucket_id), array_agg(eligible_at order by bucket_id),
               array_agg(job_id order by bucket_id), array_agg(task_index order by bucket_id)
          into barrier_urgencies, barrier_eligibles, barrier_jobs, barrier_indexes
          from unnest(bucket_ids, mosts) as mine(bucket_id, most)
          left join lateral (
               (select gated.urgency, gated.eligible_at, gated.job_id, gated.task_index from holdfast.gated
                 where gated.bucket_id = mine.bucket_id and gated.slots > 1 and gated.slots <= mine.most
                 order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index limit 1)
                union all
               select gang_urgency, gang_eligible_at, gang_job_id, gang_task_index from holdfast.limit_buckets
                where has_gangs and limit_buckets.bucket_id = mine.bucket_id and gang_slots <= mine.most
                  and holdfast.gang_before(limit_buckets, now) is not null
                order by urgency, eligible_at, job_id, task_index limit 1) as line on true;
    end if;
    -- As mostly, there is room for all of them.
    if num_tasks <= passed_max and barrier_jobs is null and fits and 'concurrency' = all (kinds) then
        verdicts := array_fill(0::bigint, array[num_tasks]);
        held := array(
            select '{' || string_agg(bucket_id::text, ',' order by bucket_id) || '}'
              from (select * from unnest(numbers, pair_buckets) as pairs(number, bucket_id)
                     union all
                    select number, null from generate_series(1, num_tasks) as number) as buckets
             group by number order by number);
        return;
    end if;
    ranks := array(
        select dense_rank() over (order by bucket_id)::int
          from unnest(pair_buckets) with ordinality as pairs(bucket_id, position) order by position);
    is_closed := array_fill(false, array[cardinality(bucket_ids)]);
    spent := array_fill(0::float8, array[cardinality(bucket_ids)]);
    verdicts := array_fill(0::bigint, array[num_tasks]);
    for number in 1 .. num_tasks loop
        first_pair := pair;
        blocker := null;
        while numbers[pair] = number loop
            rank := ranks[pair];
            -- One that it can never pass comes before all others: behind them, it would keep slots for nothing.
            if slots[number] > mosts[rank] then
                blocker := case when slots[number] > mosts[blocker] then blocker else rank end;
            -- Behind its queue it need not wait if it has to wait behind something else.
            elsif (blocker is null or of_queues[blocker] and slots[number] <= mosts[blocker])
                and (is_closed[rank] or rooms[rank] + 1e-9 < slots[number]
                     or barrier_jobs[rank] is not null
                        and (urgencies[number], eligibles[number], job_ids[number], task_indexes[number])
                            > (barrier_urgencies[rank], barrier_eligibles[rank], barrier_jobs[rank],
                               barrier_indexes[rank])) then
                blocker := rank;
            end if;
            pair := pair + 1;
        end loop;
        if blocker is null and num_passed = passed_max then
            verdicts[number] := -1;
        elsif blocker is null then
            num_passed := num_passed + 1;
            for position in first_pair .. pair - 1 loop
                rooms[ranks[position]] := rooms[ranks[position]] - slots[number];
                spent[ranks[position]] := spent[ranks[position]] + slots[number];
            end loop;
        else
            -- Who comes after one that waits for several slots does not take them away from him.
            is_closed[blocker] := is_closed[blocker]
                or (slots[number] > 1 or of_queues[blocker]) and slots[number] <= mosts[blocker];
            verdicts[number] := case when of_queues[blocker] and slots[number] <= mosts[blocker] then -1
                                     else bucket_ids[blocker] end;
            if kinds[blocker] <> 'concurrency' and slots[number] <= mosts[blocker] then
                opens_at := least(opens_at, case when rates[blocker] > 0 then
                    now + (slots[number] - rooms[blocker]) / rates[blocker] * interval '1 second'
                    else openings[blocker] end);
            end if;
        end if;
    end loop;
    held := array(
        select '{' || string_agg(bucket_id::text, ',' order by bucket_id) || '}'
          from (select numbers[position] as number, bucket_ids[ranks[position]] as bucket_id
                  from generate_subscripts(numbers, 1) as position
                 where kinds[ranks[position]] = 'concurrency' and verdicts[numbers[position]] = 0
                 union all
                select number, null from generate_series(1, num_tasks) as number) as buckets
         group by number order by number);
    insert into holdfast.gated (job_id, task_index, queue, urgency, eligible_at, unschedulable_at, avoid, bucket_id,
                                slots, gated_at)
    select job_id, task_index, queue, urgency, eligible_at, give_up, avoid, verdict, slots, now
      from unnest(job_ids, task_indexes, queues, urgencies, eligibles, give_ups, avoids, verdicts, slots)
             as tasks(job_id, task_index, queue, urgency, eligible_at, give_up, avoid, verdict, slots)
     where verdict > 0
        -- A row may be left of one that was cancelled while somebody held it.
        on conflict (job_id, task_index) do update
       set queue = excluded.queue, urgency = excluded.urgency, eligible_at = excluded.eligible_at,
           unschedulable_at = excluded.unschedulable_at, avoid = excluded.avoid, bucket_id = excluded.bucket_id,
           share_id = null, slots = excluded.slots, gated_at = excluded.gated_at;
    if 'bucket' = any (kinds) or 'window' = any (kinds) then
        perform holdfast.spend_rates(bucket_ids, kinds, rooms, mosts, rates, openings, spent, now);
    end if;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.spend_rates(bucket_ids bigint[], kinds text[], rooms double precision[], mosts double precision[], rates double precision[], openings timestamp with time zone[], spent double precision[], now timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
    insert into holdfast.limit_spent (bucket_id, slice, spent)
    select mine.bucket_id, date_bin(usage_limits.period / 100, spend_rates.now, timestamptz 'epoch'), mine.spent
      from unnest(bucket_ids, kinds, spend_rates.spent) as mine(bucket_id, kind, spent)
      join holdfast.limit_buckets using (bucket_id)
      join holdfast.usage_limits using (limit_id)
     where mine.kind = 'window' and mine.spent > 0
        on conflict (bucket_id, slice) do update set spent = limit_spent.spent + excluded.spent;
    update holdfast.limit_buckets
       set tokens = case when mine.kind = 'bucket' then mine.room end,
           filled_at = case when mine.kind = 'bucket' then spend_rates.now end,
           open_queue = head.queue,
           open_at = case when head.queue is null then null
                          when mine.kind = 'bucket' and mine.rate > 0 then spend_rates.now
                               + greatest(head.slots - mine.room, 0) / mine.rate * interval '1 second'
                          when mine.room >= head.slots then spend_rates.now
                          else mine.opening end
      from unnest(bucket_ids, kinds, rooms, mosts, rates, openings, spend_rates.spent)
             as mine(bucket_id, kind, room, most, rate, opening, spent)
      left join lateral (
           select gated.queue, gated.slots from holdfast.gated
            where gated.bucket_id = mine.bucket_id and gated.slots <= mine.most
            order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index limit 1) as head on true
     where limit_buckets.bucket_id = mine.bucket_id and mine.kind <> 'concurrency'
       and (mine.spent > 0 or head.queue is not null or limit_buckets.open_at is not null);
    delete from holdfast.limit_spent
     using unnest(bucket_ids, kinds, spend_rates.spent) as mine(bucket_id, kind, spent), holdfast.limit_buckets,
           holdfast.usage_limits
     where mine.kind = 'window' and mine.spent > 0 and limit_buckets.bucket_id = mine.bucket_id
       and usage_limits.limit_id = limit_buckets.limit_id
       and limit_spent.bucket_id = mine.bucket_id
       and limit_spent.slice < spend_rates.now - usage_limits.period * 1.02;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.pass_taken(job_ids bigint[], task_indexes integer[], give_ups timestamp with time zone[], avoids text[])
 RETURNS TABLE(job_id bigint, task_index integer, may_start boolean, held text, slots integer, opens_in double precision)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    line record;
    verdicts bigint[];
    all_held text[];
    opens_at timestamptz;
begin
    if not holdfast.has_limits() then
        return;
    end if;
    select array_agg(queue) as queues, array_agg(type) as types, array_agg(owner) as owners, array_agg(key) as keys,
           array_agg(slots) as slots, array_agg(urgency) as urgencies, array_agg(eligible_at) as eligibles,
           array_agg(job_id) as job_ids, array_agg(task_index) as task_indexes, array_agg(give_up) as give_ups,
           array_agg(avoid) as avoids
      into line
      from (select coalesce(jobs.queue, '') as queue, jobs.type, jobs.owner, -jobs.priority as urgency,
                   coalesce((jobs.spec ->> 'slots')::int, 1) as slots,
                   holdfast.limit_key(jobs.spec, tasks.input) as key,
                   greatest(tasks.eligible_at, jobs.released_at) as eligible_at, mine.job_id, mine.task_index,
                   mine.give_up, mine.avoid
              from unnest(pass_taken.job_ids, pass_taken.task_indexes, pass_taken.give_ups, pass_taken.avoids)
                     as mine(job_id, task_index, give_up, avoid)
              join holdfast.tasks using (job_id, task_index)
              join holdfast.jobs using (job_id)
             order by urgency, eligible_at, job_id, task_index) as taken;
    select passing.verdicts, passing.held, passing.opens_at into verdicts, all_held, opens_at
      from holdfast.pass_limits(line.queues, line.types, line.owners, line.keys, line.slots, line.urgencies,
                                line.eligibles, line.job_ids, line.task_indexes, line.give_ups, line.avoids,
                                cardinality(line.job_ids)) as passing;
    insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid)
    select mine.queue, mine.urgency, mine.eligible_at, mine.job_id, mine.task_index, mine.give_up, mine.avoid
      from unnest(line.queues, line.urgencies, line.eligibles, line.job_ids, line.task_indexes, line.give_ups,
                  line.avoids, verdicts)
             as mine(queue, urgency, eligible_at, job_id, task_index, give_up, avoid, verdict)
     where mine.verdict < 0;
    return query
    select mine.job_id, mine.task_index, mine.verdict = 0, mine.held,
           case when mine.held is not null then mine.slots end,
           extract(epoch from opens_at - holdfast.now())::float8
      from unnest(line.job_ids, line.task_indexes, verdicts, all_held, line.slots)
             as mine(job_id, task_index, verdict, held, slots);
end $function$;

CREATE OR REPLACE FUNCTION holdfast.follow_clock(after_bucket_id bigint, buckets_max integer, OUT num_ahead integer, OUT last_bucket_id bigint)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    now timestamptz := holdfast.now();
    ahead bigint[];
begin
    select array_agg(stretch.bucket_id) filter (where is_ahead),
           case when count(*) = buckets_max then max(stretch.bucket_id) end
      into ahead, last_bucket_id
      from (select limit_buckets.bucket_id,
                   case when usage_limits.scope = 'name' then false
                        when usage_limits.kind = 'bucket' then limit_buckets.filled_at > now
                        when usage_limits.kind = 'window' then (
                            select true from holdfast.limit_spent
                             where limit_spent.bucket_id = limit_buckets.bucket_id and limit_spent.slice > now
                             limit 1) end as is_ahead
              from holdfast.limit_buckets join holdfast.usage_limits using (limit_id)
             where limit_buckets.bucket_id > after_bucket_id
             order by limit_buckets.bucket_id limit buckets_max) as stretch;
    num_ahead := coalesce(cardinality(ahead), 0);
    if num_ahead = 0 or not holdfast.has_limits() then
        return;
    end if;
    select array_agg(locked.bucket_id) into ahead
      from (select limit_buckets.bucket_id from holdfast.limit_buckets
             where limit_buckets.bucket_id = any (ahead) order by limit_buckets.bucket_id
               for no key update skip locked) as locked;
    -- Whoever held one of them before has written down no later time than this.
    now := holdfast.now();
    with later as (
        delete from holdfast.limit_spent
         where limit_spent.bucket_id = any (ahead) and limit_spent.slice > now
        returning bucket_id, spent
    )
    insert into holdfast.limit_spent (bucket_id, slice, spent)
    select later.bucket_id, date_bin(max(usage_limits.period) / 100, now, timestamptz 'epoch'), sum(later.spent)
      from later
      join holdfast.limit_buckets on limit_buckets.bucket_id = later.bucket_id
      join holdfast.usage_limits on usage_limits.limit_id = limit_buckets.limit_id
     group by later.bucket_id
        on conflict (bucket_id, slice) do update set spent = limit_spent.spent + excluded.spent;
    update holdfast.limit_buckets set filled_at = now where bucket_id = any (ahead) and filled_at > now;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.shared_queues()
 RETURNS text[]
 LANGUAGE sql
 STABLE
AS $function$
    select array(select queue from holdfast.share_rules where ended_at is null and queue <> '')
$function$;

CREATE OR REPLACE FUNCTION holdfast.share_value(share_by text, owner text, spec jsonb, input json)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select coalesce(case share_by when 'owner' then holdfast.short_key(owner)
                                  when 'key' then holdfast.limit_key(spec, input) end, '')
$function$;

CREATE OR REPLACE FUNCTION holdfast.find_share(rule bigint, at_urgency integer, of_value text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
    found_id bigint;
begin
    select share_id into found_id from holdfast.shares
     where rule_id = rule and urgency = at_urgency and value = of_value and idle_at is null
       for key share;
    if found_id is null then
        insert into holdfast.shares as mine (rule_id, urgency, value, pass)
        select rule_id, at_urgency, of_value, coalesce(
                   (select pass from holdfast.shares
                     where shares.rule_id = rule and urgency = at_urgency and idle_at is null
                     order by pass limit 1),
                   (select pass from holdfast.shares
                     where shares.rule_id = rule and urgency = at_urgency order by pass desc limit 1), 0)
          from holdfast.share_rules where rule_id = rule for key share
        on conflict (rule_id, urgency, value) do update
           set idle_at = null, pass = greatest(mine.pass, excluded.pass)
        returning share_id into found_id;
    end if;
    return found_id;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.gate(job_ids bigint[], task_indexes integer[], give_ups timestamp with time zone[])
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
    num_gated int;
begin
    if job_ids is null then
        return 0;
    end if;
    with line as materialized (
        select tasks.job_id, tasks.task_index, jobs.queue, -jobs.priority as urgency, mine.give_up, rules.rule_id,
               greatest(tasks.eligible_at, jobs.released_at) as eligible_at,
               coalesce((jobs.spec ->> 'slots')::int, 1) as slots,
               holdfast.share_value(rules.share_by, jobs.owner, jobs.spec, tasks.input) as value
          from unnest(job_ids, task_indexes, give_ups) as mine(job_id, task_index, give_up)
          join holdfast.tasks on tasks.job_id = mine.job_id and tasks.task_index = mine.task_index
          join holdfast.jobs on jobs.job_id = mine.job_id
          join holdfast.share_rules as rules on rules.queue = jobs.queue
    ),
    -- In order, so that no two wait for each other.
    turns as materialized (
        select rule_id, urgency, value, holdfast.find_share(rule_id, urgency, value) as share_id
          from (select distinct rule_id, urgency, value from line order by rule_id, urgency, value) as known
    )
    insert into holdfast.gated (job_id, task_index, queue, urgency, eligible_at, unschedulable_at, share_id, slots,
                                gated_at)
    select job_id, task_index, queue, urgency, eligible_at, give_up, share_id, slots, holdfast.now()
      from line join turns using (rule_id, urgency, value)
     where share_id is not null;
    get diagnostics num_gated = row_count;
    if num_gated < cardinality(job_ids) then
        raise exception using errcode = 'lock_not_available',
            message = 'the rule of shares was taken back at this moment; try again';
    end if;
    return num_gated;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.let_in(queues text[], wanted integer, line_max integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    rule record;
begin
    for rule in
        select rules.rule_id, rules.queue from holdfast.share_rules as rules
         where rules.queue = any (queues) and rules.queue <> ''
           and not exists (select from holdfast.queues as paused where paused.queue = rules.queue)
         order by rules.rule_id
           for no key update of rules
    loop
        perform holdfast.let_in_queue(rule.rule_id, rule.queue, wanted, line_max);
    end loop;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.let_in_queue(rule bigint, shared_queue text, wanted integer, line_max integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    best int;
    num_missing int;
    let_in int[] := '{}';
    now_in int[];
    seen_through bigint[] := '{}';
    served bigint[];
    ran_out bigint[];
begin
    loop
        select urgency into best from holdfast.shares
         where rule_id = rule and idle_at is null and share_id <> all (seen_through)
         order by urgency, pass, share_id limit 1;
        exit when not found;
        -- What stands in line before these counts; what has aged stands there by its own priority.
        num_missing := least(
            wanted - cardinality(let_in),
            line_max - (select count(*) from (select from holdfast.ready
                                               where ready.queue = shared_queue and ready.urgency <= best
                                               limit line_max) as counted)
            - (select count(*) from unnest(let_in) as urgency where urgency > best));
        exit when num_missing <= 0;
        with heads as materialized (
            select shares.share_id, shares.pass, coalesce(share_weights.weight, 1) as weight,
                   row_number() over (order by shares.pass, shares.share_id) as rank
              from holdfast.shares left join holdfast.share_weights using (rule_id, value)
             where shares.rule_id = rule and shares.urgency = best and shares.idle_at is null
               and shares.share_id <> all (seen_through)
             order by shares.pass, shares.share_id limit num_missing
        ),
        round as materialized (
            select heads.*, until, greatest(least(ceil((until - pass) * weight), num_missing),
                                            case when rank = 1 then 1 else 0 end)::int as rows_max
              from heads, (select min(pass) + num_missing / sum(weight) as until from heads) as bound
        ),
        line as materialized (
            select round.share_id, round.weight, round.until, round.rank, round.rows_max, first.*,
                   round.pass + (sum(case when first.is_stale then 0 else first.slots end)
                                     over (partition by round.share_id order by first.number)
                                 - first.slots) / round.weight as tag
              from round
             cross join lateral (
                   select locked.*, row_number() over (order by urgency, eligible_at, job_id, task_index) as number
                     from (select gated.ctid as row_id, gated.urgency, gated.eligible_at, gated.job_id,
                                  gated.task_index, gated.unschedulable_at, gated.slots,
                                  tasks.state <> 1 as is_stale
                             from holdfast.gated
                             join holdfast.tasks on tasks.job_id = gated.job_id
                                                and tasks.task_index = gated.task_index
                            where gated.share_id = round.share_id
                            order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index
                            limit round.rows_max
                              for update of gated, tasks skip locked) as locked) as first
        ),
        chosen as materialized (
            select line.*, (select -jobs.priority from holdfast.jobs where jobs.job_id = line.job_id) as own_urgency
              from line where not is_stale and (tag < until or rank = 1 and number = 1)
             order by tag, share_id, number limit num_missing
        ),
        gone as (
            delete from holdfast.gated
             where ctid = any (array(select row_id from chosen) || array(select row_id from line where is_stale))
        ),
        lined as (
            insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at)
            select shared_queue, own_urgency, eligible_at, job_id, task_index, unschedulable_at from chosen
        ),
        advanced as (
            update holdfast.shares set pass = far.pass
              from (select share_id, max(tag + slots / weight) as pass from chosen group by share_id) as far
             where shares.share_id = far.share_id
        )
        select array(select own_urgency from chosen), array(select distinct share_id from chosen),
               array(select share_id from round
                      where rows_max > (select count(*) from line where line.share_id = round.share_id)
                        and not exists (select from line where line.share_id = round.share_id and not is_stale
                                                           and row_id <> all (array(select row_id from chosen))))
          into now_in, served, ran_out;
        let_in := let_in || now_in;
        seen_through := seen_through || ran_out;
        -- Who adds a task to one at this moment holds it.
        ran_out := array(select share_id from holdfast.shares
                          where share_id = any (ran_out || served)
                            and not exists (select from holdfast.gated where gated.share_id = shares.share_id)
                          order by share_id for update skip locked);
        update holdfast.shares set idle_at = holdfast.now()
         where share_id = any (ran_out)
           and not exists (select from holdfast.gated where gated.share_id = shares.share_id);
    end loop;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.sort_into_shares(batch_max integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    rule record;
    num_gone int;
    num_all int := 0;
begin
    for rule in
        select rules.rule_id, rules.queue from holdfast.share_rules as rules
         where rules.sorted_at is null and rules.ended_at is null
         order by rules.rule_id
           for no key update of rules skip locked
    loop
        with gone as (
            delete from holdfast.ready where rule.queue <> '' and ctid = any (array(
                select ready.ctid
                  from (select ready.ctid, ready.job_id, ready.task_index from holdfast.ready
                         where ready.queue = rule.queue
                         order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
                         limit batch_max
                           for update skip locked) as ready))
            returning job_id, task_index, unschedulable_at
        )
        select holdfast.gate(array_agg(job_id), array_agg(task_index), array_agg(unschedulable_at))
          into num_gone from gone join holdfast.tasks using (job_id, task_index);
        num_all := num_all + num_gone;
        update holdfast.share_rules set sorted_at = holdfast.now() where rule_id = rule.rule_id and num_gone = 0;
    end loop;
    return num_all;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.return_from_shares(batch_max integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    rule record;
    num_gone int;
    num_all int := 0;
begin
    for rule in
        select rules.rule_id, rules.ended_at from holdfast.share_rules as rules
         where rules.ended_at is not null
         order by rules.rule_id
           for no key update of rules skip locked
    loop
        with gone as (
            delete from holdfast.gated where ctid = any (array(
                select line.row_id
                  from holdfast.shares
                 cross join lateral (
                       select gated.ctid as row_id from holdfast.gated
                        where gated.share_id = shares.share_id limit batch_max
                          for update skip locked) as line
                 where shares.rule_id = rule.rule_id limit batch_max))
            returning queue, eligible_at, job_id, task_index, unschedulable_at
        )
        -- What has aged stands in the line of a queue by its own priority.
        insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at)
        select gone.queue, -jobs.priority, eligible_at, job_id, task_index, unschedulable_at
          from gone join holdfast.jobs using (job_id);
        get diagnostics num_gone = row_count;
        num_all := num_all + num_gone;
        if num_gone = 0 and rule.ended_at < holdfast.now() - interval '1 minute' then
            perform holdfast.drop_idle_shares(rule.rule_id, null, batch_max);
            delete from holdfast.share_rules
             where rule_id = rule.rule_id
               and not exists (select from holdfast.shares where shares.rule_id = rule.rule_id);
        end if;
    end loop;
    return num_all;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.drop_idle_shares(rule bigint, before timestamp with time zone, batch_max integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
    held bigint[];
    num_gone int;
begin
    held := array(select share_id from holdfast.shares
                   where rule_id = rule and (before is null or idle_at < before)
                   order by share_id limit batch_max for update skip locked);
    delete from holdfast.shares
     where share_id = any (held)
       and not exists (select from holdfast.gated where gated.share_id = shares.share_id);
    get diagnostics num_gone = row_count;
    return num_gone;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.age_shares(heads_max integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    rule record;
    num_aged int;
    num_all int := 0;
begin
    for rule in
        select rules.rule_id, rules.age_step, rules.age_max from holdfast.share_rules as rules
         where rules.age_step is not null and rules.ended_at is null
         order by rules.rule_id
           for no key update of rules skip locked
    loop
        with aged as materialized (
            select line.row_id, shares.urgency, shares.value
              from holdfast.shares
             cross join lateral (
                   select gated.ctid as row_id, gated.eligible_at, gated.job_id from holdfast.gated
                    where gated.share_id = shares.share_id
                      and gated.eligible_at <= holdfast.now() - rule.age_step
                    order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index
                    limit heads_max
                      for update skip locked) as line
              join holdfast.jobs using (job_id)
             cross join lateral (select -jobs.priority - shares.urgency as gained) as so_far
             where shares.rule_id = rule.rule_id and shares.idle_at is null and gained < rule.age_max
               and line.eligible_at <= holdfast.now() - (gained + 1) * rule.age_step
        ),
        turns as materialized (
            select urgency, value, holdfast.find_share(rule.rule_id, urgency - 1, value) as share_id
              from (select distinct urgency, value from aged order by urgency, value) as known
        )
        update holdfast.gated set share_id = turns.share_id, urgency = turns.urgency - 1
          from aged join turns using (urgency, value)
         where gated.ctid = aged.row_id;
        get diagnostics num_aged = row_count;
        num_all := num_all + num_aged;
    end loop;
    return num_all;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.put_signal(of_job bigint, of_task integer, signal_name text, signal_payload json, signal_key text, sender text, OUT outcome text, OUT found_index integer, OUT found_number integer)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
    task record;
    first record;
begin
    found_index := of_task;
    if of_task is null then
        select case when num_tasks = 1 then 0 end into found_index
          from holdfast.jobs where job_id = of_job and submitted_at is not null;
        if not found then
            outcome := 'no_job';
            return;
        elsif found_index is null then
            outcome := 'which_task';
            return;
        end if;
    end if;
    select tasks.attempt, tasks.state, tasks.finished_at is not null as has_ended into task
      from holdfast.tasks where tasks.job_id = of_job and tasks.task_index = found_index for update;
    if not found or not exists (select from holdfast.jobs where job_id = of_job and submitted_at is not null) then
        outcome := 'no_task';
        return;
    end if;
    select name, number, payload::jsonb as payload into first
      from holdfast.signals
     where job_id = of_job and task_index = found_index and idempotency_key = signal_key;
    if found then
        found_number := first.number;
        outcome := case when first.name = signal_name and first.payload = signal_payload::jsonb
                        then 'repeated' else 'other_content' end;
        return;
    end if;
    if task.has_ended or exists (select from holdfast.jobs where job_id = of_job
                                    and (finished_at is not null or cancel_mode is not null)) then
        outcome := 'ended';
        return;
    end if;
    select coalesce(max(number), 0) + 1 into found_number
      from holdfast.signals where job_id = of_job and task_index = found_index and name = signal_name;
    if found_number > 1000 then
        outcome := 'too_many';
        return;
    end if;
    insert into holdfast.signals (job_id, task_index, name, number, payload, sent_at, sent_by, idempotency_key)
    values (of_job, found_index, signal_name, found_number, signal_payload, holdfast.now(), sender, signal_key);
    update holdfast.waiting set eligible_at = least(eligible_at, holdfast.now())
     where job_id = of_job and task_index = found_index
       and exists (select from holdfast.signal_waits as waits
                    where waits.job_id = of_job and waits.task_index = found_index and waits.name = signal_name
                      and waits.attempt = task.attempt - 1 and waits.parked_at is not null
                      and waits.ended_at is null);
    outcome := 'sent';
end $function$;

CREATE OR REPLACE FUNCTION holdfast.signal(job_id bigint, name text, payload jsonb DEFAULT NULL::jsonb, task_index integer DEFAULT NULL::integer, idempotency_key text DEFAULT NULL::text)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET standard_conforming_strings TO 'on'
 SET extra_float_digits TO '1'
AS $function$
#variable_conflict use_variable
declare
    content constant text := coalesce(payload, 'null')::text;
    task_id text;
    put record;
begin
    perform holdfast.refuse_field('job_id', 'is missing; pass the id of the job') where job_id is null;
    perform holdfast.refuse_field('name', 'is empty; name the signal, such as approval') where coalesce(name, '') = '';
    perform holdfast.check_size('name', length(name), 200, 'characters');
    perform holdfast.check_value('payload', payload) where payload is not null;
    perform holdfast.check_size('payload', octet_length(content), (select input_bytes_max from holdfast.limits),
                                'bytes');
    perform holdfast.refuse_field('idempotency_key', 'is empty; leave it out, or give it a name')
      where idempotency_key = '';
    perform holdfast.check_size('idempotency_key', length(idempotency_key), 256, 'characters')
      where idempotency_key is not null;
    select * into put
      from holdfast.put_signal(job_id, task_index, name, content::json, idempotency_key, session_user::text);
    task_id := format('%s.%s', job_id, put.found_index);
    if put.outcome in ('sent', 'repeated') then
        insert into holdfast.actions (at, actor, action, subject_kind, subject, facts)
        select holdfast.now(), session_user::text, 'signal', 'task', task_id, jsonb_build_object('signal', name)
         where put.outcome = 'sent';
        return put.found_number;
    end if;
    perform holdfast.refuse_field('task_index', format(
        'is missing: job %s has several tasks; say which by its index', job_id)) where put.outcome = 'which_task';
    perform holdfast.refuse_field('idempotency_key', format(
        '%L was used for a different signal; use a new key, or send the same signal', idempotency_key))
      where put.outcome = 'other_content';
    perform holdfast.refuse_field('name', '1001 signals is over the limit of 1000 signals')
      where put.outcome = 'too_many';
    if put.outcome = 'ended' then
        raise exception using errcode = 'object_not_in_prerequisite_state', message = format(
            'cannot send signal %L to task %s: it is at its end, or its job is', name, task_id);
    end if;
    raise exception using errcode = 'no_data_found', message = format(
        'there is no %s', case put.outcome when 'no_job' then format('job %s', job_id)
                          else format('task %s', task_id) end);
end $function$;
revoke all on function holdfast.signal(bigint,text,jsonb,integer,text) from public;

CREATE OR REPLACE FUNCTION holdfast.store_jobs(job_id bigint[], name text[], type text[], owner text[], queue text[], priority integer[], spec text[], labels text[], parent_job_id bigint[], replay_of bigint[], correlation_id text[], trace_id text[], trace_parent text[], idempotency_key text[], asked text[], shown boolean[], fan_out boolean[], max_task_failures integer[], num_tasks integer[], graph_id bigint[], compensates_job_id bigint[], unmet integer[], actor text[], scheduling_timeout interval[], positions integer[], task_indexes integer[], placed boolean[], inputs text[], at timestamp with time zone, policies_version bigint, partitions_end bigint, OUT job_ids bigint[], OUT stored_at timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
 SET lock_timeout TO '250ms'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET random_page_cost TO '0'
 SET seq_page_cost TO '0'
AS $function$
#variable_conflict use_column
declare
    new_ids bigint[];
    shared_queues text[];
begin
    stored_at := coalesce(at, holdfast.now());
    job_ids := job_id;
    if job_id[1] is null then
        job_ids := array(
            select nextval('holdfast.job_ids') from holdfast.policy_clock, generate_series(1, cardinality(job_id))
             where version + functions_version = policies_version);
        if cardinality(job_ids) = 0 or job_ids[cardinality(job_ids)] >= partitions_end then
            job_ids := '{}';
            return;
        end if;
    end if;
    with stored as (
        insert into holdfast.jobs (
            job_id, name, type, owner, queue, priority, spec, labels, parent_job_id, replay_of, correlation_id,
            trace_id, trace_parent, idempotency_key, asked_hash, created_at, submitted_at, fan_out,
            max_task_failures, num_tasks, pending, graph_id, compensates_job_id, unmet, seq, event_type, event_at,
            event_actor)
        select job_id, name, type, owner, queue, priority, spec::jsonb, labels::jsonb, parent_job_id, replay_of,
               correlation_id, trace_id, trace_parent, idempotency_key, jsonb_hash_extended(asked::jsonb, 0),
               stored_at, case when shown then stored_at end, fan_out, max_task_failures, num_tasks, num_tasks,
               graph_id, compensates_job_id, unmet, shown::int,
               case when shown then 'submitted'::holdfast.event_type end, case when shown then stored_at end,
               case when shown then coalesce(actor, owner) end
          from unnest(job_ids, name, type, owner, queue, priority, spec, labels, parent_job_id, replay_of,
                      correlation_id, trace_id, trace_parent, idempotency_key, asked, shown, fan_out,
                      max_task_failures, num_tasks, graph_id, compensates_job_id, unmet, actor)
            as new(job_id, name, type, owner, queue, priority, spec, labels, parent_job_id, replay_of,
                   correlation_id, trace_id, trace_parent, idempotency_key, asked, shown, fan_out,
                   max_task_failures, num_tasks, graph_id, compensates_job_id, unmet, actor)
        on conflict (owner, idempotency_key) where idempotency_key is not null do nothing
        returning job_id)
    select array_agg(job_id) into new_ids from stored;
    if cardinality(new_ids) is distinct from cardinality(job_ids) then
        job_ids := array(select case when id = any (new_ids) then id end
                           from unnest(job_ids) with ordinality as given(id, position) order by position);
    end if;
    if positions is null then
        return;
    end if;
    insert into holdfast.tasks (job_id, task_index, placed, eligible_at, submitted_at, moved_at, input)
    select job_ids[position], task_index, placed, stored_at, stored_at, stored_at, input::json
      from unnest(positions, task_indexes, placed, inputs) as new(position, task_index, placed, input)
     where job_ids[position] is not null;
    shared_queues := holdfast.shared_queues();
    insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at)
    select coalesce(queue, ''), -priority, stored_at, job_id, task_index, stored_at + scheduling_timeout
      from unnest(job_ids, queue, priority, num_tasks, scheduling_timeout)
             as line(job_id, queue, priority, num_tasks, scheduling_timeout),
           generate_series(0, num_tasks - 1) as task_index
     where job_id is not null and coalesce(queue, '') <> all (shared_queues);
    if exists (select from holdfast.usage_limits) then
        perform holdfast.gate_crowds(array_agg(job_id), array_agg(task_index), adds_buckets => true)
           from unnest(job_ids, queue, num_tasks) as line(job_id, queue, num_tasks),
                generate_series(0, num_tasks - 1) as task_index
          where job_id is not null and queue is not null and queue <> all (shared_queues);
    end if;
    if shared_queues && store_jobs.queue then
        perform holdfast.gate(array_agg(job_id), array_agg(task_index), array_agg(stored_at + scheduling_timeout))
           from unnest(job_ids, queue, num_tasks, scheduling_timeout)
                  as line(job_id, queue, num_tasks, scheduling_timeout),
                generate_series(0, num_tasks - 1) as task_index
          where job_id is not null and queue = any (shared_queues);
    end if;
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
    key record;
    last bigint;
    before bigint;
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
    perform holdfast.check_unique(spec, inputs, num_tasks, limits);
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
    if jsonb_typeof(complete -> 'concurrency_key') = 'object' then
        perform holdfast.check_key(complete, inputs);
    end if;

    -- Who joins a chain has a number above those of all who joined before.
    if complete ? 'chain' then
        insert into holdfast.chains (owner, key) values (complete ->> 'owner', complete ->> 'chain')
            on conflict on constraint a_chain_has_one_last_job do update set joined_at = holdfast.now()
        returning last_job_id into last;
        perform holdfast.has_limits();  -- before jobs are locked: whoever changes limits waits for leases
        loop  -- once, unless one ends at this moment: then an earlier one comes next
            before := holdfast.find_in_chain(last);
            perform from holdfast.jobs where job_id in (last, before) order by job_id for share;
            exit when not exists (select from holdfast.jobs where job_id = before and finished_at is not null);
        end loop;
        if complete ->> 'on_failure' = 'block' then
            before := coalesce(holdfast.find_stop(last), before);
        end if;
    end if;
    id := nextval('holdfast.job_ids');
    if id >= (select max(end_job_id) from holdfast.partitions) then
        perform holdfast.ensure_partition(id);
    end if;
    clock := holdfast.now();
    if complete ? 'unique' then
        perform holdfast.has_limits();
        if exists (select from holdfast.jobs where owner = complete ->> 'owner'
                      and idempotency_key = complete ->> 'idempotency_key') then
            return holdfast.answer_repeat(plain, inputs);
        end if;
        select * into strict key from holdfast.take_unique_key(id, complete, inputs, clock);
        if key.holder is not null then
            return key.holder;
        elsif key.start_at is not null then
            complete := complete || jsonb_build_object('not_before', extract(epoch from key.start_at)::float8);
        end if;
    end if;
    insert into holdfast.jobs (
        job_id, name, type, owner, queue, priority, spec, labels, correlation_id, trace_id, idempotency_key,
        asked_hash, created_at, submitted_at, fan_out, max_task_failures, num_tasks, pending, unmet, seq, event_type,
        event_at, event_actor)
    values (
        id, complete ->> 'name', complete ->> 'type', complete ->> 'owner', complete ->> 'queue',
        coalesce((complete ->> 'priority')::int, 0), complete, coalesce(complete -> 'labels', '{}'),
        coalesce(complete ->> 'correlation_id', gen_random_uuid()::text), complete ->> 'trace_id',
        complete ->> 'idempotency_key',
        case when complete ? 'idempotency_key' then jsonb_hash_extended(nullif(plain, complete), 0) end,
        clock, clock, inputs is not null, (complete ->> 'max_task_failures')::int, num_tasks, num_tasks,
        (before is not null)::int, 1,
        'submitted', clock, complete ->> 'owner')
    on conflict (owner, idempotency_key) where idempotency_key is not null do nothing;
    if not found then
        if complete ? 'unique' then
            raise exception using errcode = 'serialization_failure',
                message = 'a job under this idempotency_key was submitted at the same moment; try again';
        end if;
        return holdfast.answer_repeat(plain, inputs);
    end if;
    eligible := greatest(clock, to_timestamp(0) + holdfast.as_interval((complete ->> 'not_before')::numeric));
    insert into holdfast.tasks (job_id, task_index, placed, eligible_at, submitted_at, moved_at, input)
    select id, task_index, complete ->> 'queue' is null, eligible, clock, clock, (inputs -> task_index)::json
      from generate_series(0, num_tasks - 1) as task_index;
    if complete ? 'chain' then
        update holdfast.chains set last_job_id = id
         where chains.owner = complete ->> 'owner' and chains.key = complete ->> 'chain';
        insert into holdfast.dependencies (job_id, depends_on, condition, on_failure)
        select id, before, 'ended', coalesce(complete ->> 'on_failure', 'pass')
         where before is not null;
    end if;
    if before is not null then
        null;  -- its tasks are put in line when its turn comes
    elsif eligible > clock then
        insert into holdfast.waiting (job_id, task_index, eligible_at)
        select id, task_index, eligible from generate_series(0, num_tasks - 1) as task_index;
    elsif exists (select from holdfast.share_rules
                   where share_rules.queue = complete ->> 'queue' and ended_at is null) then
        perform holdfast.gate(array_agg(id), array_agg(task_index), array_agg(
                    eligible + holdfast.as_interval((complete ->> 'scheduling_timeout')::numeric)))
           from generate_series(0, num_tasks - 1) as task_index;
    else
        insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at)
        select coalesce(complete ->> 'queue', ''), -coalesce((complete ->> 'priority')::int, 0), eligible, id,
               task_index, eligible + holdfast.as_interval((complete ->> 'scheduling_timeout')::numeric)
          from generate_series(0, num_tasks - 1) as task_index;
        if exists (select from holdfast.usage_limits) then
            perform holdfast.gate_crowds(array_agg(id), array_agg(task_index), adds_buckets => false)
               from generate_series(0, num_tasks - 1) as task_index;
        end if;
    end if;
    if eligible <= clock then
        -- Commits that notify wait for each other, all of them in the cluster: who submits a lot may do without.
        perform pg_notify('holdfast_ready', complete ->> 'queue')
          where complete ? 'queue' and current_setting('holdfast.notify', true) is distinct from 'off';
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
        elsif given.type = 'text or object' and given.found in ('string', 'object') then
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
        "not_before": "number?", "expires": "number?", "expires_at": "number?", "priority": "integer?",
        "concurrency_key": "text or object?", "slots": "integer?", "idempotency_key": "string?",
        "correlation_id": "string?", "trace_id": "string?", "verbose_events": "boolean?", "unique": "object?",
        "chain": "string?", "on_failure": "string?", "placed": "boolean"}');
    perform holdfast.refuse_field('placed', format('goes without a queue, and %L is one; give one of them',
                                                   spec ->> 'queue'))
      where spec -> 'placed' = 'true' and spec ->> 'queue' is not null;
    perform holdfast.check_fields('entrypoint.', spec -> 'entrypoint', '{
        "command": "array?", "shell": "string?", "function": "string?", "args": "array", "kwargs": "object",
        "pickle": "string?"}');
    perform holdfast.check_fields('backoff.', coalesce(nullif(spec -> 'backoff', 'null'), '{}'), '{
        "base": "number", "factor": "number", "ceiling": "number"}');
    if jsonb_typeof(spec -> 'concurrency_key') = 'object' then
        perform holdfast.check_fields('concurrency_key.', spec -> 'concurrency_key', '{"input": "string?"}');
    end if;
    perform holdfast.refuse_field(format('entrypoint.command[%s]', position - 1), 'is not a string; give one')
       from jsonb_array_elements(nullif(spec #> '{entrypoint,command}', 'null'))
            with ordinality as words(word, position)
      where jsonb_typeof(word) <> 'string';
    perform holdfast.refuse_field(field, 'holds something else than strings; write each value as a string')
       from unnest(array['labels', 'environment']) as field, jsonb_each(spec -> field)
      where jsonb_typeof(value) <> 'string';
    perform holdfast.refuse_field(field, format('is unknown; use %s or %s', one, other))
       from (values ('on_exhausted', 'fail', 'dead_letter'), ('on_timeout', 'kill', 'fail'),
                    ('on_failure', 'pass', 'block')) as known(field, one, other)
      where spec ->> field not in (one, other);
    perform holdfast.check_unique_shape(nullif(spec -> 'unique', 'null'));
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
    of_limits text;
begin
    foreach field in array array['name', 'type', 'owner', 'queue', 'idempotency_key', 'correlation_id',
                                 'trace_id', 'chain'] loop
        perform holdfast.refuse_field(field, 'is empty; leave it out or give it a value') where spec ->> field = '';
        perform holdfast.check_size(field, length(spec ->> field), limits.text_length_max, 'characters');
    end loop;
    perform holdfast.refuse_field('idempotency_key',
                'begins with holdfast:, which is kept for jobs that the server submits; use another')
      where spec ->> 'idempotency_key' like 'holdfast:%';
    perform holdfast.refuse_field('queue', format(
                '%L is not a queue name; use letters, digits and ._:/-', spec ->> 'queue'))
      where spec ->> 'queue' !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]*$';
    perform holdfast.refuse_field('on_failure', 'goes with a chain; name one, or leave it out')
      where spec ->> 'on_failure' is not null and spec ->> 'chain' is null;
    foreach field in array array['labels', 'environment'] loop
        perform case when key = '' then holdfast.refuse_field(field, 'has an empty name; give it one') end,
                holdfast.check_size(field, length(key), limits.text_length_max, 'characters'),
                holdfast.check_size(field || '.' || key, length(value), limits.error_length_max, 'characters')
           from jsonb_each_text(spec -> field);
    end loop;
    for field, of_limits in
        select case jsonb_typeof(given) when 'object' then 'concurrency_key.input' else 'concurrency_key' end,
               case jsonb_typeof(given) when 'object' then given ->> 'input' else given #>> '{}' end
          from (select spec -> 'concurrency_key' as given) as mine
    loop
        perform holdfast.refuse_field(field, 'is empty; leave it out or give it a value')
          where field = 'concurrency_key' and of_limits = '';
        perform holdfast.check_size(field, length(of_limits), limits.text_length_max, 'characters');
        perform holdfast.refuse_field(field, 'has an empty step; write it like customer.id')
          where field = 'concurrency_key.input' and '' = any (string_to_array(of_limits, '.'));
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
                    ('slots', 1, 1000),
                    ('lease', limits.lease_seconds_min::numeric, limits.lease_seconds_max::numeric),
                    ('timeout', 0.001, year),
                    ('scheduling_timeout', 0.001, year),
                    ('grace', 0, 86400),
                    ('not_before', 0, 253370764800),
                    ('expires', 0.001, year),
                    ('expires_at', 0, 253370764800),
                    ('backoff.base', 0, 86400),
                    ('backoff.factor', 1, 100),
                    ('backoff.ceiling', coalesce((spec #>> '{backoff,base}')::numeric, 0.5), 86400)
            ) as ranges(field, lowest, highest)
      where coalesce((spec #>> string_to_array(field, '.'))::numeric, case field when 'backoff.ceiling' then 60 end)
            not between lowest and highest;
    perform holdfast.refuse_field('expires', 'goes without expires_at; give one of the two')
      where num_nonnulls(spec ->> 'expires', spec ->> 'expires_at') = 2;
    perform holdfast.refuse_field('expires_at', 'ends before the job may start; let it expire later')
      where (spec ->> 'expires_at')::numeric <= nullif((spec ->> 'not_before')::numeric, 0);
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

CREATE OR REPLACE FUNCTION holdfast.check_key(spec jsonb, inputs jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
    field constant text := 'concurrency_key.input';
    path constant text := spec #>> '{concurrency_key,input}';
    steps constant text[] := string_to_array(path, '.');
begin
    perform holdfast.refuse_field(field, format(
                '%L leads to nothing: the job has neither inputs nor arguments; give the key as a text', path))
      where inputs is null and spec #> '{entrypoint,args,0}' is null
        and coalesce(spec #> '{entrypoint,kwargs}', '{}') = '{}';
    perform holdfast.refuse_field(field, case jsonb_typeof(target)
                when 'object' then format('%L leads to an object in %s; name one value in it', path, place)
                when 'array' then format('%L leads to a list in %s; name one value in it', path, place)
                else format('%L leads to nothing in %s; %s', path, place, remedy) end)
       from (select format('inputs[%s]', position - 1) as place, value as root,
                    case when jsonb_typeof(value) in ('object', 'array')
                         then 'name a field that each has, or give it there as null for no key'
                         else 'name a field that each has, or none at all ('''') to count by the input itself'
                         end as remedy
               from jsonb_array_elements(inputs) with ordinality as each(value, position)
              union all
             select 'entrypoint.args[0]', spec #> '{entrypoint,args,0}',
                    'name a field that it has, give all arguments by name, or give the key as a text'
              where inputs is null and spec #> '{entrypoint,args,0}' is not null
              union all
             select 'entrypoint.kwargs', spec #> '{entrypoint,kwargs}',
                    'name an argument that is given, or give the key as a text'
              where inputs is null and spec #> '{entrypoint,args,0}' is null) as given,
            lateral (select root #> steps as target) as led
      where jsonb_typeof(target) in ('object', 'array')
         or target is null and not exists (
                select from generate_series(1, cardinality(steps) - 1) as length
                 where root #> steps[:length] = 'null');
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
                   when 'unique' then holdfast.complete_unique(value)
                   when 'concurrency_key' then case jsonb_typeof(value) when 'object' then '{"input": ""}' || value
                                                    else value end
                   when 'backoff' then '{"base": 0.5, "factor": 2, "ceiling": 60}' || value
                   else value end)
          from jsonb_each(spec)
         where value <> 'null' and key <> 'max_attempts'
           and (key, value) not in (('environment', '{}'), ('labels', '{}'), ('priority', '0'),
                                  ('concurrency_key', '{"input": null}')));
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
    if own ? 'expires_at' then
        announced := announced - 'expires';
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

CREATE OR REPLACE FUNCTION holdfast.take_limited(queues text[], urgencies integer[], places_at timestamp with time zone[], place_job_ids bigint[], place_indexes integer[], tasks_max integer, look_ahead integer, firsts integer[], asking text[], claim_keys text[], starting boolean[], is_bounded boolean, noise bytea, notes_places boolean, OUT is_declined boolean, OUT is_short boolean, OUT num_stale integer, OUT requests integer[], OUT job_ids bigint[], OUT task_indexes integer[], OUT attempt_numbers integer[], OUT tokens uuid[], OUT expiries timestamp with time zone[], OUT started boolean[], OUT waits double precision[], OUT inputs text[], OUT failure_counts integer[], OUT preemption_counts integer[], OUT free_loss_counts integer[], OUT found_queues text[], OUT found_urgencies integer[], OUT found_at timestamp with time zone[], OUT found_job_ids bigint[], OUT found_indexes integer[], OUT num_gated integer, OUT opens_at timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    look_max constant int := tasks_max + look_ahead;
    shares int[];
    shared boolean := false;
    num_picked int;
    is_sized boolean;
    stale_rows tid[];
    row_ids tid[];
    line_queues text[];
    types text[];
    owners text[];
    keys text[];
    slots int[];
    line_urgencies int[];
    eligibles timestamptz[];
    line_job_ids bigint[];
    line_indexes int[];
    give_ups timestamptz[];
    durations interval[];
    run_timeouts interval[];
    starts_at_once boolean[];
    verdicts bigint[];
    held text[];
    next_opening timestamptz;
begin
    num_gated := 0;
    perform holdfast.open_due(queues, tasks_max);
    -- A queue that may start nothing is left alone: its tasks stay in line, however many they are.
    select caps, room.opens_at into shares, opens_at from holdfast.find_room(queues, look_max) as room;
    if cardinality(queues) > 1 then
        shares := array(
            select (select count(*) from unnest(best.numbers) as number where number = wanted.number)::int
              from generate_subscripts(queues, 1) as wanted(number),
                   (select array_agg(heads.number) as numbers from (
                        select wanted.number
                          from unnest(queues, urgencies, places_at, place_job_ids, place_indexes, shares)
                               with ordinality as wanted(queue, urgency, eligible_at, job_id, task_index, share,
                                                         number)
                         cross join lateral (
                               select ready.urgency, ready.eligible_at
                                 from holdfast.ready
                                where ready.queue = wanted.queue
                                  and (ready.urgency, ready.eligible_at, ready.job_id, ready.task_index)
                                      >= (wanted.urgency, wanted.eligible_at, wanted.job_id, wanted.task_index)
                                order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
                                limit greatest(wanted.share, 0)) as head
                         where not exists (select from holdfast.queues where queues.queue = wanted.queue)
                         order by head.urgency, head.eligible_at
                         limit look_max) as heads) as best
             order by wanted.number);
        shared := (select sum(share) from unnest(shares) as share) >= tasks_max;
    end if;
    with picked as materialized (
        select head.*
          from unnest(queues, urgencies, places_at, place_job_ids, place_indexes, shares)
                 as wanted(queue, urgency, eligible_at, job_id, task_index, share)
         cross join lateral (
               select ready.ctid as row_id, ready.queue, ready.urgency, ready.eligible_at, ready.unschedulable_at,
                      tasks.job_id, tasks.task_index, tasks.state, tasks.input,
                      tasks.preemption_count = 0 and tasks.free_loss_count = 0 as has_cost_no_worker
                 from holdfast.ready
                 join holdfast.tasks on tasks.job_id = ready.job_id and tasks.task_index = ready.task_index
                where ready.queue = wanted.queue
                  and (ready.urgency, ready.eligible_at, ready.job_id, ready.task_index)
                      >= (wanted.urgency, wanted.eligible_at, wanted.job_id, wanted.task_index)
                order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
                limit greatest(wanted.share, 0)
                  for update of ready, tasks skip locked) as head
         where not exists (select from holdfast.queues where queues.queue = wanted.queue)
         order by head.urgency, head.eligible_at
         limit look_max
    ),
    seen as materialized (
        select picked.row_id, picked.queue, picked.urgency, picked.eligible_at, picked.unschedulable_at,
               picked.job_id, picked.task_index, jobs.type, jobs.owner,
               picked.state = 1 and jobs.submitted_at is not null and jobs.finished_at is null
               and jobs.cancel_mode is null as is_fresh,
               jobs.spec ->> 'resources' is not null as is_sized,
               coalesce((jobs.spec ->> 'slots')::int, 1) as slots,
               case when jobs.spec ? 'concurrency_key' then holdfast.asked_key(jobs.spec, picked.input) end as key,
               (jobs.spec ->> 'lease')::float8 * interval '1 second' as duration,
               (jobs.spec ->> 'timeout')::float8 * interval '1 second' as run_timeout,
               -- As JobSpec.starts_at_once has it.
               picked.has_cost_no_worker
               and coalesce(jobs.spec #>> '{entrypoint,command}', jobs.spec #>> '{entrypoint,shell}',
                            jobs.spec ->> 'bundle', nullif(jobs.spec ->> 'requirements', '[]')) is null
               as starts_at_once
          from picked join holdfast.jobs using (job_id)
         order by picked.urgency, picked.eligible_at, picked.job_id, picked.task_index
    ),
    places as (
        select distinct on (queue) queue, urgency, eligible_at, job_id, task_index
          from picked where notes_places order by queue, urgency, eligible_at, job_id, task_index
    )
    select (select count(*) from picked),
           array(select row_id from seen where not is_fresh),
           line.*, found.*
      into num_picked, stale_rows, is_sized, row_ids, line_queues, types, owners, keys, slots, line_urgencies,
           eligibles, line_job_ids, line_indexes, give_ups, durations, run_timeouts, starts_at_once, found_queues,
           found_urgencies, found_at, found_job_ids, found_indexes
      from (select coalesce(bool_or(is_sized), false), array_agg(row_id), array_agg(queue), array_agg(type),
                   array_agg(owner), array_agg(case when length(key) > 256 then holdfast.short_key(key) else key end),
                   array_agg(slots), array_agg(urgency), array_agg(eligible_at),
                   array_agg(job_id), array_agg(task_index), array_agg(unschedulable_at), array_agg(duration),
                   array_agg(run_timeout), array_agg(starts_at_once)
              from seen where is_fresh) as line,
           (select array_agg(queue), array_agg(urgency), array_agg(eligible_at), array_agg(job_id),
                   array_agg(task_index)
              from places) as found;
    is_short := num_picked < tasks_max and shared;
    num_stale := cardinality(stale_rows);
    -- An incarnation that has been replaced can never speak again.
    is_declined := row_ids is not null and (is_bounded and is_sized or exists (
        select from holdfast.workers where workers.worker_id = any (asking) and workers.lost_at is not null));
    if is_declined then
        return;
    end if;
    if row_ids is not null then
        select passing.verdicts, passing.held, passing.opens_at into verdicts, held, next_opening
          from holdfast.pass_limits(
              line_queues, types, owners, keys, slots, line_urgencies, eligibles, line_job_ids, line_indexes,
              give_ups, array_fill(null::text, array[cardinality(row_ids)]), tasks_max) as passing;
        opens_at := least(opens_at, next_opening);
    end if;
    delete from holdfast.ready
     where ctid = any (stale_rows || array(
         select row_id from unnest(row_ids, verdicts) as mine(row_id, verdict) where verdict >= 0));
    num_gated := (select count(*) from unnest(verdicts) as verdict where verdict > 0);
    if 0 <> all (coalesce(verdicts, '{}')) then
        return;
    end if;
    with clock as materialized (select holdfast.now() as now),
    passed as materialized (
        select job_id, task_index, eligible_at, held, slots, duration, run_timeout, starts_at_once,
               row_number() over (order by position)::int as number
          from unnest(line_job_ids, line_indexes, eligibles, verdicts, held, slots, durations, run_timeouts,
                      starts_at_once)
               with ordinality as mine(job_id, task_index, eligible_at, verdict, held, slots, duration, run_timeout,
                                       starts_at_once, position)
         where verdict = 0
    ),
    given as materialized (
        select passed.*, mine.request, asking[mine.request] as worker_id, claim_keys[mine.request] as claim_key,
               encode(substring(noise from number * 16 - 15 for 16), 'hex')::uuid as lease_token,
               starting[mine.request] and passed.starts_at_once as starts
          from passed cross join lateral (select width_bucket(passed.number, firsts)) as mine(request)
    ),
    moved as (
        update holdfast.tasks
           set state = case when given.starts then 3 else 9 end,
               seq = tasks.seq + case when given.starts then 2 else 1 end,
               claim_seq = case when given.starts then tasks.seq else tasks.claim_seq end,
               started_at = case when given.starts then greatest(clock.now, tasks.moved_at)
                                 else tasks.started_at end,
               moved_at = greatest(clock.now, tasks.moved_at), actor = given.worker_id, cause = null
          from given, clock
         where tasks.job_id = given.job_id and tasks.task_index = given.task_index
        returning tasks.job_id, tasks.task_index, tasks.attempt, tasks.moved_at, tasks.input, tasks.failure_count,
                  tasks.preemption_count, tasks.free_loss_count, given.request, given.number, given.starts,
                  given.worker_id, given.claim_key, given.lease_token, given.duration, given.run_timeout,
                  given.eligible_at, clock.now, given.held, given.slots
    ),
    leased as (
        insert into holdfast.leases (job_id, task_index, attempt, worker_id, lease_token, created_at, expires_at,
                                     duration, run_timeout, run_deadline_at, claim_key, held, slots)
        select job_id, task_index, attempt, worker_id, lease_token, moved_at, now + duration, duration, run_timeout,
               case when starts then now + run_timeout end, claim_key, held::bigint[],
               case when held is not null then slots end
          from moved
    )
    select array_agg(request), array_agg(job_id), array_agg(task_index), array_agg(attempt),
           array_agg(lease_token), array_agg(now + duration), array_agg(starts),
           array_agg(extract(epoch from now - eligible_at)::float8), array_agg(input::text),
           array_agg(failure_count), array_agg(preemption_count), array_agg(free_loss_count)
      into requests, job_ids, task_indexes, attempt_numbers, tokens, expiries, started, waits, inputs,
           failure_counts, preemption_counts, free_loss_counts
      from (select * from moved order by number) as moved;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.succeed_attempts(job_ids bigint[], task_indexes integer[], attempt_numbers integer[], tokens uuid[], results text[], OUT positions integer[], OUT seconds double precision[], OUT worker_ids text[], OUT opened_queues text[], OUT opened_job_ids bigint[], OUT opened_indexes integer[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    freed_held text[];
    freed_slots int[];
begin
    with clock as materialized (select holdfast.now() as now),
    mine as materialized (
        select * from unnest(job_ids, task_indexes, attempt_numbers, tokens, results)
               with ordinality as mine(job_id, task_index, attempt, lease_token, result, position)
         order by job_id, task_index
    ),
    fenced as materialized (
        select mine.*, leases.worker_id
          from mine join holdfast.leases
            on leases.job_id = any (array[mine.job_id]) and leases.task_index = mine.task_index
           and leases.attempt = mine.attempt and leases.lease_token = mine.lease_token
         where not leases.ending
    ),
    moved as (
        update holdfast.tasks
           set state = 4, seq = tasks.seq + 1, moved_at = greatest(clock.now, tasks.moved_at),
               finished_at = greatest(clock.now, tasks.moved_at), actor = fenced.worker_id, cause = null,
               result = fenced.result::json
          from fenced, clock
         where tasks.job_id = fenced.job_id and tasks.task_index = fenced.task_index
           and tasks.attempt = fenced.attempt and tasks.state = 3
        returning tasks.job_id, tasks.task_index, tasks.started_at, tasks.finished_at, fenced.position
    ),
    -- Sorted, so that all tasks are locked before the first lease, as everywhere.
    freed as (
        delete from holdfast.leases using (select * from moved order by job_id, task_index) as moved
         where leases.job_id = any (array[moved.job_id]) and leases.task_index = moved.task_index
        returning moved.job_id, moved.task_index, leases.attempt, leases.worker_id, leases.created_at,
                  moved.started_at, moved.finished_at, leases.lease_token, leases.expires_at, moved.position,
                  leases.held, leases.slots
    ),
    ended as (
        insert into holdfast.attempts (job_id, task_index, attempt, worker_id, state, created_at, started_at,
                                       finished_at, released_at, exit_code, lease_token,
                                       last_lease_expires_at, reported)
        select job_id, task_index, attempt, worker_id, 4, created_at, started_at, finished_at,
               finished_at, 0, lease_token, expires_at, true
          from freed
    )
    select array_agg(position::int), array_agg(extract(epoch from finished_at - started_at)::float8),
           array_agg(worker_id), array_agg(held::text) filter (where held is not null),
           array_agg(slots) filter (where held is not null)
      into positions, seconds, worker_ids, freed_held, freed_slots
      from freed;
    if freed_held is not null then
        select * into opened_queues, opened_job_ids, opened_indexes
          from holdfast.open_freed(freed_held, freed_slots);
    end if;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.take_tasks(queues text[], urgencies integer[], places_at timestamp with time zone[], place_job_ids bigint[], place_indexes integer[], tasks_max integer, firsts integer[], asking text[], claim_keys text[], starting boolean[], is_bounded boolean, noise bytea, notes_places boolean, OUT is_declined boolean, OUT is_short boolean, OUT num_stale integer, OUT requests integer[], OUT job_ids bigint[], OUT task_indexes integer[], OUT attempt_numbers integer[], OUT tokens uuid[], OUT expiries timestamp with time zone[], OUT started boolean[], OUT waits double precision[], OUT inputs text[], OUT failure_counts integer[], OUT preemption_counts integer[], OUT free_loss_counts integer[], OUT found_queues text[], OUT found_urgencies integer[], OUT found_at timestamp with time zone[], OUT found_job_ids bigint[], OUT found_indexes integer[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    shares int[] := array_fill(tasks_max, array[cardinality(queues)]);
    num_shared int := 0;
    num_picked int;
begin
    -- Of several queues no more is locked than is taken; should others hold some of that, less is found: `is_short`.
    if cardinality(queues) > 1 then
        shares := array(
            select (select count(*) from unnest(best.numbers) as number where number = wanted.number)::int
              from generate_subscripts(queues, 1) as wanted(number),
                   (select array_agg(heads.number) as numbers from (
                        select wanted.number
                          from unnest(queues, urgencies, places_at, place_job_ids, place_indexes)
                               with ordinality as wanted(queue, urgency, eligible_at, job_id, task_index, number)
                         cross join lateral (
                               select ready.urgency, ready.eligible_at
                                 from holdfast.ready
                                where ready.queue = wanted.queue
                                  and (ready.urgency, ready.eligible_at, ready.job_id, ready.task_index)
                                      >= (wanted.urgency, wanted.eligible_at, wanted.job_id, wanted.task_index)
                                order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
                                limit tasks_max) as head
                         where not exists (select from holdfast.queues where queues.queue = wanted.queue)
                         order by head.urgency, head.eligible_at
                         limit tasks_max) as heads) as best
             order by wanted.number);
        num_shared := (select sum(share) from unnest(shares) as share);
    end if;
    with clock as materialized (select holdfast.now() as now),
    -- One index range per queue, then the best of all: a sort over `queue = any` reads a million. Each is looked at
    -- from a place in its order on: dead rows before it, which vacuum may not remove, are not stepped over.
    picked as materialized (
        select head.*
          from unnest(queues, urgencies, places_at, place_job_ids, place_indexes, shares)
                 as wanted(queue, urgency, eligible_at, job_id, task_index, share)
         cross join lateral (
               select ready.ctid as row_id, ready.queue, ready.urgency, ready.eligible_at, tasks.job_id,
                      tasks.task_index, tasks.state,
                      tasks.preemption_count = 0 and tasks.free_loss_count = 0 as has_cost_no_worker
                 from holdfast.ready
                 join holdfast.tasks on tasks.job_id = ready.job_id and tasks.task_index = ready.task_index
                where ready.queue = wanted.queue
                  and (ready.urgency, ready.eligible_at, ready.job_id, ready.task_index)
                      >= (wanted.urgency, wanted.eligible_at, wanted.job_id, wanted.task_index)
                order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
                limit wanted.share
                  for update of ready, tasks skip locked) as head
         where not exists (select from holdfast.queues where queues.queue = wanted.queue)
         order by head.urgency, head.eligible_at
         limit tasks_max
    ),
    fresh as materialized (
        select picked.job_id, picked.task_index, picked.eligible_at, picked.has_cost_no_worker,
               row_number() over (order by picked.urgency, picked.eligible_at, picked.job_id, picked.task_index)::int
               as number,
               (jobs.spec ->> 'lease')::float8 * interval '1 second' as duration,
               (jobs.spec ->> 'timeout')::float8 * interval '1 second' as run_timeout,
               jobs.spec ->> 'resources' is not null as is_sized,
               -- As JobSpec.starts_at_once has it.
               coalesce(jobs.spec #>> '{entrypoint,command}', jobs.spec #>> '{entrypoint,shell}',
                        jobs.spec ->> 'bundle', nullif(jobs.spec ->> 'requirements', '[]')) is null
               as starts_at_once
          from picked join holdfast.jobs using (job_id)
         where picked.state = 1 and jobs.submitted_at is not null and jobs.finished_at is null
           and jobs.cancel_mode is null
    ),
    -- An incarnation that has been replaced can never speak again.
    verdict as materialized (
        select exists (select from holdfast.workers
                        where workers.worker_id = any (asking) and workers.lost_at is not null)
               or is_bounded and exists (select from fresh where is_sized) as is_declined
          from (select 1 from fresh limit 1) as anything
    ),
    given as materialized (
        select fresh.*, fresh.starts_at_once and fresh.has_cost_no_worker and starting[mine.request] as starts,
               mine.request, asking[mine.request] as worker_id, claim_keys[mine.request] as claim_key,
               encode(substring(noise from number * 16 - 15 for 16), 'hex')::uuid as lease_token
          from fresh cross join lateral (select width_bucket(fresh.number, firsts)) as mine(request), verdict
         where not verdict.is_declined
    ),
    dropped as (
        delete from holdfast.ready
         where ctid = any (array(select row_id from picked where not exists (select from verdict where is_declined)))
    ),
    moved as (
        update holdfast.tasks
           set state = case when given.starts then 3 else 9 end,
               seq = tasks.seq + case when given.starts then 2 else 1 end,
               claim_seq = case when given.starts then tasks.seq else tasks.claim_seq end,
               started_at = case when given.starts then greatest(clock.now, tasks.moved_at)
                                 else tasks.started_at end,
               moved_at = greatest(clock.now, tasks.moved_at), actor = given.worker_id, cause = null
          from given, clock
         where tasks.job_id = given.job_id and tasks.task_index = given.task_index
        returning tasks.job_id, tasks.task_index, tasks.attempt, tasks.moved_at, tasks.input, tasks.failure_count,
                  tasks.preemption_count, tasks.free_loss_count, given.request, given.number, given.starts,
                  given.worker_id, given.claim_key, given.lease_token, given.duration, given.run_timeout,
                  given.eligible_at, clock.now
    ),
    leased as (
        insert into holdfast.leases (job_id, task_index, attempt, worker_id, lease_token, created_at, expires_at,
                                     duration, run_timeout, run_deadline_at, claim_key)
        select job_id, task_index, attempt, worker_id, lease_token, moved_at, now + duration, duration, run_timeout,
               case when starts then now + run_timeout end, claim_key
          from moved
    ),
    places as (
        select distinct on (queue) queue, urgency, eligible_at, job_id, task_index
          from picked where notes_places order by queue, urgency, eligible_at, job_id, task_index
    )
    select coalesce((select verdict.is_declined from verdict), false),
           (select count(*) from picked), (select count(*) from picked) - (select count(*) from fresh),
           claims.*, found.*
      into is_declined, num_picked, num_stale, requests, job_ids, task_indexes, attempt_numbers, tokens, expiries,
           started, waits, inputs, failure_counts, preemption_counts, free_loss_counts, found_queues,
           found_urgencies, found_at, found_job_ids, found_indexes
      from (select array_agg(request), array_agg(job_id), array_agg(task_index), array_agg(attempt),
                   array_agg(lease_token), array_agg(now + duration), array_agg(starts),
                   array_agg(extract(epoch from now - eligible_at)::float8), array_agg(input::text),
                   array_agg(failure_count), array_agg(preemption_count), array_agg(free_loss_count)
              from (select * from moved order by number) as moved) as claims,
           (select array_agg(queue), array_agg(urgency), array_agg(eligible_at), array_agg(job_id),
                   array_agg(task_index)
              from places) as found;
    is_short := num_picked < tasks_max and num_shared = tasks_max;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.turn(ended_jobs bigint[], ended_tasks integer[], ended_attempts integer[], ended_tokens uuid[], results text[], queues text[], urgencies integer[], places_at timestamp with time zone[], place_job_ids bigint[], place_indexes integer[], tasks_max integer, firsts integer[], asking text[], claim_keys text[], digests bytea[], starting boolean[], is_bounded boolean, noise bytea, notes_places boolean, OUT ended integer[], OUT ended_seconds double precision[], OUT ended_workers text[], OUT is_declined boolean, OUT is_short boolean, OUT num_stale integer, OUT requests integer[], OUT job_ids bigint[], OUT task_indexes integer[], OUT attempt_numbers integer[], OUT tokens uuid[], OUT expiries timestamp with time zone[], OUT started boolean[], OUT waits double precision[], OUT inputs text[], OUT failure_counts integer[], OUT preemption_counts integer[], OUT free_loss_counts integer[], OUT found_queues text[], OUT found_urgencies integer[], OUT found_at timestamp with time zone[], OUT found_job_ids bigint[], OUT found_indexes integer[], OUT num_gated integer, OUT opens_in double precision, OUT opened_queues text[], OUT opened_job_ids bigint[], OUT opened_indexes integer[], OUT is_repeated boolean, OUT ended_job_ids bigint[], OUT has_follow_ups boolean)
 RETURNS record
 LANGUAGE plpgsql
 SET lock_timeout TO '250'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET join_collapse_limit TO '1'
 SET random_page_cost TO '0'
 SET seq_page_cost TO '0'
AS $function$
#variable_conflict use_column
declare
    moved_jobs bigint[];
    pending int[];
    assigned int[];
    running int[];
    succeeded int[];
    must_be_live boolean[];
    num_keys int;
    num_counted int;
    -- Before anything is locked, since whoever changes limits waits for leases.
    given_max constant int := firsts[cardinality(firsts)] - 1;
    has_limits constant boolean := cardinality(asking) > 0 and holdfast.has_limits();
    opens_at timestamptz;
begin
    if cardinality(ended_jobs) > 0 then
        select * into ended, ended_seconds, ended_workers, opened_queues, opened_job_ids, opened_indexes
          from holdfast.succeed_attempts(ended_jobs, ended_tasks, ended_attempts, ended_tokens, results);
    end if;
    if cardinality(asking) > 0 and exists (select from holdfast.share_rules) then
        perform holdfast.let_in(queues, tasks_max, tasks_max);
        -- What is let in may stand before the place from which others look on.
        select array_agg(case when is_shared then '-infinity' else at end order by number),
               array_agg(case when is_shared then -2147483648 else urgency end order by number)
          into places_at, urgencies
          from (select exists (select from holdfast.share_rules as rules where rules.queue = wanted.queue),
                       wanted.at, wanted.urgency, wanted.number
                  from unnest(queues, places_at, urgencies)
                       with ordinality as wanted(queue, at, urgency, number)) as looked(is_shared, at, urgency, number);
    end if;
    if has_limits then
        select * into is_declined, is_short, num_stale, requests, job_ids, task_indexes, attempt_numbers, tokens,
                      expiries, started, waits, inputs, failure_counts, preemption_counts, free_loss_counts,
                      found_queues, found_urgencies, found_at, found_job_ids, found_indexes, num_gated, opens_at
          from holdfast.take_limited(queues, urgencies, places_at, place_job_ids, place_indexes,
                                     least(tasks_max, given_max), greatest(tasks_max - given_max, 0), firsts,
                                     asking, claim_keys, starting, is_bounded, noise, notes_places);
        opens_in := extract(epoch from opens_at - holdfast.now());
    elsif cardinality(asking) > 0 then
        select * into is_declined, is_short, num_stale, requests, job_ids, task_indexes, attempt_numbers, tokens,
                      expiries, started, waits, inputs, failure_counts, preemption_counts, free_loss_counts,
                      found_queues, found_urgencies, found_at, found_job_ids, found_indexes
          from holdfast.take_tasks(queues, urgencies, places_at, place_job_ids, place_indexes,
                                   least(tasks_max, given_max), firsts, asking, claim_keys, starting,
                                   is_bounded, noise, notes_places);
    end if;
    if requests is not null then
        insert into holdfast.idempotency_keys (scope, key, request_digest, created_at)
        select 'claim:' || worker_id, key, digest, holdfast.now()
          from unnest(asking, claim_keys, digests) with ordinality as mine(worker_id, key, digest, request)
         where mine.key is not null and mine.request = any (requests)
         order by 1, 2
            on conflict (scope, key) do nothing;
        get diagnostics num_keys = row_count;
        if num_keys < (select count(*) from unnest(claim_keys) with ordinality as mine(key, request)
                        where mine.key is not null and mine.request = any (requests)) then
            raise exception using errcode = 'HF002', message = 'a claim has come under the same key before';
        end if;
    end if;
    -- Who is given nothing may have been given something the first time.
    is_repeated := exists (
        select from unnest(asking, claim_keys) with ordinality as mine(worker_id, key, request)
         where mine.key is not null and mine.request <> all (coalesce(requests, '{}'))
           and (select true from holdfast.idempotency_keys
                 where idempotency_keys.scope = 'claim:' || mine.worker_id and idempotency_keys.key = mine.key));
    if ended is null and requests is null then
        return;
    end if;
    select array_agg(job_id), array_agg(moves.pending), array_agg(moves.assigned), array_agg(moves.running),
           array_agg(moves.succeeded), array_agg(moves.must_be_live)
      into moved_jobs, pending, assigned, running, succeeded, must_be_live
      from (select job_id, -count(*) filter (where starts is not null) as pending,
                   count(*) filter (where not starts) as assigned,
                   count(*) filter (where starts) - count(*) filter (where starts is null) as running,
                   count(*) filter (where starts is null) as succeeded,
                   bool_or(starts is not null) as must_be_live
              from (select ended_jobs[position] as job_id, null::boolean as starts
                      from unnest(ended) as position
                    union all
                    select * from unnest(job_ids, started)) as made
             group by job_id order by job_id) as moves;
    select counted.num_counted, counted.ended_job_ids, counted.has_follow_ups
      into num_counted, ended_job_ids, has_follow_ups
      from holdfast.count_moves(moved_jobs, pending, assigned, '{}', running, succeeded, '{}', '{}', '{}', '{}',
                                '{}', '{}', '{}', '{}', must_be_live) as counted;
    assert num_counted = cardinality(moved_jobs), 'a task without its job';
end $function$;

CREATE OR REPLACE FUNCTION holdfast.check_unique_shape(rule jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
    if rule is null then
        return;
    end if;
    perform holdfast.check_fields('unique.', rule, '{
        "arguments": "array?", "values": "array?", "owner": "boolean", "period": "number?", "states": "array?",
        "on_conflict": "string", "keep_start": "boolean"}');
    perform holdfast.refuse_field(format('unique.arguments[%s]', position - 1), 'is not a string; give one')
       from jsonb_array_elements(nullif(rule -> 'arguments', 'null')) with ordinality as listed(path, position)
      where jsonb_typeof(path) <> 'string';
    perform holdfast.refuse_field(format('unique.states[%s]', position - 1), 'is no state of a job; use a small name')
       from jsonb_array_elements(nullif(rule -> 'states', 'null')) with ordinality as listed(state, position)
      where state not in ('"pending"', '"running"', '"succeeded"', '"failed"', '"killed"', '"worker_failed"',
                          '"unschedulable"', '"dead_lettered"');
    perform holdfast.refuse_field('unique.on_conflict', 'is unknown; use first, replace or refuse')
      where rule ->> 'on_conflict' not in ('first', 'replace', 'refuse');
end $function$;

CREATE OR REPLACE FUNCTION holdfast.check_unique(spec jsonb, inputs jsonb, num_tasks integer, limits holdfast.limits)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
    rule constant jsonb := jsonb_strip_nulls(spec -> 'unique');
    step constant text := '[^\x01-\x20+.\[\]\x7f-][^.\[\]]*';
    -- What is empty is not stored.
    called constant jsonb := jsonb_build_object(
        'args', nullif(spec #> '{entrypoint,args}', '[]'), 'kwargs', nullif(spec #> '{entrypoint,kwargs}', '{}'),
        'inputs', inputs);
begin
    if rule is null or rule = 'null' then
        return;
    end if;
    perform holdfast.refuse_field('unique', format(
                'goes with jobs of at most %s tasks; split the job, or leave it out', limits.batch_tasks_max))
      where num_tasks > limits.batch_tasks_max;
    perform holdfast.refuse_field('unique.values', 'goes without arguments; give one of the two')
      where rule ?& '{arguments,values}';
    perform holdfast.refuse_field('unique.arguments', 'names more than 100 arguments; name fewer')
      where jsonb_array_length(rule -> 'arguments') > 100;
    perform case when path !~ format('^(?:args|kwargs|inputs)(?:\.%s|\[[0-9]+\])*$', step)
                 then holdfast.refuse_field(format('unique.arguments[%s]', position - 1), format(
                          '%L is no way to an argument; write it like args[0], kwargs.user.id or inputs[0]', path))
                 when called #> holdfast.steps_of(path) is null
                      or called -> (holdfast.steps_of(path))[1] = 'null'
                 then holdfast.refuse_field(format('unique.arguments[%s]', position - 1), format(
                          'the job has no %L; name what it is called with, or give values', path)) end
       from jsonb_array_elements_text(rule -> 'arguments') with ordinality as listed(path, position);
    perform holdfast.refuse_field('unique.period', 'is out of range; use 1 to 31622400')
      where (rule ->> 'period')::numeric not between 1 and 366 * 86400;
    perform holdfast.refuse_field('unique.states', 'lacks pending, in which every job begins; add it')
      where not rule -> 'states' ? 'pending';
    perform holdfast.refuse_field('unique.states', 'lacks running, which comes before an end; add it')
      where not rule -> 'states' ? 'running' and (rule -> 'states') - 'pending' <> '[]';
    perform holdfast.refuse_field('unique.states',
                'goes beyond pending; only what waits can be replaced, so leave it out or give ["pending"]')
      where rule ->> 'on_conflict' = 'replace' and (rule -> 'states') - 'pending' <> '[]';
    perform holdfast.refuse_field('unique.keep_start', 'goes with on_conflict replace only')
      where rule -> 'keep_start' = 'true' and rule ->> 'on_conflict' is distinct from 'replace';
    perform holdfast.check_value('unique.values', rule -> 'values');
end $function$;

CREATE OR REPLACE FUNCTION holdfast.steps_of(path text)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select array(select found[1] from regexp_matches(path, '[^.\[\]]+', 'g') as found)
$function$;

CREATE OR REPLACE FUNCTION holdfast.complete_unique(rule jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select jsonb_build_object('states', case
               when rule ->> 'on_conflict' = 'replace' then '["pending"]'::jsonb
               when rule ->> 'period' is not null then '["pending", "running", "succeeded"]'
               else '["pending", "running"]' end)
           || coalesce(jsonb_object_agg(key, value) filter (
                  where value <> 'null' and (key, value) not in (
                      ('owner', 'false'), ('keep_start', 'false'), ('on_conflict', '"first"'))), '{}')
      from jsonb_each(rule)
$function$;

CREATE OR REPLACE FUNCTION holdfast.unique_digest(spec jsonb, inputs jsonb, at timestamp with time zone)
 RETURNS bytea
 LANGUAGE sql
 STABLE
AS $function$
    select sha256(convert_to(jsonb_build_array(
               spec -> 'type', spec -> 'queue',
               case when rule -> 'owner' = 'true' then spec -> 'owner' end,
               coalesce(
                   rule -> 'values',
                   case when rule ? 'arguments' then (
                       select coalesce(jsonb_agg(called #> holdfast.steps_of(path) order by position), '[]')
                         from jsonb_array_elements_text(rule -> 'arguments') with ordinality as listed(path, position))
                   end,
                   jsonb_build_object('entrypoint', spec -> 'entrypoint', 'inputs', inputs)),
               -- As a float: 60 and 60.0 are one period.
               (rule ->> 'period')::float8,
               floor(extract(epoch from at)::float8 / (rule ->> 'period')::float8))::text, 'utf8'))
      from (select spec -> 'unique' as rule,
                   jsonb_build_object('args', spec #> '{entrypoint,args}', 'kwargs', spec #> '{entrypoint,kwargs}',
                                      'inputs', inputs) as called) as given
$function$;

CREATE OR REPLACE FUNCTION holdfast.unique_states(rule jsonb)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
AS $function$
    select bit_or(1 << number)
      from (values ('pending', 1), ('running', 3), ('succeeded', 4), ('failed', 5),
                   ('killed', 6), ('worker_failed', 7), ('unschedulable', 8),
                   ('dead_lettered', 10)) as known(name, number)
     where rule -> 'states' ? name
$function$;

CREATE OR REPLACE FUNCTION holdfast.take_unique_keys(job_ids bigint[], specs jsonb[], inputs jsonb[], actors text[], at timestamp with time zone, OUT answers text[], OUT holders bigint[], OUT starts timestamp with time zone[], OUT has_follow_ups boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
    wanted record;
    holder bigint;
    replaced record;
begin
    answers := array_fill(null::text, array[cardinality(job_ids)]);
    holders := array_fill(null::bigint, array[cardinality(job_ids)]);
    starts := array_fill(null::timestamptz, array[cardinality(job_ids)]);
    has_follow_ups := false;
    for wanted in
        select new.position, new.job_id, new.actor,
               coalesce(new.spec #>> '{unique,on_conflict}', 'first') as on_conflict,
               coalesce(new.spec #> '{unique,keep_start}', 'false') = 'true' as keeps_start,
               holdfast.unique_digest(new.spec, new.input, at) as digest
          from unnest(job_ids, specs, take_unique_keys.inputs, actors)
               with ordinality as new(job_id, spec, input, actor, position)
         order by digest, position
    loop
        for tries in 1..1000 loop
            if tries = 1000 then
                raise exception using errcode = 'lock_not_available', message = 'a unique key keeps changing hands';
            end if;
            insert into holdfast.unique_jobs (digest, job_id) values (wanted.digest, wanted.job_id)
                on conflict (digest) do nothing;
            exit when found;
            select unique_jobs.job_id into holder from holdfast.unique_jobs where digest = wanted.digest;
            continue when not found;
            if wanted.on_conflict <> 'replace' then
                answers[wanted.position] := case wanted.on_conflict when 'refuse' then 'refused' else 'first' end;
                holders[wanted.position] := holder;
                exit;
            end if;
            if holder = any (job_ids) then
                -- Of those that come together, the last is stored; the others are answered with it.
                update holdfast.unique_jobs set job_id = wanted.job_id where digest = wanted.digest;
                holders := array_replace(holders, holder, wanted.job_id);
                answers[array_position(job_ids, holder)] := 'first';
                holders[array_position(job_ids, holder)] := wanted.job_id;
                starts[wanted.position] := case when wanted.keeps_start
                                                then starts[array_position(job_ids, holder)] end;
                exit;
            end if;
            select jobs.state, jobs.spec, jobs.submitted_at, jobs.unmet
              into replaced
              from holdfast.jobs where jobs.job_id = holder for update;
            -- Under its lock nobody else lets go of the key, or takes it over.
            continue when not exists (
                select from holdfast.unique_jobs where digest = wanted.digest and unique_jobs.job_id = holder);
            if replaced.state <> 1 then
                answers[wanted.position] := 'started';
                holders[wanted.position] := holder;
                exit;
            end if;
            if wanted.keeps_start and replaced.unmet = 0 then
                starts[wanted.position] := coalesce(
                    to_timestamp((replaced.spec ->> 'not_before')::float8),
                    replaced.submitted_at
                    + coalesce((replaced.spec ->> 'start_delay')::float8, 0) * interval '1 second');
            end if;
            perform holdfast.cancel_replaced_job(holder, wanted.job_id, wanted.actor, at);
            has_follow_ups := true;
        end loop;
    end loop;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.cancel_replaced_job(replaced_job bigint, by_job bigint, actor text, at timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
    update holdfast.jobs
       set cancel_mode = 'hard', cancel_reason = coalesce(cancel_reason, format('replaced by job %s', by_job)),
           seq = seq + 1, event_type = 'cancel_requested', event_at = greatest(at, event_at), event_actor = actor,
           event_cause = format('replaced by job %s', by_job), event_payload = '{"mode": "hard"}'
     where job_id = replaced_job;
    insert into holdfast.outbox (kind, job_id, next_index, created_at) values ('sweep', replaced_job, 0, at);
end $function$;

CREATE OR REPLACE FUNCTION holdfast.take_unique_key(id bigint, spec jsonb, inputs jsonb, at timestamp with time zone, OUT holder bigint, OUT start_at timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
    answer text;
begin
    select answers[1], holders[1], starts[1] into answer, holder, start_at
      from holdfast.take_unique_keys(array[id], array[spec], array[inputs], array[spec ->> 'owner'], at);
    if answer in ('refused', 'started') then
        raise exception using
            errcode = 'unique_violation', column = 'unique',
            message = case answer
                when 'refused'
                then format('unique: job %s is alike; wait for it or cancel it, or use another on_conflict', holder)
                else format('unique: job %s, which is alike, has started; try again when it has ended', holder) end;
    end if;
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

CREATE OR REPLACE FUNCTION holdfast.note_expiry()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    insert into holdfast.expiries (job_id, expires_at)
    values (new.job_id, coalesce(to_timestamp((new.spec ->> 'expires_at')::float8),
                                 new.created_at + (new.spec ->> 'expires')::float8 * interval '1 second'));
    return null;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.forget_expiry()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    delete from holdfast.expiries where job_id = old.job_id;
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

CREATE OR REPLACE FUNCTION holdfast.keep_chain_waiting()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    if new.on_failure = 'block' and exists (
           select from holdfast.jobs
            where jobs.job_id = old.depends_on and jobs.state <> 4 and jobs.cancel_mode is null) then
        return null;
    end if;
    if exists (select from holdfast.dependencies as earlier
                where earlier.job_id = old.depends_on and earlier.closed_at is null and earlier.on_failure is not null
                  and not exists (select from holdfast.dependencies as known
                                   where known.job_id = old.job_id and known.depends_on = earlier.depends_on
                                     and known.on_failure is not null)) then
        insert into holdfast.outbox (kind, job_id, created_at, due_at)
        values ('release', old.depends_on, holdfast.now(), holdfast.now() + interval '1 second');
        return null;
    end if;
    return new;
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
    select job_id, task_index, claim_seq, attempt,
           case when placed then 'placed' else 'claimed' end::holdfast.event_type,
           moved_at, actor, cause, null, txid_current()
      from moved
     where state = 3 and claim_seq = seq - 2
    union all
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

CREATE OR REPLACE FUNCTION holdfast.note_unique_states()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    new.unique_states := holdfast.unique_states(new.spec -> 'unique');
    return new;
end $function$;

CREATE OR REPLACE FUNCTION holdfast.release_unique_key()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    delete from holdfast.unique_jobs where job_id = old.job_id;
    return null;
end $function$;
