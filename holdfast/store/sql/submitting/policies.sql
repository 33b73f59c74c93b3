-- name: read_policies
-- With the version in the same statement, and so of the same moment; one row if there is no policy.
select policy_clock.version + policy_clock.functions_version, policies.type, policies.policy::text
  from holdfast.policy_clock left join holdfast.policies on true;

-- name: lock_policies
-- Held until the end of the transaction: changes come one after another, and their numbers have no gap.
select version from holdfast.policy_clock for update;

-- name: advance_policies
update holdfast.policy_clock set version = version + 1 returning version;

-- name: find_policy
select type, policy::text, version, updated_at, updated_by from holdfast.policies where type = $type;

-- name: count_policies
select count(*) from holdfast.policies;

-- name: list_policies
select type, policy::text, version, updated_at, updated_by from holdfast.policies
 where type > $after collate "C" order by type limit $batch_max;

-- name: store_policy
insert into holdfast.policies (type, policy, version, updated_at, updated_by)
values ($type, $policy::text::jsonb, $version, holdfast.now(), $actor)
on conflict (type) do update
   set policy = excluded.policy, version = excluded.version, updated_at = excluded.updated_at,
       updated_by = excluded.updated_by
returning type, policy::text, version, updated_at, updated_by;

-- name: delete_policy
delete from holdfast.policies where type = $type;

-- name: record_policy_change
insert into holdfast.policy_changes (version, type, before, after, actor, changed_at)
values ($version, $type, $before::text::jsonb, $after::text::jsonb, $actor, holdfast.now());

-- name: list_policy_changes
select version, type, before::text, after::text, actor, changed_at from holdfast.policy_changes
 where type = $type and version < $below order by version desc limit $batch_max;

-- name: list_job_types
-- From one type to the next along the index, however many jobs there are of each.
with recursive types as (
    (select type from holdfast.jobs where type collate "C" > $after order by type collate "C", job_id limit 1)
    union all
    (select (select jobs.type from holdfast.jobs where jobs.type collate "C" > types.type
              order by jobs.type collate "C", jobs.job_id limit 1)
       from types where types.type is not null))
select type from types where type is not null limit $batch_max;

-- name: check_policies
-- The last change of a type is its policy, and the changes are numbered without a gap.
with last_changes as (
    select distinct on (type) type, version, after from holdfast.policy_changes order by type, version desc)
select 'policy_is_its_last_change', null::bigint, null::int, null::int,
       format('type %s: the policy is %s (change %s), the last change says %s (change %s)',
              coalesce(policies.type, last_changes.type), policies.policy, policies.version,
              last_changes.after, last_changes.version)
  from holdfast.policies full join last_changes using (type)
 where policies.policy is distinct from last_changes.after
    or policies.version <> last_changes.version
union all
select 'policy_changes_have_no_gap', null, null, null,
       format('the clock shows %s; there are %s changes, the last is %s', policy_clock.version, changes.number,
              changes.latest)
  from holdfast.policy_clock,
       (select count(*) as number, coalesce(max(version), 0) as latest from holdfast.policy_changes) as changes
 where policy_clock.version <> changes.number or policy_clock.version <> changes.latest;
