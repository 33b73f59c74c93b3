-- name: list_datasets
-- No name has a tilde in it, and all that names may hold stands before the tilde.
select name, created_at, created_by, metadata::text, current_version,
       (select max(version) from holdfast.dataset_versions where dataset = datasets.name) as newest_version
  from holdfast.datasets
 where name > $after and name >= $prefix and name < $prefix || '~'
 order by name limit $count_max;

-- name: get_dataset
select name, created_at, created_by, metadata::text, current_version,
       (select max(version) from holdfast.dataset_versions where dataset = datasets.name) as newest_version
  from holdfast.datasets where name = $name;

-- name: list_versions
select version, state, created_at, created_by, based_on, opened_by_job, cut_over_at, entries, size_bytes, dropped_at,
       dropped_by
  from holdfast.dataset_versions
 where dataset = $dataset and version < $before
 order by version desc limit $count_max;

-- name: list_cut_overs
select number, version, previous, at, actor, reason, forced
  from holdfast.cut_overs
 where dataset = $dataset and number < $before
 order by number desc limit $count_max;

-- name: list_entries
select key, partition_key, uri, size_bytes, checksum, metadata::text, job_id, task_index, attempt, committed_at,
       copied_from
  from holdfast.dataset_entries
 where dataset = $dataset and version = $version and key > $after
 order by key limit $count_max;

-- name: list_triggers
select triggers.name, triggers.spec::text, triggers.created_at, triggers.created_by, triggers.changed_at,
       last.version, last.job_id, last.started_at, last.problem
  from holdfast.dataset_triggers as triggers
  left join lateral (
       select runs.* from holdfast.trigger_runs as runs
        where runs.dataset = triggers.dataset and runs.trigger = triggers.name
        order by runs.version desc limit 1) as last on true
 where triggers.dataset = $dataset
 order by triggers.name limit $count_max;
