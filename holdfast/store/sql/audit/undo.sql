-- Compensations: what had to be undone, what was, and in which order. As in ledger.sql, every statement returns
-- the invariant, the job, and what was seen.

-- name: check_undos
with recursive ended as materialized (
    select jobs.job_id, jobs.graph_id, jobs.state = {SUCCEEDED} as succeeded,
           jobs.spec ? 'compensation' as can_be_undone, pending.job_id is null as is_noted
      from holdfast.jobs
      left join (select distinct job_id from holdfast.outbox where kind = 'undo') as pending using (job_id)
     where jobs.finished_at is not null
),
-- What jobs that ended unsuccessfully depend on, up to others that did; of those still in the outbox, maybe.
-- From job to job by their keys: one pass over the tables per step would be too much for a long chain.
used(job_id, graph_id, is_noted) as (
    select dependencies.depends_on, ended.graph_id, ended.is_noted
      from ended join holdfast.dependencies using (job_id)
     where not ended.succeeded and ended.graph_id is not null
    union
    select further.depends_on, used.graph_id, used.is_noted
      from used
     cross join lateral (select from holdfast.jobs
                          where jobs.job_id = used.job_id and jobs.graph_id = used.graph_id and jobs.state = {SUCCEEDED}
                         offset 0) as between_them
     cross join lateral (select depends_on from holdfast.dependencies
                          where dependencies.job_id = used.job_id offset 0) as further
),
in_vain as (
    select used.job_id, bool_or(used.is_noted) as is_noted
      from used join ended on ended.job_id = used.job_id and ended.graph_id = used.graph_id and ended.succeeded
     group by used.job_id
),
had_started as (
    select distinct job_id from holdfast.attempts join ended using (job_id)
     where ended.can_be_undone and (attempts.started_at is not null or not attempts.reported)
),
facts as (
    select coalesce(ended.job_id, undos.job_id) as job_id, undos.job_id is not null as is_undone,
           coalesce(ended.can_be_undone, false)
           and case when ended.succeeded then in_vain.job_id is not null else had_started.job_id is not null end
             as may_be_undone,
           case when ended.succeeded then in_vain.is_noted else ended.is_noted end as is_noted,
           undos.cause_job_id
      from ended full join holdfast.undos on undos.job_id = ended.job_id
      left join in_vain on in_vain.job_id = ended.job_id
      left join had_started on had_started.job_id = ended.job_id
)
select 'undo_missing', job_id, null::int, null::int, 'it should be undone, and nobody has noted that'
  from facts where may_be_undone and is_noted and not is_undone
union all
select 'undo_without_reason', job_id, null::int, null::int,
       format('it is to be undone because of job %s; it has not ended, or nothing asks for it', cause_job_id)
  from facts
 where is_undone and not may_be_undone
   -- What asks for it has a later id, and so has all between the two: retention may have taken some of it.
   and (select sum(least(end_job_id, cause_job_id + 1) - greatest(first_job_id, job_id))
          from holdfast.partitions
         where first_job_id <= cause_job_id and end_job_id > job_id) = cause_job_id - job_id + 1;

-- name: check_compensations
with first as (
    select compensates_job_id as job_id, job_id as compensation_job_id
      from holdfast.jobs
     where compensates_job_id is not null and replay_of is null and submitted_at is not null
),
family as (
    select compensates_job_id as job_id,
           bool_and(jobs.state = {SUCCEEDED} or jobs.state = {DEAD_LETTERED} and letters.job_id is null) as succeeded,
           bool_or(pending.job_id is not null) as is_pending
      from holdfast.jobs
      left join (select distinct job_id from holdfast.dead_letters where replayed_as is null) as letters
             using (job_id)
      left join (select job_id from holdfast.outbox where kind = 'undone') as pending using (job_id)
     where compensates_job_id is not null and submitted_at is not null
     group by compensates_job_id
),
noted as (
    select job_id, count(*) as times from holdfast.events
     where task_index = -1 and type = 'compensated' group by job_id
),
driven as (
    select job_id as graph_id from holdfast.outbox where kind = 'undo_graph'
    union
    select undos.graph_id from holdfast.undos
     where undos.compensation_job_id is not null and undos.ended_at is null
    union
    select undos.graph_id from holdfast.outbox
      join holdfast.jobs on jobs.job_id = outbox.job_id
      join holdfast.undos on undos.job_id = jobs.compensates_job_id
     where outbox.kind = 'undone'
),
checked as (
    select coalesce(undos.job_id, jobs.job_id) as job_id, undos.compensation_job_id, undos.ended_at, undos.succeeded,
           jobs.job_id as found_job_id, coalesce(noted.times, 0) as times,
           -- Retention may have taken one of the two, and left the other.
           exists (select from holdfast.partitions
                    where first_job_id <= undos.compensation_job_id and end_job_id > undos.compensation_job_id)
             as is_expected,
           undos.job_id is null and jobs.compensates_job_id is not null as is_stray,
           exists (select from holdfast.partitions
                    where first_job_id <= jobs.compensates_job_id and end_job_id > jobs.compensates_job_id)
             as undoes_what_is_kept,
           undos.compensation_job_id is null and driven.graph_id is null as is_left_behind,
           jobs.finished_at is not null as has_ended, family.is_pending, family.succeeded as has_succeeded
      from holdfast.undos
      left join first using (job_id, compensation_job_id)
      full join holdfast.jobs on jobs.job_id = first.compensation_job_id
      left join family on family.job_id = undos.job_id
      left join noted on noted.job_id = undos.job_id
      left join driven on driven.graph_id = undos.graph_id
     where undos.job_id is not null or jobs.compensates_job_id is not null and jobs.replay_of is null
           and jobs.submitted_at is not null
)
select checks.invariant, checked.job_id, null::int, null::int, checks.detail
  from checked
 cross join lateral (values
    ('compensation_without_undo', is_stray and undoes_what_is_kept, 'no undo tells of this compensation'),
    ('undo_left_behind', not is_stray and is_left_behind and ended_at is null,
     'it waits to be undone, and nobody will look after it'),
    ('compensation_missing', compensation_job_id is not null and found_job_id is null and is_expected,
     format('job %s, which should undo it, does not, or is not there', compensation_job_id)),
    ('undo_differs_from_its_compensation',
     found_job_id is not null and not is_stray and not coalesce(is_pending, false)
     and (has_ended <> (ended_at is not null) or ended_at is not null and succeeded <> has_succeeded),
     format('its undo ended at %s, success: %s', ended_at, succeeded)),
    ('compensated_event_differs', not is_stray and times <> coalesce(succeeded, false)::int,
     format('%s events tell that it was compensated', times))
  ) as checks(invariant, broken, detail)
 where checks.broken;

-- name: check_order_of_undos
-- Noted together, for the same reason: the later must not be submitted before all earlier ones have ended. By the
-- numbers of the events, which no clock moves.
with ends as (
    select job_id, id as number from holdfast.events
     where task_index = -1 and type in ('succeeded', 'failed', 'killed', 'worker_failed', 'unschedulable',
                                        'dead_lettered')
),
steps as (
    select undos.job_id, begun.id as begun,
           max(case when undos.ended_at is null then 9223372036854775807 else compensated.number end)
               over earlier as ended
      from holdfast.undos
      join holdfast.jobs using (job_id)
      left join ends on ends.job_id = undos.job_id
      left join ends as compensated on compensated.job_id = undos.compensation_job_id
      left join holdfast.events as begun
        on begun.job_id = undos.compensation_job_id and begun.task_index = -1 and begun.type = 'submitted'
    window earlier as (
        partition by undos.graph_id, undos.cause_job_id
        order by jobs.state = {SUCCEEDED}, coalesce(ends.number, 0) desc, undos.job_id desc
        rows between unbounded preceding and 1 preceding)
)
select 'undone_out_of_order', job_id, null::int, null::int,
       format('its compensation was submitted by event %s, and one before it ended by event %s', begun,
              coalesce(nullif(ended, 9223372036854775807)::text, 'none'))
  from steps where ended > begun;
