-- As in ledger.sql: each row is one broken invariant, about jobs that wait for others. Of a job that was waited
-- for, retention may have left nothing; what it was waited for is closed by then.

-- name: check_dependencies
with releases as (
    select distinct job_id as depends_on from holdfast.outbox where kind = 'release'
),
checked as (
    select dependencies.*, ended.state,
           dependents.job_id is null as dependency_of_no_job,
           closed_at is null and ended.job_id is null as dependency_on_no_job,
           closed_at is null and ended.finished_at is not null and releases.depends_on is null
               and (on_failure is distinct from 'block' or ended.state = {SUCCEEDED} or ended.cancel_mode is not null)
               as dependency_forgotten,
           closed_at is not null and ended.job_id is not null and ended.finished_at is null
               as dependency_closed_too_early,
           closed_at is not null and ended.finished_at is not null
               and holds <> (condition = 'ended'
                             or (condition = 'succeeded') = (ended.state = {SUCCEEDED}))
               as dependency_differs_from_the_end
      from holdfast.dependencies
      left join holdfast.jobs as dependents using (job_id)
      left join holdfast.jobs as ended on ended.job_id = dependencies.depends_on
      left join releases on releases.depends_on = dependencies.depends_on
)
select checks.invariant, job_id, null::int, null::int,
       format('it waits for job %s, in state %s, to have %s; closed at %s, and %s', depends_on,
              coalesce(state::text, 'unknown'), condition, coalesce(closed_at::text, 'no time'),
              case when holds then 'holds' when not holds then 'does not hold' else 'open' end)
  from checked
 cross join lateral (values
    ('dependency_of_no_job', dependency_of_no_job),
    ('dependency_on_no_job', dependency_on_no_job),
    ('dependency_forgotten', dependency_forgotten),
    ('dependency_closed_too_early', dependency_closed_too_early),
    ('dependency_differs_from_the_end', dependency_differs_from_the_end)
  ) as checks(invariant, broken)
 where (dependency_of_no_job or dependency_on_no_job or dependency_forgotten or dependency_closed_too_early
        or dependency_differs_from_the_end)
   and checks.broken;

-- name: check_dependents
-- What does not hold is never met: it stays counted.
with counted as (
    select job_id, count(*) filter (where holds is not true) as missing, bool_or(not holds) as in_vain
      from holdfast.dependencies
     group by job_id
),
checked as (
    select job_id, jobs.state, unmet, released_at, coalesce(missing, 0) as missing,
           unmet <> coalesce(missing, 0) as unmet_count_differs,
           released_at is not null and (counted.job_id is null or missing > 0) as released_too_early,
           (unmet > 0 or missing > 0)
               and (started_at is not null
                    or assigned + building + running + succeeded + failed + worker_failed + unschedulable > 0)
               as started_before_its_release,
           in_vain and finished_at is null and cancel_mode is null as left_to_wait_in_vain
      from holdfast.jobs left join counted using (job_id)
     where submitted_at is not null
)
select checks.invariant, job_id, null::int, null::int,
       format('state %s; unmet is %s, with %s dependencies that do not hold; released at %s', state, unmet,
              missing, coalesce(released_at::text, 'no time'))
  from checked
 cross join lateral (values
    ('unmet_count_differs', unmet_count_differs),
    ('released_too_early', released_too_early),
    ('started_before_its_release', started_before_its_release),
    ('left_to_wait_in_vain', left_to_wait_in_vain)
  ) as checks(invariant, broken)
 where (unmet_count_differs or released_too_early or started_before_its_release or left_to_wait_in_vain)
   and checks.broken;

-- name: check_order_of_starts
-- By the numbers of the events, which no clock moves.
select 'started_before_another_ended', begun.job_id, begun.task_index, null::int,
       format('it was given to a worker by event %s; job %s, for which it waits, ended by event %s', begun.id,
              depends_on, ended.id)
  from holdfast.dependencies
  join (select job_id, id from holdfast.events
         where task_index = -1 and type in ('succeeded', 'failed', 'killed', 'worker_failed', 'unschedulable',
                                            'dead_lettered')) as ended on ended.job_id = dependencies.depends_on
  join (select job_id, task_index, id from holdfast.events
         where task_index >= 0 and attempt = 0 and type in ('claimed', 'placed')) as begun
    on begun.job_id = dependencies.job_id
 where begun.id < ended.id;

-- name: check_held_lines
-- A job that waits for others has never been in line: there can be no stale row of it either.
select 'in_line_before_its_release', job_id, task_index, null::int,
       format('%s, while %s dependencies are unmet', line, unmet)
  from (select job_id, task_index, 'ready' as line from holdfast.ready
         union all
        select job_id, task_index, 'gated' from holdfast.gated
         union all
        select job_id, task_index, 'waiting' from holdfast.waiting
         union all
        select job_id, null, 'being fed' from holdfast.outbox where kind = 'feed') as lines
  join holdfast.jobs using (job_id)
 where unmet > 0 and submitted_at is not null;

-- name: check_chains
-- Of a chain one job at a time waits for none of the others. What is run again stands outside of it.
select 'two_of_a_chain_at_once', min(job_id), null::int, null::int,
       format('chain %s of %s has %s live jobs that wait for nothing', chain, owner, count(*))
  from (select job_id, owner, spec ->> 'chain' as chain from holdfast.jobs
         where spec ? 'chain' and submitted_at is not null and finished_at is null and unmet = 0
           and replay_of is null and compensates_job_id is null) as live
 group by owner, chain
having count(*) > 1;
