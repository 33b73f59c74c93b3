-- What people read of schedules.

-- name: list_schedules
select schedule_id, name, spec::text, inputs::text, placed, terms::text, declared_by, version, created_at, created_by,
       changed_at, changed_by, paused_at, paused_by, retired_at, next_at, due_at, problem
  from holdfast.schedules
 where name > $after collate "C" order by name limit $count_max;

-- name: find_schedule
select schedule_id, name, spec::text, inputs::text, placed, terms::text, declared_by, version, created_at, created_by,
       changed_at, changed_by, paused_at, paused_by, retired_at, next_at, due_at, problem
  from holdfast.schedules where name = $name;

-- name: list_last_firings
select firings.schedule_id, firings.instant, firings.kind, firings.outcome, firings.job_id, firings.problem,
       firings.fired_at, jobs.state
  from unnest($schedule_ids::bigint[]) as mine(schedule_id)
 cross join lateral (select * from holdfast.schedule_firings
                      where schedule_firings.schedule_id = mine.schedule_id
                      order by instant desc limit $count_max) as firings
  left join holdfast.jobs using (job_id)
 order by firings.schedule_id, firings.instant desc;

-- name: list_firings
select firings.schedule_id, firings.instant, firings.kind, firings.outcome, firings.job_id, firings.problem,
       firings.fired_at, jobs.state
  from (select * from holdfast.schedule_firings
         where schedule_id = $schedule_id and instant < $before
         order by instant desc limit $count_max) as firings
  left join holdfast.jobs using (job_id)
 order by firings.instant desc;

-- name: count_misses
select schedule_id, sum(instants)::bigint, max(last_instant)
  from holdfast.schedule_misses where schedule_id = any ($schedule_ids::bigint[])
 group by schedule_id;

-- name: list_last_misses
select first_instant, last_instant, instants, noted_at
  from holdfast.schedule_misses where schedule_id = $schedule_id
 order by first_instant desc limit $count_max;
