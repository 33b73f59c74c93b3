-- What people and programs read of datasets, by index.

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
