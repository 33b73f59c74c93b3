-- Jobs that run exactly the tasks of another that did not succeed, in their order: the results of such a job are those
-- of both. Few jobs are such, so it is no column of theirs.
create table holdfast.continuations (
    job_id bigint not null,
    continues bigint not null,
    constraint a_job_continues_one_other primary key (job_id),
    constraint a_job_continues_an_earlier_one check (continues < job_id)
);
