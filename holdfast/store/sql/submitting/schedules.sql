-- Schedules, their firings and what they missed. Whoever writes a firing holds the row of its schedule.

-- name: list_due_schedules
-- The clock is asked once, so that the index begins and ends with what is due: nothing else is read.
select schedule_id, name, spec::text, inputs::text, placed, terms::text, version, next_at
  from holdfast.schedules
 where due_at <= (select holdfast.now())
 order by due_at limit $batch_max
   for update skip locked;

-- name: close_ended_firings
update holdfast.schedule_firings set is_open = false
 where is_open and schedule_id = any ($schedule_ids::bigint[])
   and not exists (select from holdfast.jobs
                    where jobs.job_id = schedule_firings.job_id and jobs.finished_at is null);

-- name: list_open_firings
select schedule_id, job_id from holdfast.schedule_firings
 where is_open and schedule_id = any ($schedule_ids::bigint[])
 order by schedule_id, instant;

-- name: lock_schedules_as_read
-- Those that stand as they were read: neither fired nor changed since. One that somebody holds is left to him.
select schedules.schedule_id
  from unnest($schedule_ids::bigint[], $versions::bigint[], $next_ats::timestamptz[])
           as mine(schedule_id, version, next_at)
  join holdfast.schedules using (schedule_id)
 where schedules.version = mine.version and schedules.next_at = mine.next_at
 order by schedules.schedule_id
   for update of schedules skip locked;

-- name: insert_firings
-- Once per instant; one that came to no job may still get one, by a backfill.
insert into holdfast.schedule_firings (schedule_id, instant, kind, outcome, job_id, problem, fired_at, is_open)
select schedule_id, instant, kind, outcome, job_id, problem, holdfast.now(), job_id is not null
  from unnest($schedule_ids::bigint[], $instants::timestamptz[], $kinds::text[], $outcomes::text[],
              $job_ids::bigint[], $problems::text[])
           as mine(schedule_id, instant, kind, outcome, job_id, problem)
on conflict (schedule_id, instant) do update
   set kind = excluded.kind, outcome = excluded.outcome, job_id = excluded.job_id, problem = excluded.problem,
       fired_at = excluded.fired_at, is_open = excluded.is_open
 where schedule_firings.job_id is null and excluded.job_id is not null
returning schedule_id, instant;

-- name: list_fired
select instant from holdfast.schedule_firings
 where schedule_id = $schedule_id and instant = any ($instants::timestamptz[]) and job_id is not null;

-- name: undo_firings
update holdfast.schedule_firings
   set outcome = mine.outcome, job_id = null, is_open = false, problem = mine.problem
  from unnest($schedule_ids::bigint[], $instants::timestamptz[], $outcomes::text[], $problems::text[])
           as mine(schedule_id, instant, outcome, problem)
 where schedule_firings.schedule_id = mine.schedule_id and schedule_firings.instant = mine.instant;

-- name: insert_misses
insert into holdfast.schedule_misses (schedule_id, first_instant, last_instant, instants, noted_at)
select schedule_id, first_instant, last_instant, instants, holdfast.now()
  from unnest($schedule_ids::bigint[], $first_instants::timestamptz[], $last_instants::timestamptz[],
              $instants::bigint[]) as mine(schedule_id, first_instant, last_instant, instants)
on conflict (schedule_id, first_instant) do nothing;

-- name: advance_schedules
update holdfast.schedules
   set next_at = mine.next_at, due_at = mine.due_at, problem = null
  from unnest($schedule_ids::bigint[], $next_ats::timestamptz[], $due_ats::timestamptz[])
           as mine(schedule_id, next_at, due_at)
 where schedules.schedule_id = mine.schedule_id;

-- name: put_off_schedules
-- Only what still stands as it was read: a change of it may have been what it needed, or it was fired meanwhile.
update holdfast.schedules
   set due_at = holdfast.now() + mine.delay, problem = mine.problem
  from unnest($schedule_ids::bigint[], $versions::bigint[], $next_ats::timestamptz[], $delays::interval[],
              $problems::text[])
           as mine(schedule_id, version, next_at, delay, problem)
 where schedules.schedule_id = mine.schedule_id and schedules.version = mine.version
   and schedules.next_at = mine.next_at;

-- name: lock_schedule
select schedule_id, name, spec::text, inputs::text, placed, terms::text, version, next_at, declared_by,
       paused_at is not null as is_paused, retired_at is not null as is_retired
  from holdfast.schedules where name = $name for update;

-- name: insert_schedule
insert into holdfast.schedules (name, spec, inputs, placed, terms, declared_by, created_at, created_by, changed_at,
                                changed_by, next_at, due_at)
select $name, $spec::text::jsonb, $inputs::text::json, $placed, $terms::text::jsonb, $declared_by, clock.now, $actor,
       clock.now, $actor, $next_at, $due_at
  from (select holdfast.now() as now) as clock
on conflict (name) do nothing
returning schedule_id;

-- name: has_too_many_schedules
-- Numbers are given out once, so as long as few were, nothing has to be counted.
select $schedule_id::bigint > $schedules_max::bigint
       and $schedules_max < (select count(*) from holdfast.schedules);

-- name: change_schedule
update holdfast.schedules
   set spec = $spec::text::jsonb, inputs = $inputs::text::json, placed = $placed, terms = $terms::text::jsonb,
       changed_at = holdfast.now(), changed_by = $actor, version = version + 1, next_at = $next_at, due_at = $due_at,
       problem = null, retired_at = null
 where schedule_id = $schedule_id
returning version;

-- name: delete_schedule
delete from holdfast.schedules where schedule_id = $schedule_id;

-- name: pause_schedule
update holdfast.schedules
   set paused_at = holdfast.now(), paused_by = $actor, next_at = null, due_at = null
 where schedule_id = $schedule_id;

-- name: resume_schedule
update holdfast.schedules
   set paused_at = null, paused_by = null, next_at = $next_at, due_at = $due_at, problem = null
 where schedule_id = $schedule_id;

-- name: list_declared
-- Those that are declared in some modules, by the paths of their functions.
select declared_by from holdfast.schedules
 where declared_by is not null and retired_at is null
   and split_part(declared_by, ':', 1) = any ($modules::text[])
 order by declared_by;

-- name: retire_schedule
update holdfast.schedules
   set retired_at = holdfast.now(), next_at = null, due_at = null
 where schedule_id = $schedule_id;

-- name: prune_firings
-- The job is asked, not is_open: who fires a schedule closes its firings, and many are fired no more.
delete from holdfast.schedule_firings where (schedule_id, instant) in (
    select schedule_id, instant from holdfast.schedule_firings
     where fired_at < (select holdfast.now() - $older_than::interval)
       and not exists (select from holdfast.jobs
                        where jobs.job_id = schedule_firings.job_id
                          and (jobs.finished_at is null
                               or jobs.finished_at >= (select holdfast.now() - $older_than::interval)))
     order by fired_at limit $batch_max
       for update of schedule_firings skip locked)
returning 1;

-- name: prune_misses
delete from holdfast.schedule_misses where (schedule_id, first_instant) in (
    select schedule_id, first_instant from holdfast.schedule_misses
     where noted_at < (select holdfast.now() - $older_than::interval)
     order by noted_at limit $batch_max)
returning 1;
