-- Whom a job that joins a chain waits for: the latest one that has not ended, from the last one back. One that has
-- ended before its turn still waits for an earlier one, which may be running; none has ended out of turn where nothing
-- waits any more. Job by job and by key, and each is older than the one before.
create or replace function holdfast.find_in_chain(last bigint) returns bigint language sql stable as $$
    with recursive walk(job_id, is_over) as (
        select jobs.job_id, jobs.finished_at is not null from holdfast.jobs where jobs.job_id = last
        union
        select earlier.job_id, (select jobs.finished_at is not null from holdfast.jobs
                                 where jobs.job_id = earlier.job_id)
          from walk
         cross join lateral (
               select dependencies.depends_on as job_id from holdfast.dependencies
                where dependencies.job_id = walk.job_id and dependencies.closed_at is null
                  and dependencies.on_failure is not null
               offset 0) as earlier
         where walk.is_over
    )
    select max(walk.job_id) from walk where not walk.is_over
$$;
