-- Limits of use. Who holds a slot is a lease that says so; nobody counts up or down. Whoever decides holds the rows of
-- the buckets, and counts in a statement after that: so it sees all that was decided before.

-- Whether there are any. Whoever changes limits waits for those who have asked, until they have committed, and they
-- for him: so no lease escapes a new limit.
create or replace function holdfast.has_limits() returns boolean
    language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(holdfast.limits_lock_key());
    return exists (select from holdfast.usage_limits);
end $$;

-- A long key counts by its hash.
create or replace function holdfast.short_key(key text) returns text
    language sql immutable as $$
    select case when length(key) > 256 then 'sha256:' || encode(sha256(convert_to(key, 'UTF8')), 'hex') else key end
$$;

-- By which key a task is limited, at any length: a text, or what its input holds at a path, unless that is null; an
-- empty path is the input itself. A job that has no inputs is looked at by what its function is called with: the first
-- argument, else those with names. Whether a path leads to something was seen when the job came in.
-- One expression, which a statement takes over into itself: as a call, it costs more than it does.
create or replace function holdfast.asked_key(spec jsonb, input json) returns text
    language sql immutable as $$
    select case jsonb_typeof(spec -> 'concurrency_key')
                when 'string' then spec ->> 'concurrency_key'
                when 'object' then case
                    when input is not null then input #>> string_to_array(spec #>> '{concurrency_key,input}', '.')
                    else spec #>> (case when spec #> '{entrypoint,args,0}' is null then '{entrypoint,kwargs}'::text[]
                                        else '{entrypoint,args,0}' end
                                   || string_to_array(spec #>> '{concurrency_key,input}', '.')) end end
$$;

create or replace function holdfast.limit_key(spec jsonb, input json) returns text
    language sql immutable as $$
    select holdfast.short_key(holdfast.asked_key(spec, input))
$$;

-- What runs and is counted by a limit of slots, and by which bucket.
create or replace function holdfast.running_under(mine holdfast.usage_limits)
    returns table (job_id bigint, task_index int, value text, slots int)
    language sql stable as $$
    select running.job_id, running.task_index, running.value, running.slots
      from (select leases.job_id, leases.task_index, coalesce((jobs.spec ->> 'slots')::int, 1) as slots,
                   case mine.scope when 'queue' then jobs.queue when 'type' then jobs.type
                                   when 'owner' then jobs.owner else holdfast.limit_key(jobs.spec, tasks.input)
                                   end as value
              from holdfast.leases join holdfast.jobs using (job_id) join holdfast.tasks using (job_id, task_index)
             where mine.kind = 'concurrency' and mine.scope <> 'name'
               and coalesce(mine.in_queue, coalesce(jobs.queue, '')) = coalesce(jobs.queue, '')
               and coalesce(mine.in_type, jobs.type) = jobs.type) as running
     where running.value is not null and coalesce(mine.only_for, running.value) = running.value
$$;

-- Before the slots of a limit are given or taken back: its leases are locked in the order of all others, since those
-- who end attempts hold leases, too, and wait for more.
create or replace function holdfast.lock_limited_leases(of_limit_id bigint) returns void
    language plpgsql as $$
declare
    mine holdfast.usage_limits;
begin
    select * into mine from holdfast.usage_limits where usage_limits.limit_id = of_limit_id for update;
    perform from holdfast.leases
      where (leases.job_id, leases.task_index) in (select job_id, task_index from holdfast.running_under(mine))
         or leases.held && array(
                select bucket_id from holdfast.limit_buckets where limit_buckets.limit_id = of_limit_id)
      order by leases.job_id, leases.task_index
        for no key update;
end $$;

-- After a limit of slots was set: what runs already holds slots of it, too. Nothing is ended if it is more than there
-- are; nothing new starts until it is less.
create or replace function holdfast.count_running(new_limit_id bigint) returns void
    language plpgsql as $$
#variable_conflict use_column
declare
    mine holdfast.usage_limits;
    leased_jobs bigint[];
    leased_tasks int[];
    bucket_values text[];
    taken int[];
begin
    select * into strict mine from holdfast.usage_limits where usage_limits.limit_id = new_limit_id;
    select array_agg(job_id), array_agg(task_index), array_agg(value), array_agg(slots)
      into leased_jobs, leased_tasks, bucket_values, taken
      from holdfast.running_under(mine);
    insert into holdfast.limit_buckets (limit_id, value)
    select distinct new_limit_id, value from unnest(bucket_values) as value order by 2
        on conflict do nothing;
    update holdfast.leases
       set held = coalesce(leases.held, '{}') || limit_buckets.bucket_id, slots = running.slots
      from unnest(leased_jobs, leased_tasks, bucket_values, taken)
             as running(job_id, task_index, value, slots)
      join holdfast.limit_buckets on limit_buckets.limit_id = new_limit_id and limit_buckets.value = running.value
     where leases.job_id = running.job_id and leases.task_index = running.task_index
       and limit_buckets.bucket_id <> all (coalesce(leases.held, '{}'));
end $$;

-- Before a limit is deleted: what runs gives its slots back.
create or replace function holdfast.release_slots(old_limit_id bigint) returns void
    language plpgsql as $$
declare
    gone constant bigint[] := array(
        select bucket_id from holdfast.limit_buckets where limit_buckets.limit_id = old_limit_id);
begin
    update holdfast.leases
       set held = kept.held, slots = case when kept.held is not null then leases.slots end
      from (select leases.job_id, leases.task_index, nullif(array(
                   select bucket_id from unnest(leases.held) as bucket_id where bucket_id <> all (gone)), '{}') as held
              from holdfast.leases where leases.held && gone) as kept
     where leases.job_id = kept.job_id and leases.task_index = kept.task_index;
end $$;
