-- The jobs of a chain, from the last one back to the latest that has not ended. One that has ended before its turn
-- still waits for an earlier one, which may be running, or which has failed: then `stops` says whether the chain stands
-- still after it. None has ended out of turn where nothing waits any more. Job by job and by key, and each is older
-- than the one before.
create or replace function holdfast.walk_chain(last bigint)
    returns table (job_id bigint, is_over boolean, stops boolean) language sql stable as $$
    with recursive walk(job_id, on_failure, is_over, failed) as (
        select jobs.job_id, 'block', jobs.finished_at is not null,
               jobs.state <> {SUCCEEDED} and jobs.cancel_mode is null
          from holdfast.jobs where jobs.job_id = last
        union
        select earlier.*
          from walk
         cross join lateral (
               select jobs.job_id, dependencies.on_failure, jobs.finished_at is not null,
                      jobs.state <> {SUCCEEDED} and jobs.cancel_mode is null
                 from holdfast.dependencies join holdfast.jobs on jobs.job_id = dependencies.depends_on
                where dependencies.job_id = walk.job_id and dependencies.closed_at is null
                  and dependencies.on_failure is not null
               offset 0) as earlier
         where walk.is_over
    )
    select walk.job_id, walk.is_over, walk.is_over and walk.failed and walk.on_failure = 'block' from walk
$$;

-- Whom a job that joins a chain waits for: the latest one that has not ended.
create or replace function holdfast.find_in_chain(last bigint) returns bigint language sql stable as $$
    select max(job_id) from holdfast.walk_chain(last) where not is_over
$$;

-- After whom the chain stands still for a job that joins and asks for that: nobody has let this one pass.
create or replace function holdfast.find_stop(last bigint) returns bigint language sql stable as $$
    select max(job_id) from holdfast.walk_chain(last) where stops
$$;
