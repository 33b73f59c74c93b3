-- Which tasks behind limits with room go back into line, although nobody frees a slot at this moment.

-- Of each bucket and queue, as many of the first as there is room for; where the queue has work anyway, one alone,
-- since nobody knows what was let back before. Each queue by itself: one from which nobody takes keeps no other
-- waiting. Who has to wait behind another limit, too, goes on to that one, and takes no room. Who takes several slots
-- and stays is passed by nobody.
create or replace function holdfast.choose_gated(
    bucket_ids bigint[], now timestamptz, out job_ids bigint[], out task_indexes int[])
    language plpgsql stable as $$
#variable_conflict use_column
declare
    task record;
    last_bucket bigint;
    is_kept boolean;
    -- By queue: how much room is left for it, how many of it may be looked at, and how many were.
    rooms jsonb;
    looks jsonb := '{}';
    numbers jsonb;
    number int;
    room_left int;
begin
    for task in
        with roomy as materialized (
            select limit_buckets as bucket, usage_limits as mine, floor(measured.room)::int as room,
                   coalesce(usage_limits.burst, usage_limits.most) as most,
                   holdfast.gang_before(limit_buckets, now) is not null as is_kept
              from unnest(bucket_ids) as behind(bucket_id)
              join holdfast.limit_buckets using (bucket_id)
              join holdfast.usage_limits using (limit_id)
             cross join lateral holdfast.measure_bucket(usage_limits, limit_buckets, now) as measured
             where measured.room >= 1
               and (usage_limits.kind = 'concurrency' or limit_buckets.open_at < now - interval '2 seconds')
        )
        select roomy.mine, roomy.room, line.*
          from roomy
         cross join lateral (
               select gated.* from holdfast.gated
                where gated.bucket_id = (bucket).bucket_id and gated.slots <= roomy.most
                  -- Who comes after a gang for which the bucket is kept would be put back at once.
                  and (not is_kept or (bucket).gang_slots > most
                       or (gated.urgency, gated.eligible_at, gated.job_id, gated.task_index)
                          < ((bucket).gang_urgency, (bucket).gang_eligible_at, (bucket).gang_job_id,
                             (bucket).gang_task_index))
                order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index
                limit case when (select count(*) from roomy) > 10 then 100 else 1000 end) as line
         order by line.bucket_id, line.urgency, line.eligible_at, line.job_id, line.task_index
    loop
        if last_bucket is distinct from task.bucket_id then
            last_bucket := task.bucket_id;
            is_kept := false;
            rooms := '{}';
            numbers := '{}';
        end if;
        continue when is_kept;
        if not looks ? task.queue then
            looks := looks || jsonb_build_object(
                task.queue, case when exists (select from holdfast.ready where queue = task.queue) then 1 else 100 end);
        end if;
        number := coalesce((numbers ->> task.queue)::int, 0) + 1;
        numbers := numbers || jsonb_build_object(task.queue, number);
        room_left := coalesce((rooms ->> task.queue)::int, task.room);
        if number <= (looks ->> task.queue)::int and (room_left > 0 or task.slots > 1)
           and holdfast.waits_elsewhere(task.mine, task.room, task.job_id, task.task_index, task.slots, task.urgency,
                                        task.eligible_at, now) then
            room_left := room_left + task.slots;  -- goes through, and takes nothing
        elsif number > (looks ->> task.queue)::int or task.slots > room_left then
            is_kept := task.slots > 1;
            continue;
        end if;
        rooms := rooms || jsonb_build_object(task.queue, room_left - task.slots);
        job_ids := job_ids || task.job_id;
        task_indexes := task_indexes || task.task_index;
        exit when cardinality(job_ids) = 5000;
    end loop;
end $$;

-- Whether a task behind a limit, which has `room`, has to wait behind another one, too: one that it can never pass; or,
-- if it would fit here, one that is used up or keeps its slots for who came before. Whole queues hold up their line.
create or replace function holdfast.waits_elsewhere(
    mine holdfast.usage_limits, room int, job_id bigint, task_index int, slots int, urgency int,
    eligible_at timestamptz, now timestamptz) returns boolean
    language plpgsql stable as $$
#variable_conflict use_column
begin
    return (
        select true
          from holdfast.jobs
          join holdfast.tasks on tasks.job_id = jobs.job_id and tasks.task_index = waits_elsewhere.task_index
         cross join lateral (select coalesce(jobs.queue, '') as queue) as own
         cross join holdfast.usage_limits as other
         cross join lateral (select case other.scope when 'queue' then jobs.queue when 'type' then jobs.type
                                         when 'owner' then jobs.owner
                                         when 'key' then holdfast.limit_key(jobs.spec, tasks.input) end as value)
               as by_scope
         cross join lateral (select coalesce(other.burst, other.most) as most) as whole
          left join lateral (
               select * from holdfast.limit_buckets
                where limit_buckets.limit_id = other.limit_id and limit_buckets.value = by_scope.value
                limit 1) as bucket on true
         where jobs.job_id = waits_elsewhere.job_id and other.limit_id <> mine.limit_id
           and coalesce(other.only_for, by_scope.value) = by_scope.value
           and coalesce(other.in_queue, own.queue) = own.queue and coalesce(other.in_type, jobs.type) = jobs.type
           and (waits_elsewhere.slots > whole.most
                or waits_elsewhere.slots <= waits_elsewhere.room
                   and (other.scope <> 'queue' or other.in_type is not null)
                   and ((holdfast.measure_bucket(other, bucket, now)).room < waits_elsewhere.slots
                        or exists (
                            select from holdfast.gated
                             where gated.bucket_id = bucket.bucket_id and gated.bucket_id is not null
                               and gated.slots > 1 and gated.slots <= whole.most
                               and (gated.urgency, gated.eligible_at, gated.job_id, gated.task_index)
                                   < (waits_elsewhere.urgency, waits_elsewhere.eligible_at, waits_elsewhere.job_id,
                                      waits_elsewhere.task_index))))
         limit 1) is true;
end $$;
