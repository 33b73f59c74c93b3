-- Jobs that a cut-over starts.

-- name: put_trigger
insert into holdfast.dataset_triggers (dataset, name, spec, inputs, created_at, created_by, changed_at)
select $dataset, $name, $spec::text::jsonb, $inputs::text::json, clock.now, $actor, clock.now
  from (select holdfast.now() as now) as clock
on conflict (dataset, name) do update
   set spec = excluded.spec, inputs = excluded.inputs, changed_at = excluded.changed_at
returning created_at = changed_at as is_new;

-- name: delete_trigger
-- What it was asked for and has not begun is not begun any more.
with gone as (
    delete from holdfast.trigger_runs where dataset = $dataset and trigger = $name and job_id is null
)
delete from holdfast.dataset_triggers where dataset = $dataset and name = $name
returning 1;

-- name: request_runs
-- Once per trigger and version: to cut over to a version again starts nothing.
insert into holdfast.trigger_runs (dataset, trigger, version, requested_at, due_at)
select $dataset, name, $version::int, $now::timestamptz, $now::timestamptz
  from holdfast.dataset_triggers where dataset = $dataset
on conflict (dataset, trigger, version) do nothing
returning 1;

-- name: list_due_runs
select runs.dataset, runs.trigger, runs.version, triggers.spec::text, triggers.inputs::text
  from holdfast.trigger_runs as runs
  join holdfast.dataset_triggers as triggers on triggers.dataset = runs.dataset and triggers.name = runs.trigger
 where runs.job_id is null and runs.due_at <= (select holdfast.now())
 order by runs.due_at limit $batch_max;

-- name: note_run
update holdfast.trigger_runs set job_id = $job_id, started_at = holdfast.now(), problem = null
 where dataset = $dataset and trigger = $trigger and version = $version and job_id is null;

-- name: put_off_run
update holdfast.trigger_runs set problem = $problem, due_at = holdfast.now() + $delay::interval
 where dataset = $dataset and trigger = $trigger and version = $version and job_id is null;

-- name: count_triggers
select count(*) from holdfast.dataset_triggers where dataset = $dataset and name <> $name;
