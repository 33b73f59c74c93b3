-- The audit of schedules: rows as in ledger.sql, but what is broken is a schedule, named first.

-- name: check_firings
-- A firing and its job are stored in one transaction, and a job outlives no partition of its ids.
select checks.invariant, coalesce(schedules.name, firings.schedule_id::text), null::int, null::int, checks.detail
  from holdfast.schedule_firings as firings
  left join holdfast.schedules using (schedule_id)
  left join (select job_id, finished_at, spec -> 'environment' ->> 'HOLDFAST_SCHEDULED_AT' as scheduled_at,
                    spec -> 'environment' ->> 'HOLDFAST_SCHEDULE' as schedule from holdfast.jobs) as jobs using (job_id)
 cross join lateral (values
    ('firing_without_its_job', firings.job_id is not null and jobs.job_id is null and exists (
        select from holdfast.partitions
         where firings.job_id >= partitions.first_job_id and firings.job_id < partitions.end_job_id
           and partitions.retired_at is null),
     format('the firing of %s has submitted job %s, which is not there', firings.instant, firings.job_id)),
    ('firing_differs_from_its_job',
     jobs.scheduled_at::timestamptz <> firings.instant or jobs.schedule <> schedules.name,
     format('the firing of %s has submitted job %s, which is for %s of %s', firings.instant, firings.job_id,
            jobs.scheduled_at, jobs.schedule)),
    ('firing_closed_too_early', not firings.is_open and jobs.job_id is not null and jobs.finished_at is null,
     format('job %s of the firing of %s has not ended', firings.job_id, firings.instant)),
    ('next_instant_was_fired', firings.kind in ('scheduled', 'caught_up') and firings.instant >= schedules.next_at,
     format('%s was fired, and the next instant is %s', firings.instant, schedules.next_at)),
    ('missed_instant_was_fired', firings.kind in ('scheduled', 'caught_up') and exists (
        select from holdfast.schedule_misses as misses
         where misses.schedule_id = firings.schedule_id
           and firings.instant between misses.first_instant and misses.last_instant),
     format('%s was fired, and noted as missed', firings.instant))
  ) as checks(invariant, broken, detail)
 where checks.broken;

-- name: check_misses
-- The stretches that a schedule has missed follow one another.
select 'misses_overlap', coalesce(schedules.name, misses.schedule_id::text), null::int, null::int,
       format('what was missed from %s on was missed before, up to %s', misses.first_instant, misses.before)
  from (select schedule_id, first_instant,
               max(last_instant) over (partition by schedule_id order by first_instant
                                       rows between unbounded preceding and 1 preceding) as before
          from holdfast.schedule_misses) as misses
  left join holdfast.schedules using (schedule_id)
 where misses.before >= misses.first_instant;
