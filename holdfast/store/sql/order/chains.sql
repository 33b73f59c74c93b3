-- name: lock_chains
-- In the order of their names, the same everywhere; one that is new is made.
insert into holdfast.chains (owner, key)
select owner, key from unnest($owners::text[], $keys::text[]) as wanted(owner, key)
 order by owner, key
    on conflict (owner, key) do update set joined_at = holdfast.now()
returning owner, key, last_job_id;

-- name: set_last_jobs
update holdfast.chains
   set last_job_id = mine.job_id
  from unnest($owners::text[], $keys::text[], $job_ids::bigint[]) as mine(owner, key, job_id)
 where chains.owner = mine.owner and chains.key = mine.key;

-- name: find_ends
-- Of the last jobs of chains: whom the next one waits for, and after whom the chain stands still. The last ones, and
-- those that live, are held, in the order of all jobs.
with found as materialized (
    select job_id, holdfast.find_in_chain(job_id) as live_job_id, holdfast.find_stop(job_id) as stop_job_id
      from unnest($job_ids::bigint[]) as mine(job_id)
),
held as materialized (
    select job_id, finished_at is not null as ended
      from holdfast.jobs
     where job_id = any (array(select job_id from found union select live_job_id from found))
     order by job_id for share
)
select last.job_id, found.live_job_id, live.ended, found.stop_job_id
  from found join held as last using (job_id)
  left join held as live on live.job_id = found.live_job_id;

-- name: allocate_more_ids
select nextval('holdfast.job_ids') from generate_series(1, $count::int);

-- name: let_pass
-- What waits for a job that has failed need not wait any longer; or, if that one ended before its turn and who waits
-- names the one before it himself, no longer than for that.
with stopped as materialized (
    select exists (select from holdfast.dependencies
                    where job_id = $job_id and closed_at is null and on_failure is not null) as waits_itself
      from holdfast.jobs where job_id = $job_id and finished_at is not null
)
update holdfast.dependencies
   set closed_at = case when not waits_itself then holdfast.now() end,
       holds = case when not waits_itself then true end,
       on_failure = 'pass'
  from stopped
 where dependencies.depends_on = $job_id and dependencies.closed_at is null and dependencies.on_failure = 'block'
returning dependencies.job_id, dependencies.closed_at is not null;

-- name: forget_last_job
-- Whoever joins next finds a new chain, and waits for nobody; or the one before that it waits for itself.
with earlier as materialized (
    select depends_on from holdfast.dependencies
     where job_id = $job_id and closed_at is null and on_failure is not null
),
kept as (
    update holdfast.chains set last_job_id = earlier.depends_on from earlier
     where last_job_id = $job_id
    returning key
),
forgotten as (
    delete from holdfast.chains
     where last_job_id = $job_id and not exists (select from earlier)
    returning key
)
select key from kept union all select key from forgotten;

-- name: keep_chains
-- Of which an older job has not ended: its last one has ended before its turn.
update holdfast.chains set last_job_id = holdfast.find_in_chain(last_job_id)
 where last_job_id >= $first_job_id and last_job_id < $end_job_id
   and exists (select from holdfast.dependencies
                where dependencies.job_id = chains.last_job_id and closed_at is null and on_failure is not null)
   and holdfast.find_in_chain(last_job_id) is not null;

-- name: forget_chains
-- And those that somebody was about to join, and was answered with another job.
delete from holdfast.chains
 where last_job_id >= $first_job_id and last_job_id < $end_job_id
    or last_job_id is null and joined_at < holdfast.now() - interval '1 day';
