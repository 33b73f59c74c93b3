-- compatible with 23
-- Unique jobs: who holds the key that jobs which are alike have in common. A job lets go of it in the transaction in
-- which it leaves the states that it has named; a trigger sees to that.
create table holdfast.unique_jobs (
    digest bytea not null,
    job_id bigint not null,
    constraint one_job_per_unique_key primary key (digest)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_analyze_threshold = 20000);
create unique index a_job_holds_one_unique_key on holdfast.unique_jobs (job_id);
-- The states in which the job holds its key, a bit for each; null for all jobs that are not unique.
alter table holdfast.jobs add column unique_states int;

-- Jobs whose tasks end if nobody has started them by a time. A row stays until then, whatever becomes of the job, and
-- longer where it has many tasks: then it says from which one on they are still to be looked at.
create table holdfast.expiries (
    job_id bigint primary key,
    expires_at timestamptz not null,
    next_index int not null default 0
);
create index expiries_by_time on holdfast.expiries (expires_at);
