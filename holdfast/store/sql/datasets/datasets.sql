-- Writing datasets. Locked in this order: the dataset, then its versions by number.

-- name: insert_dataset
insert into holdfast.datasets (name, created_at, created_by, metadata)
values ($name, holdfast.now(), $actor, $metadata::text::jsonb)
on conflict (name) do nothing
returning 1;

-- name: lock_datasets
select name, current_version from holdfast.datasets
 where name = any ($names::text[])
 order by name for no key update;

-- name: open_version
-- The dataset is locked, so the number is its own.
insert into holdfast.dataset_versions (dataset, version, created_at, created_by, based_on, opened_by_job)
select $dataset, coalesce(max(version), 0) + 1, holdfast.now(), $actor, $based_on::int, $opened_by_job::bigint
  from holdfast.dataset_versions where dataset = $dataset
returning version, created_at;

-- name: delete_versions_of_submission
-- What a submission had opened that did not become a job; unless others have begun to use it.
delete from holdfast.dataset_versions
 where opened_by_job = any ($job_ids::bigint[]) and state = 'open'
   and not exists (select from holdfast.job_outputs
                    where job_outputs.dataset = dataset_versions.dataset
                      and job_outputs.version = dataset_versions.version);

-- name: copy_entries
insert into holdfast.dataset_entries (dataset, version, key, partition_key, uri, size_bytes, checksum, metadata,
                                      job_id, task_index, attempt, committed_at, copied_from)
select dataset, $version::int, key, partition_key, uri, size_bytes, checksum, metadata, job_id, task_index, attempt,
       committed_at, $based_on::int
  from holdfast.dataset_entries
 where dataset = $dataset and version = $based_on::int
 order by key;

-- name: count_entries
select count(*), least(coalesce(sum(size_bytes), 0), 9223372036854775807)::bigint
  from (select size_bytes from holdfast.dataset_entries
         where dataset = $dataset and version = $version limit $count_max::bigint) as counted;

-- name: hold_version
-- While this is held the version is neither sealed nor dropped; others may append beside us.
select state from holdfast.dataset_versions where dataset = $dataset and version = $version for share;

-- name: lock_version
select state from holdfast.dataset_versions where dataset = $dataset and version = $version for no key update;

-- name: let_version_be_replaced
update holdfast.dataset_versions set may_be_replaced = true
 where dataset = $dataset and version = $version and state = 'open' and not may_be_replaced;

-- name: find_open_versions
select dataset.name, (select max(version) from holdfast.dataset_versions
                       where dataset_versions.dataset = dataset.name and state = 'open') as version
  from unnest($names::text[]) as wanted(name)
  join holdfast.datasets as dataset using (name);

-- name: insert_job_outputs
insert into holdfast.job_outputs (job_id, dataset, version, mode, declared)
select * from unnest($job_ids::bigint[], $datasets::text[], $versions::int[], $modes::text[], $declared::text[]);

-- name: find_declared_outputs
select job_id, dataset, declared, dataset_versions.state
  from unnest($job_ids::bigint[]) as wanted(job_id)
  join holdfast.job_outputs using (job_id)
  left join holdfast.dataset_versions using (dataset, version);

-- name: find_job_outputs
select job_id, dataset, version, mode
  from unnest($job_ids::bigint[]) as wanted(job_id)
  join holdfast.job_outputs using (job_id);

-- name: list_writers
-- Jobs that are bound to a version and have not ended.
select job_outputs.job_id
  from holdfast.job_outputs join holdfast.jobs using (job_id)
 where job_outputs.dataset = $dataset and job_outputs.version = $version
   and jobs.submitted_at is not null and jobs.finished_at is null
 order by job_outputs.job_id limit $count_max;

-- name: find_entries
-- What stands under keys, or in partitions, that are about to be written.
select dataset, version, key, partition_key, uri, checksum
  from unnest($datasets::text[], $versions::int[], $keys::text[]) as wanted(dataset, version, key)
  join holdfast.dataset_entries using (dataset, version, key);

-- name: delete_partitions
delete from holdfast.dataset_entries
 using unnest($datasets::text[], $versions::int[], $partition_keys::text[])
         as gone(dataset, version, partition_key)
 where dataset_entries.dataset = gone.dataset and dataset_entries.version = gone.version
   and dataset_entries.partition_key = gone.partition_key;

-- name: insert_commits
insert into holdfast.commits (job_id, task_index, attempt, entries, committed_at)
select job_id, task_index, attempt, entries, holdfast.now()
  from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[], $entries::int[])
         as made(job_id, task_index, attempt, entries);

-- name: insert_entries
-- By key, so that two who write the same ones wait for each other in one order only. Fewer rows than
-- were to be written means that somebody else has committed one of the keys meanwhile.
insert into holdfast.dataset_entries (dataset, version, key, partition_key, uri, size_bytes, checksum, metadata,
                                      job_id, task_index, attempt, committed_at)
select dataset, version, key, partition_key, uri, size_bytes, checksum, metadata::jsonb, job_id, task_index,
       attempt, holdfast.now()
  from unnest($datasets::text[], $versions::int[], $keys::text[], $partition_keys::text[], $uris::text[],
              $sizes::bigint[], $checksums::text[], $metadata::text[], $job_ids::bigint[], $task_indexes::int[],
              $attempts::int[])
         as new(dataset, version, key, partition_key, uri, size_bytes, checksum, metadata, job_id, task_index,
                attempt)
 order by dataset, version, key
on conflict (dataset, version, key) do nothing
returning 1;

-- name: seal_version
update holdfast.dataset_versions
   set state = 'sealed', cut_over_at = $now::timestamptz, entries = $entries::bigint, size_bytes = $size::bigint
 where dataset = $dataset and version = $version and state = 'open';

-- name: set_current_version
update holdfast.datasets set current_version = $version where name = $dataset;

-- name: record_cut_over
insert into holdfast.cut_overs (dataset, number, version, previous, at, actor, reason, forced)
select $dataset, coalesce(max(number), 0) + 1, $version::int, $previous::int, $now::timestamptz, $actor, $reason,
       $forced::boolean
  from holdfast.cut_overs where dataset = $dataset
returning number;

-- name: drop_version
update holdfast.dataset_versions set state = 'dropped', dropped_at = holdfast.now(), dropped_by = $actor
 where dataset = $dataset and version = $version;

-- name: take_dropped_version
select dataset, version from holdfast.dataset_versions
 where state = 'dropped' and swept_at is null order by dropped_at limit 1 for no key update skip locked;

-- name: delete_dropped_entries
delete from holdfast.dataset_entries
 where dataset = $dataset and version = $version and key in (
    select key from holdfast.dataset_entries where dataset = $dataset and version = $version limit $batch_max)
returning 1;

-- name: mark_swept
update holdfast.dataset_versions set swept_at = holdfast.now() where dataset = $dataset and version = $version;

-- name: delete_job_outputs_of_jobs
with gone as (
    delete from holdfast.job_outputs where ctid = any (array(
        select ctid from holdfast.job_outputs where job_id = any ($job_ids::bigint[]) limit $rows_max))
    returning 1
)
select count(*) from gone;

-- name: delete_commits_of_jobs
with gone as (
    delete from holdfast.commits where ctid = any (array(
        select ctid from holdfast.commits where job_id = any ($job_ids::bigint[]) limit $rows_max))
    returning 1
)
select count(*) from gone;
