-- name: list_gates
-- What holds back tasks of a job, and how many stand before each behind the same bucket, up to a bound.
select gated.task_index, limits.name, limits.scope, limits.kind, limits.most,
       extract(epoch from limits.period)::float8, limits.burst, buckets.bucket_id, buckets.value,
       holdfast.slots_used(buckets.bucket_id)::int, buckets.tokens, buckets.filled_at,
       window_of.spent, window_of.oldest, gated.slots, before.tasks, before.slots
  from unnest($task_indexes::int[]) as mine(task_index)
  join holdfast.gated on gated.job_id = $job_id and gated.task_index = mine.task_index
  join holdfast.limit_buckets as buckets on buckets.bucket_id = gated.bucket_id
  join holdfast.usage_limits as limits on limits.limit_id = buckets.limit_id
 cross join lateral (
       select coalesce(sum(limit_spent.spent), 0)::float8 as spent, min(limit_spent.slice) as oldest
         from holdfast.limit_spent
        where limit_spent.bucket_id = buckets.bucket_id
          and limit_spent.slice > $now::timestamptz - limits.period * 1.01) as window_of
 cross join lateral (
       select count(*)::int as tasks, coalesce(sum(slots), 0)::int as slots
         from (select first.slots from holdfast.gated as first
                where first.bucket_id = gated.bucket_id
                  and (first.urgency, first.eligible_at, first.job_id, first.task_index)
                      < (gated.urgency, gated.eligible_at, gated.job_id, gated.task_index)
                limit $count_max) as ahead) as before;

-- name: list_queue_gates
-- The limits of whole queues, whose tasks stay in line when they let nothing start, and how their buckets stand.
select mine.queue, limits.name, limits.scope, limits.kind, limits.most, extract(epoch from limits.period)::float8,
       limits.burst, buckets.bucket_id, holdfast.slots_used(buckets.bucket_id)::int, buckets.tokens, buckets.filled_at,
       window_of.spent, window_of.oldest
  from holdfast.usage_limits as limits
 cross join unnest($queues::text[]) as mine(queue)
  left join holdfast.limit_buckets as buckets
    on buckets.limit_id = limits.limit_id and buckets.value = mine.queue
 cross join lateral (
       select coalesce(sum(limit_spent.spent), 0)::float8 as spent, min(limit_spent.slice) as oldest
         from holdfast.limit_spent
        where limit_spent.bucket_id = buckets.bucket_id
          and limit_spent.slice > $now::timestamptz - limits.period * 1.01) as window_of
 where limits.scope = 'queue' and limits.in_type is null
   and coalesce(limits.only_for, mine.queue) = mine.queue and coalesce(limits.in_queue, mine.queue) = mine.queue
 order by limits.name limit $gates_max;

-- name: count_gated
-- By queue, without regard to which come first; and whether there are more.
with counted as materialized (
    select queue from holdfast.gated where bucket_id is not null limit $count_max
)
select queue, count(*), (select count(*) from counted) = $count_max as is_cut from counted group by queue;

-- name: measure_gated
select pg_relation_size('holdfast.gated') / current_setting('block_size')::bigint;

-- name: sample_gated
-- A share of the pages, the same ones each time.
select queue, count(*) from holdfast.gated tablesample system ($percent::real) repeatable (1)
 where bucket_id is not null group by queue;
