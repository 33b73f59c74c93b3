-- Crowds: many tasks of one key that come at once. Only so many of them stand in the line of the queue, where claims
-- would have to step over them; the others stand behind their limit from the beginning, as do those that find a line
-- there.

-- Moves tasks that have just been put in line, in the transaction that did. A bucket that has room meanwhile is opened
-- by whoever frees its slots, by the next claim if it is a rate, or by the chore that looks for such. Limits of whole
-- queues are left out: they hold up their own queue alone. A transaction that may stay open for long adds no bucket:
-- whoever decides on a task of the same value would wait for it; its crowd is left in line, and claims move it. Returns
-- how many were moved.
create or replace function holdfast.gate_crowds(job_ids bigint[], task_indexes int[], adds_buckets boolean) returns int
    language plpgsql
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set join_collapse_limit = 1
    set jit = off as $$
declare
    mine text;
    num_gated int := 0;
begin
    if not holdfast.has_limits() then
        return 0;
    end if;
    -- The narrowest first: what is a crowd of one key is none of its owner or type, and in the way of that key alone.
    foreach mine in array '{key,owner,type,queue}'::text[] loop
        if exists (select from holdfast.usage_limits
                    where usage_limits.scope = mine and (mine <> 'queue' or usage_limits.in_type is not null)) then
            num_gated := num_gated + holdfast.gate_crowds_of(mine, job_ids, task_indexes, adds_buckets);
        end if;
    end loop;
    return num_gated;
end $$;

-- As above, by the limits of one scope; what others have moved is not found in line.
create or replace function holdfast.gate_crowds_of(
    scope text, job_ids bigint[], task_indexes int[], adds_buckets boolean) returns int
    language plpgsql as $$
#variable_conflict use_column
declare
    rows_of_line tid[];
    limits bigint[];
    bucket_values text[];
    behind bigint[];
    num_gated int;
begin
    with line as materialized (
        select ready.row_id, -jobs.priority as urgency, ready.eligible_at, mine.job_id, mine.task_index, jobs.queue,
               jobs.type, jobs.owner, jobs.spec,
               holdfast.limit_key(jobs.spec, tasks.input) as key
          from unnest(job_ids, task_indexes) as mine(job_id, task_index)
          join holdfast.jobs on jobs.job_id = mine.job_id
          join holdfast.tasks on tasks.job_id = mine.job_id and tasks.task_index = mine.task_index
         -- By the whole key of the line: a join would be content with the beginning of it.
         cross join lateral (
               select ready.ctid as row_id, ready.eligible_at
                 from holdfast.ready
                where ready.queue = jobs.queue and ready.urgency = -jobs.priority
                  and ready.eligible_at = greatest(tasks.eligible_at, jobs.released_at)
                  and ready.job_id = mine.job_id and ready.task_index = mine.task_index
                limit 1) as ready
    ),
    -- By the first limit of these: what finds another in its way is put behind that when its turn comes.
    places as materialized (
        select line.row_id, mine.limit_id, mine.value, mine.most,
               row_number() over (partition by mine.limit_id, mine.value
                                  order by line.urgency, line.eligible_at, line.job_id, line.task_index) as place
          from line
         cross join lateral (
               select usage_limits.limit_id, usage_limits.most, by_scope.value
                 from holdfast.usage_limits
                cross join lateral (select case usage_limits.scope when 'queue' then line.queue
                                                when 'type' then line.type when 'owner' then line.owner
                                                when 'key' then line.key end as value) as by_scope
                where usage_limits.scope = gate_crowds_of.scope and by_scope.value is not null
                  and coalesce(usage_limits.only_for, by_scope.value) = by_scope.value
                  and coalesce(usage_limits.in_queue, line.queue) = line.queue
                  and coalesce(usage_limits.in_type, line.type) = line.type
                  and (usage_limits.scope <> 'queue' or usage_limits.in_type is not null)
                order by usage_limits.limit_id limit 1) as mine
    ),
    lined as materialized (
        select limit_id, value
          from (select distinct limit_id, value from places) as known
         -- As a value: an `exists` may be joined with all that is gated.
         where (select true from holdfast.limit_buckets join holdfast.gated using (bucket_id)
                 where limit_buckets.limit_id = known.limit_id and limit_buckets.value = known.value limit 1)
    )
    select array_agg(places.row_id), array_agg(places.limit_id), array_agg(places.value)
      into rows_of_line, limits, bucket_values
      from places left join lined using (limit_id, value)
     where lined.limit_id is not null or places.place > greatest(2 * places.most, 100);
    if rows_of_line is null then
        return 0;
    end if;
    if adds_buckets then
        insert into holdfast.limit_buckets (limit_id, value)
        select distinct limit_id, value from unnest(limits, bucket_values) as wanted(limit_id, value)
         order by limit_id, value
            on conflict do nothing;
    end if;
    -- So that none is dropped before this is seen; those that were, a moment ago, are nobody's obstacle.
    perform from holdfast.limit_buckets
      where (limit_id, value) in (select limit_id, value from unnest(limits, bucket_values) as wanted(limit_id, value))
      order by bucket_id
        for key share;
    with wanted as materialized (
        select row_id, limit_buckets.bucket_id
          from unnest(rows_of_line, limits, bucket_values) as wanted(row_id, limit_id, value)
          join holdfast.limit_buckets using (limit_id, value)
    ),
    taken as (
        delete from holdfast.ready using wanted where ready.ctid = wanted.row_id
        returning ready.*, wanted.bucket_id
    )
    insert into holdfast.gated (job_id, task_index, queue, urgency, eligible_at, unschedulable_at, avoid, bucket_id,
                                slots, gated_at)
    select job_id, task_index, taken.queue, urgency, eligible_at, unschedulable_at, avoid, bucket_id,
           coalesce((jobs.spec ->> 'slots')::int, 1), holdfast.now()
      from taken join holdfast.jobs using (job_id);
    get diagnostics num_gated = row_count;
    return num_gated;
end $$;
