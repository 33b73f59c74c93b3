-- name: lock_limits
-- Until the end of the transaction nobody decides by limits, and nobody else changes one.
select pg_advisory_xact_lock(holdfast.limits_lock_key());

-- name: find_limit
select limit_id, name, scope, kind, most, extract(epoch from period)::float8, burst, only_for, in_queue, in_type,
       updated_at, updated_by
  from holdfast.usage_limits where name = $name;

-- name: list_limits
select limit_id, name, scope, kind, most, extract(epoch from period)::float8, burst, only_for, in_queue, in_type,
       updated_at, updated_by
  from holdfast.usage_limits where name > $after collate "C" order by name limit $batch_max;

-- name: store_limit
-- What makes it another thing stays as it is; who asks has checked that.
insert into holdfast.usage_limits (name, scope, only_for, in_queue, in_type, kind, most, period, burst, updated_at,
                                   updated_by)
values ($name, $scope, $only_for, $in_queue, $in_type, $kind, $most, $period, $burst, holdfast.now(), $actor)
on conflict (name) do update
   set only_for = excluded.only_for, in_queue = excluded.in_queue, in_type = excluded.in_type,
       most = excluded.most, period = excluded.period, burst = excluded.burst,
       updated_at = excluded.updated_at, updated_by = excluded.updated_by
returning limit_id, updated_at;

-- name: recount_slots
-- What runs holds slots of a limit that came later, or that is about others now.
select holdfast.lock_limited_leases($limit_id), holdfast.release_slots($limit_id),
       holdfast.count_running($limit_id);

-- name: release_slots
select holdfast.lock_limited_leases($limit_id), holdfast.release_slots($limit_id);

-- name: forget_buckets
-- What is gated behind them is put back in line afterwards.
delete from holdfast.limit_buckets where limit_id = $limit_id;

-- name: delete_limit
-- Its buckets go with it. Attempts that hold their slots go on, and tasks behind them are put back in line afterwards.
delete from holdfast.usage_limits where limit_id = $limit_id returning limit_id;

-- name: list_gated_buckets
-- The next buckets that something is gated behind, from bucket to bucket along the index; and which are no more.
with recursive gates as (
    (select bucket_id from holdfast.gated where bucket_id > $after order by bucket_id limit 1)
    union all
    select following.bucket_id
      from gates cross join lateral (
           select gated.bucket_id from holdfast.gated
            where gated.bucket_id > gates.bucket_id order by gated.bucket_id limit 1) as following
)
select bucket_id, not exists (select from holdfast.limit_buckets where limit_buckets.bucket_id = stretch.bucket_id)
  from (select bucket_id from gates limit $buckets_max) as stretch order by bucket_id;

-- name: open_forgotten
-- What is gated behind buckets that are no more goes back in line.
with chosen as materialized (
    select behind.row_id
      from unnest($bucket_ids::bigint[]) as gone(bucket_id)
     cross join lateral (
           select gated.ctid as row_id from holdfast.gated
            where gated.bucket_id = gone.bucket_id
            order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index
            limit $batch_max for update skip locked) as behind
     limit $batch_max
),
opened as (
    delete from holdfast.gated where ctid = any (array(select row_id from chosen))
    returning queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid
)
insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid)
select queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid from opened
on conflict do nothing
returning queue, job_id, task_index;

-- name: share_limits
-- Until the end of the transaction nobody changes a limit.
select pg_advisory_xact_lock_shared(holdfast.limits_lock_key());

-- name: add_bucket
insert into holdfast.limit_buckets (limit_id, value) values ($limit_id, $value)
on conflict (limit_id, value) do nothing;

-- name: hold_bucket
select bucket_id, tokens, filled_at from holdfast.limit_buckets
 where limit_id = $limit_id and value = $value for no key update;

-- name: fill_bucket
update holdfast.limit_buckets set tokens = $tokens, filled_at = $now where bucket_id = $bucket_id;

-- name: list_slices
-- Those that count, now and when the last one of them comes; the others will never count again.
with latest as materialized (select max(slice) as slice from holdfast.limit_spent where bucket_id = $bucket_id),
over as (
    delete from holdfast.limit_spent
     where bucket_id = $bucket_id
       and slice <= $now::timestamptz - make_interval(secs => $window_seconds::float8))
select limit_spent.slice, limit_spent.spent
  from latest join holdfast.limit_spent on limit_spent.bucket_id = $bucket_id
 where limit_spent.slice > greatest($now, latest.slice) - make_interval(secs => $window_seconds);

-- name: spend_at
insert into holdfast.limit_spent (bucket_id, slice, spent)
values ($bucket_id, date_bin(make_interval(secs => $slice_seconds::float8), $at, timestamptz 'epoch'), $spent)
on conflict (bucket_id, slice) do update set spent = limit_spent.spent + excluded.spent;
