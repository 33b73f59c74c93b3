-- Gangs and limits: a gang starts with the slots of all its members or not at all, so it waits in line and not behind
-- a bucket, while slots are freed one by one.

-- After a gang that was about to start got too few slots: keeps its buckets for it, of those that it had none of to
-- spare, or that are kept for it already. Who comes after it takes nothing of them, until `lasting` has passed without
-- another try. One that a limit can never let through is in nobody's way, and what stands before it in line goes first.
-- Returns how many buckets are kept for it.
create or replace function holdfast.keep_for_gang(waiting_job_id bigint, lasting interval) returns int
    language plpgsql as $$
#variable_conflict use_column
declare
    now constant timestamptz := holdfast.now();
    wanted_ids bigint[];
    wanted_slots int[];
    never_fits boolean;
    num_kept int;
begin
    if not holdfast.has_limits() then
        return 0;
    end if;
    select array_agg(bucket_id), array_agg(slots), bool_or(slots > most) into wanted_ids, wanted_slots, never_fits
      from (select limit_buckets.bucket_id, sum(mine.slots)::int as slots, min(mine.most) as most
              from (select usage_limits.limit_id, usage_limits.only_for,
                           coalesce(usage_limits.burst, usage_limits.most) as most,
                           coalesce((jobs.spec ->> 'slots')::int, 1) as slots,
                           case usage_limits.scope when 'type' then jobs.type when 'owner' then jobs.owner
                                when 'key' then holdfast.limit_key(jobs.spec, tasks.input) end as value
                      from holdfast.ready
                      join holdfast.jobs on jobs.job_id = ready.job_id
                      join holdfast.tasks on tasks.job_id = ready.job_id and tasks.task_index = ready.task_index
                     cross join holdfast.usage_limits
                     where ready.queue = '' and ready.job_id = waiting_job_id and usage_limits.in_queue is null
                       and coalesce(usage_limits.in_type, jobs.type) = jobs.type) as mine
              left join holdfast.limit_buckets
                on limit_buckets.limit_id = mine.limit_id and limit_buckets.value = mine.value
             where mine.value is not null and coalesce(mine.only_for, mine.value) = mine.value
             group by mine.limit_id, mine.value, limit_buckets.bucket_id) as wanted;
    if never_fits is distinct from false then
        return 0;
    end if;
    perform from holdfast.limit_buckets where bucket_id = any (wanted_ids) order by bucket_id for no key update;
    update holdfast.limit_buckets
       set gang_urgency = last.urgency, gang_eligible_at = last.eligible_at, gang_job_id = last.job_id,
           gang_task_index = last.task_index, gang_slots = mine.slots, gang_until = now + lasting
      from unnest(wanted_ids, wanted_slots) as mine(bucket_id, slots)
      join holdfast.limit_buckets as kept using (bucket_id)
      join holdfast.usage_limits using (limit_id)
     cross join (
           select ready.urgency, ready.eligible_at, ready.job_id, ready.task_index from holdfast.ready
            where ready.queue = '' and ready.job_id = waiting_job_id
            order by ready.urgency desc, ready.eligible_at desc, ready.task_index desc limit 1) as last
     where limit_buckets.bucket_id = mine.bucket_id
       and (kept.gang_job_id = waiting_job_id
            or (holdfast.measure_bucket(usage_limits, kept, now)).room < mine.slots
               and (holdfast.gang_before(kept, now) is null
                    or (last.urgency, last.eligible_at, last.job_id, last.task_index)
                        < (kept.gang_urgency, kept.gang_eligible_at, kept.gang_job_id, kept.gang_task_index)));
    get diagnostics num_kept = row_count;
    return num_kept;
end $$;

-- The gang that a bucket is kept for now: one that still stands in line.
create or replace function holdfast.gang_before(bucket holdfast.limit_buckets, now timestamptz) returns bigint
    language sql stable as $$
    select ready.job_id from holdfast.ready
     where bucket.gang_until > now and ready.queue = '' and ready.urgency = bucket.gang_urgency
       and ready.eligible_at = bucket.gang_eligible_at and ready.job_id = bucket.gang_job_id
       and ready.task_index = bucket.gang_task_index
     limit 1
$$;
