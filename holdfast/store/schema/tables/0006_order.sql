-- Order and undo: which jobs wait for others, which are to be undone, and what follows from a change.

-- A job depends on earlier ones only, so there is no cycle.
create table holdfast.dependencies (
    job_id bigint not null,
    depends_on bigint not null,
    condition text not null,
    -- Once the other job has ended: when that was noticed, and whether it ended as it had to.
    closed_at timestamptz,
    holds boolean,
    constraint a_job_depends_on_another_once primary key (job_id, depends_on),
    constraint a_job_depends_on_earlier_ones check (depends_on < job_id),
    constraint a_condition_is_known check (condition in ('succeeded', 'failed', 'ended')),
    constraint a_closed_dependency_holds_or_not check ((closed_at is null) = (holds is null))
);
create index dependents_of_a_job on holdfast.dependencies (depends_on, job_id);
create index open_dependencies on holdfast.dependencies (depends_on, job_id) where closed_at is null;

-- What is to be undone, each job once: after its own failure, or after that of a job of its graph that used it.
create table holdfast.undos (
    job_id bigint not null,
    -- A job without a graph is one of its own here.
    graph_id bigint not null,
    cause_job_id bigint not null,
    requested_at timestamptz not null,
    -- The compensation, once it has been submitted, and how it ended.
    compensation_job_id bigint,
    ended_at timestamptz,
    succeeded boolean,
    constraint a_job_is_undone_once primary key (job_id),
    constraint a_compensation_undoes_one_job unique (compensation_job_id),
    constraint an_undo_ends_as_its_compensation check (
        (ended_at is null) = (succeeded is null) and (ended_at is null or compensation_job_id is not null))
);
create index open_undos_of_a_graph on holdfast.undos (graph_id) where ended_at is null;

-- What follows from a change, in transactions of its own; a row lives until its work is done. Some have to wait: for
-- the release of leases, for the end of another job.
create table holdfast.outbox (
    id bigint generated always as identity primary key,
    kind text not null,
    job_id bigint not null,
    next_index int not null default 0,
    created_at timestamptz not null,
    due_at timestamptz not null default holdfast.now(),
    constraint an_outbox_row_has_a_known_kind check (
        kind in ('feed', 'sweep', 'sweep_held', 'job_ended', 'release', 'undo', 'undo_graph', 'undone'))
);
create index outbox_by_kind on holdfast.outbox (kind, job_id);
create index outbox_by_time on holdfast.outbox (kind, due_at, id);
