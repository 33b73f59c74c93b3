-- name: check_limits
-- More slots are held than there are, and the last of them was given under the limit as it is now: a limit that was
-- lowered, or set while more ran, ends nothing.
with used as (
    select bucket_id, sum(slots) as slots, max(created_at) as last_at
      from (select unnest(held) as bucket_id, slots, created_at from holdfast.leases where held is not null) as leases
     group by bucket_id
)
select 'limit_exceeded', format('%s of %s', usage_limits.name, limit_buckets.value), null::int, null::int,
       format('%s slots are held of %s', used.slots, usage_limits.most)
  from used join holdfast.limit_buckets using (bucket_id) join holdfast.usage_limits using (limit_id)
 where used.slots > usage_limits.most and used.last_at > usage_limits.updated_at;

-- name: check_held_slots
select case when cardinality(held) not between 1 and 4 then 'too_many_limits'
            when slots is null or slots < 1 then 'held_without_slots'
            else 'slot_of_no_limit' end,
       job_id, task_index, attempt, format('%s slots of the buckets %s', slots, held)
  from holdfast.leases
 where held is not null
   and (cardinality(held) not between 1 and 4 or slots is null or slots < 1
        or exists (select from unnest(held) as mine(bucket_id)
                    where not exists (select from holdfast.limit_buckets join holdfast.usage_limits using (limit_id)
                                       where limit_buckets.bucket_id = mine.bucket_id
                                         and usage_limits.kind = 'concurrency')));

-- name: check_gated
-- As for those in line: a row of a task that runs or has finished is no damage, and goes when it is met.
select checks.invariant, job_id, task_index, null::int,
       format('behind %s in queue %L, urgency %s, since %s',
              case when bucket_id is null then format('share %s', share_id) else format('bucket %s', bucket_id) end,
              queue, urgency, eligible_at)
  from (select job_id, task_index, gated.queue, gated.urgency, gated.eligible_at, gated.bucket_id, gated.share_id,
               tasks.job_id is null as is_orphan,
               tasks.state = {PENDING} and (
                   (gated.queue, gated.eligible_at, gated.unschedulable_at is not null, gated.slots)
                   is distinct from (coalesce(jobs.queue, ''), greatest(tasks.eligible_at, jobs.released_at),
                                     jobs.spec ? 'scheduling_timeout',
                                     coalesce((jobs.spec ->> 'slots')::int, 1))
                   -- What waits in a share ages there.
                   or gated.share_id is null and gated.urgency <> -jobs.priority) as is_other,
               tasks.state = {PENDING} and leases.job_id is not null as is_leased,
               gated.share_id is not null and not exists (
                   select from holdfast.shares
                    where shares.share_id = gated.share_id and shares.idle_at is null
                      and shares.urgency = gated.urgency) as is_unseen
          from holdfast.gated
          left join holdfast.tasks using (job_id, task_index)
          left join holdfast.jobs using (job_id)
          left join holdfast.leases using (job_id, task_index)) as checked
 cross join lateral (values
    ('gated_row_without_task', is_orphan),
    ('gated_row_differs', is_other),
    ('gated_row_beside_a_lease', is_leased),
    ('gated_in_an_idle_share', is_unseen)
  ) as checks(invariant, broken)
 where checks.broken;
