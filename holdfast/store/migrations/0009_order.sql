-- Order and undo: jobs that wait for others, graphs of them, and the jobs that undo what others did.

alter table holdfast.jobs
    -- The jobs of one graph were submitted in one call; it is named after the first of them.
    add column graph_id bigint,
    -- What this job undoes; the replay of a failed compensation undoes the same.
    add column compensates_job_id bigint,
    -- How many of its dependencies have not been met yet, and when the last of them was.
    add column unmet int not null default 0,
    add column released_at timestamptz,
    -- The rows that are there have the defaults, which meet it: to read them all would hold up everybody.
    add constraint a_job_is_released_when_nothing_is_unmet
        check (unmet >= 0 and (released_at is null or unmet = 0)) not valid;
create unique index a_job_is_compensated_by_one_other on holdfast.jobs (compensates_job_id)
    where compensates_job_id is not null and replay_of is null;
create index compensations_of_a_job on holdfast.jobs (compensates_job_id) where compensates_job_id is not null;
create index jobs_of_a_graph on holdfast.jobs (graph_id, job_id) where graph_id is not null;

create trigger a_job_starts_after_what_it_depends_on before update on holdfast.jobs for each row
    when (new.unmet > 0 and (new.started_at is not null or new.assigned + new.building + new.running > 0)
          or new.unmet > old.unmet
          or old.released_at is not null and new.released_at is distinct from old.released_at
          or (old.graph_id, old.compensates_job_id) is distinct from (new.graph_id, new.compensates_job_id))
    execute function holdfast.refuse();

-- A job depends on earlier ones only, so there is no cycle.
create table holdfast.dependencies (
    job_id bigint not null,
    depends_on bigint not null,
    condition text not null,
    -- Once the other job has ended: when that was noticed, and whether it ended as it had to.
    settled_at timestamptz,
    holds boolean,
    constraint a_job_depends_on_another_once primary key (job_id, depends_on),
    constraint a_job_depends_on_earlier_ones check (depends_on < job_id),
    constraint a_condition_is_known check (condition in ('succeeded', 'failed', 'ended')),
    constraint a_settled_dependency_holds_or_not check ((settled_at is null) = (holds is null))
);
create index dependents_of_a_job on holdfast.dependencies (depends_on, job_id);
create index open_dependencies on holdfast.dependencies (depends_on, job_id) where settled_at is null;
create trigger a_dependency_is_settled_once before update on holdfast.dependencies for each row
    when (old.settled_at is not null
          or (old.job_id, old.depends_on, old.condition)
             is distinct from (new.job_id, new.depends_on, new.condition))
    execute function holdfast.refuse();

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

-- Some follow-ups have to wait: for the release of leases, for the end of another job.
alter table holdfast.outbox
    drop constraint an_outbox_row_has_a_known_kind,
    add constraint an_outbox_row_has_a_known_kind check (
        kind in ('feed', 'sweep', 'job_ended', 'release', 'undo', 'undo_graph', 'undone')),
    add column due_at timestamptz not null default holdfast.now();
create index outbox_by_kind on holdfast.outbox (kind, job_id);
create index outbox_by_time on holdfast.outbox (kind, due_at, id);
