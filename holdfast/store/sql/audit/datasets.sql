-- The audit of datasets: rows as in ledger.sql, but what is broken may be a dataset (`events`), a version of one
-- (`events/3`) or an entry (`events/3/key`). A job that retention has taken has left its entries behind.

-- name: check_entries
select checks.invariant, format('%s/%s/%s', entries.dataset, entries.version, entries.key), null::int, null::int,
       checks.detail
  from holdfast.dataset_entries as entries
  left join holdfast.dataset_versions as versions using (dataset, version)
  left join holdfast.commits using (job_id, task_index)
  left join holdfast.jobs using (job_id)
  left join holdfast.job_outputs as bound on bound.job_id = entries.job_id and bound.dataset = entries.dataset
 cross join lateral (values
    ('entry_without_version', versions.state is null,
     format('dataset %s has no version %s', entries.dataset, entries.version)),
    ('entry_without_commit',
     entries.copied_from is null and jobs.job_id is not null and commits.attempt is distinct from entries.attempt,
     format('attempt %s of task %s.%s is said to have written it; what was committed is that of attempt %s',
            entries.attempt, entries.job_id, entries.task_index, coalesce(commits.attempt::text, 'none'))),
    ('entry_in_a_version_its_job_does_not_write',
     entries.copied_from is null and jobs.job_id is not null and bound.version is distinct from entries.version,
     format('job %s writes version %s', entries.job_id, coalesce(bound.version::text, 'none'))),
    ('entry_copied_from_elsewhere', entries.copied_from is distinct from versions.based_on
                                    and entries.copied_from is not null,
     format('it was copied from version %s; its version is based on %s', entries.copied_from,
            coalesce(versions.based_on::text, 'none')))
  ) as checks(invariant, broken, detail)
 where checks.broken;

-- name: check_commits
-- Fewer entries than were committed are no damage where others may have replaced them, or dropped their version.
with written as (
    select job_id, task_index, attempt, count(*) as entries
      from holdfast.dataset_entries where copied_from is null group by job_id, task_index, attempt
),
loose as (
    select distinct job_id from holdfast.job_outputs join holdfast.dataset_versions using (dataset, version)
     where may_be_replaced or state = 'dropped'
)
select checks.invariant, commits.job_id, commits.task_index, commits.attempt, checks.detail
  from holdfast.commits
  left join holdfast.tasks using (job_id, task_index)
  left join written on written.job_id = commits.job_id and written.task_index = commits.task_index
                   and written.attempt = commits.attempt
  left join loose on loose.job_id = commits.job_id
  left join (select distinct job_id from holdfast.job_outputs) as bound on bound.job_id = commits.job_id
 cross join lateral (values
    ('commit_without_success', (tasks.state, tasks.attempt) is distinct from ({SUCCEEDED}::smallint, commits.attempt),
     format('the task is in state %s, attempt %s', coalesce(tasks.state::text, 'none'),
            coalesce(tasks.attempt::text, 'none'))),
    ('commit_of_a_job_without_outputs', bound.job_id is null, 'the job is bound to no version'),
    ('entries_differ_from_their_commit',
     coalesce(written.entries, 0) > commits.entries
         or coalesce(written.entries, 0) < commits.entries and loose.job_id is null,
     format('%s entries were committed, %s are there', commits.entries, coalesce(written.entries, 0)))
  ) as checks(invariant, broken, detail)
 where checks.broken;

-- name: check_versions
with held as (
    select dataset, version, count(*) as entries, least(coalesce(sum(size_bytes), 0), 9223372036854775807) as size_bytes
      from holdfast.dataset_entries group by dataset, version
),
first as (
    select dataset, version, min(at) as at from holdfast.cut_overs group by dataset, version
)
select checks.invariant, format('%s/%s', versions.dataset, versions.version), null::int, null::int, checks.detail
  from holdfast.dataset_versions as versions
  left join held using (dataset, version)
  left join first using (dataset, version)
 cross join lateral (values
    ('sealed_version_has_changed',
     versions.state = 'sealed' and (versions.entries, versions.size_bytes::numeric)
         is distinct from (coalesce(held.entries, 0), coalesce(held.size_bytes, 0)),
     format('it was sealed with %s entries and %s bytes, and has %s and %s', versions.entries, versions.size_bytes,
            coalesce(held.entries, 0), coalesce(held.size_bytes, 0))),
    ('swept_version_has_entries', versions.swept_at is not null and held.entries is not null,
     format('it was dropped, and %s entries are there', held.entries)),
    ('version_differs_from_its_cut_overs', versions.cut_over_at is distinct from first.at,
     format('it was first cut over to at %s, and its record says %s', coalesce(first.at::text, 'no time'),
            coalesce(versions.cut_over_at::text, 'no time')))
  ) as checks(invariant, broken, detail)
 where checks.broken;

-- name: check_current_versions
with last as (
    select distinct on (dataset) dataset, version from holdfast.cut_overs order by dataset, number desc
)
select checks.invariant, datasets.name, null::int, null::int, checks.detail
  from holdfast.datasets
  left join holdfast.dataset_versions as versions
    on versions.dataset = datasets.name and versions.version = datasets.current_version
  left join last on last.dataset = datasets.name
 cross join lateral (values
    ('current_version_not_sealed',
     datasets.current_version is not null and versions.state is distinct from 'sealed',
     format('version %s is %s', datasets.current_version, coalesce(versions.state, 'not there'))),
    ('current_version_differs_from_its_cut_overs', datasets.current_version is distinct from last.version,
     format('version %s is current, and the last cut-over led to %s', coalesce(datasets.current_version::text, 'none'),
            coalesce(last.version::text, 'none')))
  ) as checks(invariant, broken, detail)
 where checks.broken;

-- name: check_cut_overs
select 'cut_overs_do_not_follow_each_other', dataset, null::int, null::int,
       format('cut-over %s leads from version %s; the one before it, %s, led to %s', number,
              coalesce(previous::text, 'none'), coalesce(number_before::text, 'none'),
              coalesce(version_before::text, 'none'))
  from (select dataset, number, previous,
               lag(number) over (partition by dataset order by number) as number_before,
               lag(version) over (partition by dataset order by number) as version_before
          from holdfast.cut_overs) as steps
 where previous is distinct from version_before or number <> coalesce(number_before, 0) + 1;

-- name: check_trigger_runs
-- Each new version starts each trigger once. A job is found by its key, as long as retention has left it.
select 'trigger_run_missing', format('%s/%s', cut_overs.dataset, cut_overs.version), null::int, null::int,
       format('trigger %s was there, and has not been asked to run', triggers.name)
  from holdfast.cut_overs
  join holdfast.dataset_triggers as triggers on triggers.dataset = cut_overs.dataset
  left join holdfast.trigger_runs as runs
    on runs.dataset = triggers.dataset and runs.trigger = triggers.name and runs.version = cut_overs.version
 where triggers.created_at < cut_overs.at and runs.version is null
union all
select 'trigger_run_differs_from_its_job', format('%s/%s', runs.dataset, runs.version), null::int, null::int,
       format('trigger %s started job %s, whose key is %s', runs.trigger, runs.job_id,
              coalesce(jobs.idempotency_key, 'none'))
  from holdfast.trigger_runs as runs
  join holdfast.jobs using (job_id)
 where jobs.idempotency_key is distinct from
       format('holdfast:cut-over:%s:%s:%s', runs.dataset, runs.trigger, runs.version)
union all
select 'trigger_run_without_cut_over', format('%s/%s', runs.dataset, runs.version), null::int, null::int,
       format('trigger %s was asked to run for a version that was never cut over to', runs.trigger)
  from holdfast.trigger_runs as runs
  left join holdfast.cut_overs using (dataset, version)
 where cut_overs.number is null;
