-- name: insert_dependencies
insert into holdfast.dependencies (job_id, depends_on, condition, holds, on_failure, closed_at)
select job_id, depends_on, condition, holds, on_failure, case when holds is not null then holdfast.now() end
  from unnest($job_ids::bigint[], $depends_on::bigint[], $conditions::text[], $holds::boolean[], $on_failures::text[])
         as new(job_id, depends_on, condition, holds, on_failure);

-- name: find_unmet_dependencies
select job_id, depends_on
  from unnest($job_ids::bigint[]) as wanted(job_id)
  join holdfast.dependencies using (job_id)
 where holds is not true;

-- name: list_waiting_dependents
-- Who waits for jobs whose ends are to be followed up.
select waiting.job_id
  from (select outbox.job_id from holdfast.outbox
         where outbox.kind = 'release' and outbox.due_at <= (select holdfast.now())
         order by outbox.due_at, outbox.id limit $ended_max) as ended
 cross join lateral (
       select dependencies.job_id from holdfast.dependencies
        where dependencies.depends_on = ended.job_id and dependencies.closed_at is null
          and dependencies.job_id <> all ($except_jobs::bigint[])
        order by dependencies.job_id limit $batch_max) as waiting
 limit $batch_max;

-- name: delete_done_releases
delete from holdfast.outbox
 where id = any ($ids::bigint[])
   and not exists (select from holdfast.dependencies
                    where dependencies.depends_on = outbox.job_id and dependencies.closed_at is null
                      and dependencies.on_failure is distinct from 'block');

-- name: put_off_releases
-- The ends of all jobs that these still wait for.
update holdfast.outbox
   set due_at = holdfast.now() + $delay::interval
  from unnest($job_ids::bigint[]) as mine(job_id)
  join holdfast.dependencies on dependencies.job_id = mine.job_id and dependencies.closed_at is null
 where outbox.kind = 'release' and outbox.job_id = dependencies.depends_on;

-- name: close_dependencies
-- From one ended job to the next, in the order of ids, and no further than the batch: sorting all that wait
-- for a job would cost the more, the more turns it takes. `offset 0` keeps a planner from starting elsewhere.
with clock as materialized (select holdfast.now() as now),
open as materialized (
    select waiting.row_id, ended.state
      from unnest($ended_job_ids::bigint[]) as mine(job_id)
     cross join lateral (
           select jobs.state, jobs.finished_at, jobs.state = {SUCCEEDED} or jobs.cancel_mode is not null as goes_on
             from holdfast.jobs where jobs.job_id = mine.job_id offset 0) as ended
     cross join lateral (
           select dependencies.ctid as row_id from holdfast.dependencies
            where dependencies.depends_on = mine.job_id and dependencies.closed_at is null
              -- A chain that stands still after a failure is closed by whoever lets it pass.
              and (ended.goes_on or dependencies.on_failure is distinct from 'block')
              and ($among::bigint[] is null or dependencies.job_id = any ($among::bigint[]))
            order by dependencies.job_id
              for update) as waiting
     where ended.finished_at is not null
     limit $batch_max
),
closed as (
    update holdfast.dependencies
       set closed_at = clock.now,
           holds = dependencies.condition = 'ended'
                   or (dependencies.condition = 'succeeded') = (open.state = {SUCCEEDED})
      from open, clock
     where dependencies.ctid = open.row_id
    returning dependencies.job_id, dependencies.depends_on, dependencies.condition, open.state, dependencies.holds
)
select job_id, count(*)::int, (count(*) filter (where holds))::int,
       min(depends_on) filter (where not holds),
       (array_agg(condition order by depends_on) filter (where not holds))[1],
       (array_agg(state order by depends_on) filter (where not holds))[1]
  from closed group by job_id;

-- name: hand_on_chains
-- Who waits in a chain for a job that has ended while it waited itself, waits for the one before that from now on. That
-- one is held, so that its end falls before this or after it. Where the chain stands still after such a job, that is
-- when somebody lets it pass. Who asks how that job ends keeps this, and waits on, as a_chain_waits_for_all_before has
-- it.
with cut_out as materialized (
    select later.row_id, later.job_id, earlier.depends_on, jobs.finished_at
      from unnest($ended_job_ids::bigint[]) as mine(job_id)
     cross join lateral (
           select jobs.state = {SUCCEEDED} or jobs.cancel_mode is not null as goes_on
             from holdfast.jobs where jobs.job_id = mine.job_id and jobs.finished_at is not null offset 0) as ended
     cross join lateral (
           select dependencies.depends_on from holdfast.dependencies
            where dependencies.job_id = mine.job_id and dependencies.closed_at is null
              and dependencies.on_failure is not null
              for update) as earlier
     cross join lateral (
           select dependencies.ctid as row_id, dependencies.job_id from holdfast.dependencies
            where dependencies.depends_on = mine.job_id and dependencies.closed_at is null
              and dependencies.on_failure is not null and dependencies.condition = 'ended'
              and (dependencies.on_failure = 'pass' or ended.goes_on or $lets_pass)
              for update) as later
      join lateral (
           select jobs.finished_at from holdfast.jobs where jobs.job_id = earlier.depends_on for share) as jobs on true
     where not exists (select from holdfast.dependencies as known
                        where known.job_id = later.job_id and known.depends_on = earlier.depends_on)
),
handed_on as (
    update holdfast.dependencies set depends_on = cut_out.depends_on
      from cut_out where dependencies.ctid = cut_out.row_id
)
select job_id, depends_on, finished_at is not null from cut_out;

-- name: lock_dependents
select job_id, finished_at is null and cancel_mode is null
  from holdfast.jobs
 where job_id = any ($job_ids::bigint[])
 order by job_id for update;

-- name: count_met
-- Nothing is released that has ended or was cancelled while it waited.
with clock as materialized (select holdfast.now() as now),
counted as (
    update holdfast.jobs
       set unmet = jobs.unmet - mine.met,
           released_at = case when jobs.unmet = mine.met and jobs.finished_at is null and jobs.cancel_mode is null
                              then clock.now end
      from unnest($job_ids::bigint[], $met::int[]) as mine(job_id, met), clock
     where jobs.job_id = mine.job_id
    returning jobs.job_id, jobs.num_tasks, jobs.released_at,
              jobs.spec ?| '{not_before,start_delay,start_rate}' as has_time
)
select job_id, num_tasks, has_time from counted where released_at is not null order by job_id;

-- name: walk_open_dependencies
-- From one job that is waited for to the next, by the index of what is open. A job that is not there does not
-- end the walk; the audit tells of it. `offset 0` asks job by job, by index.
with recursive walk(depends_on, turn) as (
    (select depends_on, 1 from holdfast.dependencies
      where closed_at is null and depends_on > $after::bigint order by depends_on limit 1)
    union all
    select (select depends_on from holdfast.dependencies
             where closed_at is null and depends_on > walk.depends_on order by depends_on limit 1), turn + 1
      from walk where walk.depends_on is not null and turn < $batch_max::int
)
select walk.depends_on,
       jobs.finished_at is not null and not exists (
           select from holdfast.outbox where outbox.kind = 'release' and outbox.job_id = walk.depends_on)
       and (jobs.state = {SUCCEEDED} or jobs.cancel_mode is not null or exists (
           select from holdfast.dependencies
            where dependencies.depends_on = walk.depends_on and closed_at is null
              and on_failure is distinct from 'block' offset 0))
  from walk left join holdfast.jobs on jobs.job_id = walk.depends_on
 where walk.depends_on is not null
 order by walk.depends_on;

-- name: delete_dependencies_of_jobs
with gone as (
    delete from holdfast.dependencies where ctid = any (array(
        select ctid from holdfast.dependencies where job_id = any ($job_ids::bigint[]) limit $rows_max))
    returning 1
)
select count(*) from gone;

-- name: delete_undos_of_jobs
with gone as (
    delete from holdfast.undos where ctid = any (array(
        select ctid from holdfast.undos where job_id = any ($job_ids::bigint[]) limit $rows_max))
    returning 1
)
select count(*) from gone;

-- name: delete_continuations_of_jobs
with gone as (
    delete from holdfast.continuations where ctid = any (array(
        select ctid from holdfast.continuations where job_id = any ($job_ids::bigint[]) limit $rows_max))
    returning 1
)
select count(*) from gone;
