-- name: count_use
-- Of each limit: its buckets, so far; the slots that attempts hold, in how many of its buckets, and how many are more
-- than it allows; and what is gated behind it, counted from bucket to bucket along the index, so far.
with recursive gates as (
    (select bucket_id from holdfast.gated where bucket_id is not null order by bucket_id limit 1)
    union all
    select following.bucket_id
      from gates cross join lateral (
           select gated.bucket_id from holdfast.gated
            where gated.bucket_id > gates.bucket_id order by gated.bucket_id limit 1) as following
),
lines as materialized (
    select buckets.limit_id, sum(behind.tasks)::int as gated
      from (select bucket_id from gates limit $buckets_max) as heads
      join holdfast.limit_buckets as buckets on buckets.bucket_id = heads.bucket_id
     cross join lateral (
           select count(*) as tasks
             from (select from holdfast.gated where gated.bucket_id = heads.bucket_id limit $count_max) as counted
           ) as behind
     group by buckets.limit_id
),
holders as materialized (
    select held[1] as bucket_id, slots from holdfast.leases where held[1] is not null
    union all select held[2], slots from holdfast.leases where held[2] is not null
    union all select held[3], slots from holdfast.leases where held[3] is not null
    union all select held[4], slots from holdfast.leases where held[4] is not null
),
used as materialized (
    select limits.limit_id, sum(sums.slots) as slots, count(*)::int as buckets,
           sum(greatest(sums.slots - limits.most, 0)) as surplus
      from (select bucket_id, sum(coalesce(slots, 1)) as slots from holders group by bucket_id) as sums
      join holdfast.limit_buckets as buckets on buckets.bucket_id = sums.bucket_id
      join holdfast.usage_limits as limits on limits.limit_id = buckets.limit_id
     group by limits.limit_id
)
select wanted.limit_id,
       (select count(*)
          from (select from holdfast.limit_buckets
                 where limit_buckets.limit_id = wanted.limit_id limit $buckets_max) as met)::int,
       coalesce(used.buckets, 0), coalesce(used.slots, 0)::int, coalesce(used.surplus, 0)::int,
       coalesce(lines.gated, 0)
  from unnest($limit_ids::bigint[]) as wanted(limit_id)
  left join used on used.limit_id = wanted.limit_id
  left join lines on lines.limit_id = wanted.limit_id;

-- name: list_buckets
-- By value, with what is held, spent within the period, and gated; and when the oldest of what was spent is over.
select buckets.bucket_id, buckets.value, buckets.tokens, buckets.filled_at,
       (select coalesce(sum(coalesce(holders.slots, 1)), 0)::int
          from (select slots from holdfast.leases where held[1] = buckets.bucket_id
                union all select slots from holdfast.leases where held[2] = buckets.bucket_id
                union all select slots from holdfast.leases where held[3] = buckets.bucket_id
                union all select slots from holdfast.leases where held[4] = buckets.bucket_id) as holders),
       spent.total, spent.oldest,
       (select count(*) from (select from holdfast.gated
                               where gated.bucket_id = buckets.bucket_id limit $count_max) as counted)::int
  from holdfast.limit_buckets as buckets
 cross join lateral (
       select coalesce(sum(spent), 0)::float8 as total, min(slice) as oldest
         from holdfast.limit_spent
        where limit_spent.bucket_id = buckets.bucket_id
          and slice > $now::timestamptz - make_interval(secs => $window_seconds::float8)) as spent
 where buckets.limit_id = $limit_id and buckets.value > $after collate "C"
   and ($value::text is null or buckets.value = $value)
 order by buckets.value
 limit $buckets_max;

-- name: list_holders
-- Of each bucket some of those who hold its slots.
select wanted.bucket_id, holders.job_id, holders.task_index, holders.attempt, holders.worker_id, holders.created_at,
       holders.slots
  from unnest($bucket_ids::bigint[]) as wanted(bucket_id)
 cross join lateral (
       select * from (
           select job_id, task_index, attempt, worker_id, created_at, coalesce(slots, 1) as slots
             from holdfast.leases where held[1] = wanted.bucket_id
           union all
           select job_id, task_index, attempt, worker_id, created_at, coalesce(slots, 1)
             from holdfast.leases where held[2] = wanted.bucket_id
           union all
           select job_id, task_index, attempt, worker_id, created_at, coalesce(slots, 1)
             from holdfast.leases where held[3] = wanted.bucket_id
           union all
           select job_id, task_index, attempt, worker_id, created_at, coalesce(slots, 1)
             from holdfast.leases where held[4] = wanted.bucket_id) as found
        order by created_at, job_id, task_index limit $holders_max) as holders;
