-- Back into line: tasks behind a limit that has room again. What is opened here may find another limit in its way; then
-- the claim that meets it puts it behind that one.

-- Takes the first tasks behind some buckets, as many slots of each as are free, back into their lines; with
-- `only_queues`, of what comes first, those alone. Rows that somebody holds are passed: he opens them himself, or lets
-- them go. One that takes more slots than there are stays for ever, and is in nobody's way.
create or replace function holdfast.open_gated(
    bucket_ids bigint[], slots_free int[], only_queues text[],
    out queues text[], out job_ids bigint[], out task_indexes int[])
    language plpgsql as $$
#variable_conflict use_column
begin
    with chosen as materialized (
        select line.row_id
          from unnest(bucket_ids, slots_free) as mine(bucket_id, slots_free)
          join holdfast.limit_buckets using (bucket_id)
          join holdfast.usage_limits using (limit_id)
         cross join lateral (
               select first.row_id, first.queue,
                      sum(first.slots) over (order by first.urgency, first.eligible_at, first.job_id,
                                                      first.task_index) as up_to
                 from (select gated.ctid as row_id, gated.queue, gated.slots, gated.urgency, gated.eligible_at,
                              gated.job_id, gated.task_index
                         from holdfast.gated
                        where gated.bucket_id = mine.bucket_id
                          and gated.slots <= coalesce(usage_limits.burst, usage_limits.most)
                        order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index
                        limit mine.slots_free
                          for update skip locked) as first) as line
         where line.up_to <= mine.slots_free and (only_queues is null or line.queue = any (only_queues))
    ),
    opened as (
        delete from holdfast.gated where ctid = any (array(select row_id from chosen))
        returning queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid
    ),
    in_line as (
        insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid)
        select * from opened
    )
    select array_agg(queue), array_agg(job_id), array_agg(task_index) into queues, job_ids, task_indexes from opened;
end $$;

-- After leases have been deleted, in the same transaction: as many tasks as have got room go back into line, the first
-- ones. Of each lease the buckets it held, as a text, and how many slots of each. Others that free slots of the same
-- bucket at this moment do not see each other, so each opens what it has freed itself, or what one task needs; a
-- chore repairs what falls in between. Queues whose own slots are free again are named
-- without a task, once for each.
create or replace function holdfast.open_freed(
    held text[], slots int[], out queues text[], out job_ids bigint[], out task_indexes int[])
    language plpgsql as $$
#variable_conflict use_column
declare
    is_waited_for constant boolean := exists (select from holdfast.gated where gated.bucket_id is not null);
    of_queues constant bigint[] := array(
        select limit_id from holdfast.usage_limits
         where usage_limits.scope = 'queue' and usage_limits.in_type is null);
    freed_ids bigint[];
    freed_slots int[];
    bucket_ids bigint[];
    slots_free int[];
    own_queues text[];
begin
    -- Mostly nobody waits for anything.
    if not is_waited_for and cardinality(of_queues) = 0 then
        return;
    end if;
    select array_agg(freed.bucket_id), array_agg(freed.slots) into freed_ids, freed_slots
      from (select bucket_id, sum(lease.slots)::int as slots
              from unnest(held, open_freed.slots) as lease(held, slots)
             cross join lateral unnest(lease.held::bigint[]) as bucket_id
             group by bucket_id) as freed;
    if is_waited_for then
        with waited_for as materialized (
            select freed.bucket_id, freed.slots, head.slots as wanted, usage_limits.most
              from unnest(freed_ids, freed_slots) as freed(bucket_id, slots)
             -- Before its limit is looked for: most buckets have nobody behind them.
             cross join lateral (
                   select from holdfast.gated where gated.bucket_id = freed.bucket_id limit 1) as anybody
              join holdfast.limit_buckets on limit_buckets.bucket_id = freed.bucket_id
              join holdfast.usage_limits on usage_limits.limit_id = limit_buckets.limit_id
             cross join lateral (
                   select gated.slots from holdfast.gated
                    where gated.bucket_id = freed.bucket_id and gated.slots <= usage_limits.most
                    order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index limit 1) as head
        )
        select array_agg(measured.bucket_id), array_agg(measured.slots_free) into bucket_ids, slots_free
          from (select bucket_id, least(greatest(slots, wanted), most - holdfast.slots_used(bucket_id))::int
                       as slots_free
                  from waited_for) as measured
         where measured.slots_free > 0;
    end if;
    if cardinality(of_queues) > 0 then
        select array_agg(own.value) into own_queues
          from (select limit_buckets.value, least(freed.slots, 1000) as slots
                  from unnest(freed_ids, freed_slots) as freed(bucket_id, slots)
                  join holdfast.limit_buckets on limit_buckets.bucket_id = freed.bucket_id
                 where limit_buckets.limit_id = any (of_queues)
                   -- As a value: an `exists` would be joined with all that stands in line.
                   and (select true from holdfast.ready where ready.queue = limit_buckets.value limit 1)
                -- So that each queue is looked at once.
                offset 0) as own
         cross join generate_series(1, own.slots);
    end if;
    if bucket_ids is not null then
        select * into queues, job_ids, task_indexes from holdfast.open_gated(bucket_ids, slots_free, null);
    end if;
    if own_queues is not null then
        queues := queues || own_queues;
        job_ids := job_ids || array_fill(null::bigint, array[cardinality(own_queues)]);
        task_indexes := task_indexes || array_fill(null::int, array[cardinality(own_queues)]);
    end if;
end $$;

-- How many slots of a bucket are held: the leases say so, until they are gone.
create or replace function holdfast.slots_used(bucket_id bigint) returns bigint
    language sql stable as $$
    select coalesce(sum(slots), 0)::bigint
      from (select slots from holdfast.leases where held[1] = slots_used.bucket_id and held[1] is not null
             union all
            select slots from holdfast.leases where held[2] = slots_used.bucket_id and held[2] is not null
             union all
            select slots from holdfast.leases where held[3] = slots_used.bucket_id and held[3] is not null
             union all
            select slots from holdfast.leases where held[4] = slots_used.bucket_id and held[4] is not null) as leases
$$;

-- What a bucket has to give, by its limit: slots that are free, tokens, or what is left of a period; and when there is
-- more, of a rate that has not got one.
create or replace function holdfast.measure_bucket(
    mine holdfast.usage_limits, bucket holdfast.limit_buckets, now timestamptz,
    out room float8, out opens_at timestamptz)
    language plpgsql stable as $$
declare
    per_second constant float8 := mine.most / extract(epoch from mine.period)::float8;
begin
    case mine.kind
        when 'concurrency' then
            room := mine.most - case when bucket.bucket_id is null then 0
                                     else holdfast.slots_used(bucket.bucket_id) end;
        when 'bucket' then
            -- A clock that was put back takes nothing out of the bucket.
            room := least(mine.burst, coalesce(
                bucket.tokens + greatest(date_part('epoch', now - bucket.filled_at), 0) * per_second, mine.burst));
            if room < 1 and per_second > 0 then
                opens_at := now + (1 - room) / per_second * interval '1 second';
            end if;
        else
            select mine.most - coalesce(sum(spent), 0), min(slice) + mine.period * 1.01 into room, opens_at
              from holdfast.limit_spent
             where limit_spent.bucket_id = bucket.bucket_id and slice > now - mine.period * 1.01;
    end case;
    if room >= 1 then
        opens_at := null;
    end if;
end $$;

-- After a limit was changed, in the same transaction: what fits now goes back into line at once, of so many buckets so
-- many tasks each; what is left is for those who free slots, for claims if it is a rate, and for the chore.
create or replace function holdfast.open_changed(
    changed_limit_id bigint, buckets_max int, tasks_max int,
    out queues text[], out job_ids bigint[], out task_indexes int[])
    language plpgsql as $$
declare
    now constant timestamptz := holdfast.now();
    bucket_ids bigint[];
    slots_free int[];
begin
    select array_agg(bucket_id), array_agg(least(floor(measured.room), tasks_max)::int) into bucket_ids, slots_free
      from (select limit_buckets.bucket_id, limit_buckets, usage_limits
              from holdfast.usage_limits
              join holdfast.limit_buckets on limit_buckets.limit_id = usage_limits.limit_id
             where usage_limits.limit_id = changed_limit_id
               and (select true from holdfast.gated where gated.bucket_id = limit_buckets.bucket_id limit 1)
             limit buckets_max) as waited_for
     cross join lateral holdfast.measure_bucket(waited_for.usage_limits, waited_for.limit_buckets, now) as measured
     where measured.room >= 1;
    if bucket_ids is not null then
        select * into queues, job_ids, task_indexes from holdfast.open_gated(bucket_ids, slots_free, null);
    end if;
end $$;

-- Lets tasks back into line whose rate has something for them, before a claim from these queues looks there. Nobody
-- holds the bucket's row meanwhile: the claim does, when it decides.
create or replace function holdfast.open_due(queues text[], tasks_max int) returns void
    language plpgsql as $$
declare
    now constant timestamptz := holdfast.now();
    bucket_ids bigint[];
    slots_free int[];
begin
    select array_agg(due.bucket_id), array_agg(least(floor(measured.room), greatest(tasks_max, due.wanted))::int)
      into bucket_ids, slots_free
      from (select limit_buckets.bucket_id, limit_buckets, usage_limits, head.slots as wanted
              from unnest(queues) as mine(queue)
              join holdfast.limit_buckets on open_queue = mine.queue and open_at <= now
              join holdfast.usage_limits using (limit_id)
             cross join lateral (
                   select gated.slots from holdfast.gated
                    where gated.bucket_id = limit_buckets.bucket_id
                      and gated.slots <= coalesce(usage_limits.burst, usage_limits.most)
                    order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index limit 1) as head
             order by open_at limit 100) as due
     cross join lateral holdfast.measure_bucket(due.usage_limits, due.limit_buckets, now) as measured
     where measured.room >= 1;
    if bucket_ids is not null then
        perform holdfast.open_gated(bucket_ids, slots_free, queues);
    end if;
end $$;

-- How many tasks whole queues may start now, by their own limits: as many as are asked for, where there is none. And
-- when more may, of one that gives none, or of tasks behind a rate.
create or replace function holdfast.find_room(
    queues text[], tasks_max int, out caps int[], out opens_at timestamptz)
    language plpgsql as $$
declare
    now constant timestamptz := holdfast.now();
    first_opens_at timestamptz;
begin
    select array_agg(cap order by number), min(caps.opens_at) into caps, opens_at
      from (select mine.number, least(tasks_max, floor(min(measured.room)))::int as cap,
                   max(measured.opens_at) as opens_at
              from unnest(queues) with ordinality as mine(queue, number)
              left join holdfast.usage_limits
                on usage_limits.scope = 'queue' and usage_limits.in_type is null
               and coalesce(usage_limits.only_for, mine.queue) = mine.queue
               and coalesce(usage_limits.in_queue, mine.queue) = mine.queue
              left join holdfast.limit_buckets
                on limit_buckets.limit_id = usage_limits.limit_id and limit_buckets.value = mine.queue
              left join lateral holdfast.measure_bucket(usage_limits, limit_buckets, now) as measured
                on usage_limits.limit_id is not null
             group by mine.number) as caps;
    select min(open_at) into first_opens_at
      from unnest(queues) as mine(queue)
      join holdfast.limit_buckets on open_queue = mine.queue and open_at > now;
    opens_at := least(opens_at, first_opens_at);
end $$;

-- A chore: what waits behind limits that have room, which others have overlooked, goes back into line; of a rate, what
-- nobody has come for since it opened. Of a rate, it says again when it opens, and for whom. Looks at a stretch of the
-- buckets; returns the last one, if there may be more.
create or replace function holdfast.tend_gated(
    after_bucket_id bigint, buckets_max int,
    out queues text[], out job_ids bigint[], out task_indexes int[], out last_bucket_id bigint)
    language plpgsql as $$
#variable_conflict use_column
declare
    now constant timestamptz := holdfast.now();
    bucket_ids bigint[];
    chosen_jobs bigint[];
    chosen_tasks int[];
begin
    with recursive heads as (
        (select gated.bucket_id from holdfast.gated
          where gated.bucket_id > after_bucket_id order by gated.bucket_id limit 1)
        union all
        select following.bucket_id
          from heads cross join lateral (
               select gated.bucket_id from holdfast.gated
                where gated.bucket_id > heads.bucket_id order by gated.bucket_id limit 1) as following
    )
    select array_agg(bucket_id) into bucket_ids from (select bucket_id from heads limit buckets_max) as known;
    if cardinality(bucket_ids) = buckets_max then
        last_bucket_id := bucket_ids[buckets_max];
    end if;
    update holdfast.limit_buckets
       set open_queue = rate.queue, open_at = rate.opens_at
      from (select limit_buckets.bucket_id, head.queue, coalesce(measured.opens_at, now) as opens_at
              from unnest(bucket_ids) as mine(bucket_id)
              join holdfast.limit_buckets using (bucket_id)
              join holdfast.usage_limits using (limit_id)
             cross join lateral (
                   select gated.queue from holdfast.gated
                    where gated.bucket_id = limit_buckets.bucket_id
                      and gated.slots <= coalesce(usage_limits.burst, usage_limits.most)
                    order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index limit 1) as head
             cross join lateral holdfast.measure_bucket(usage_limits, limit_buckets, now) as measured
             where usage_limits.kind <> 'concurrency'
               and (limit_buckets.open_queue is distinct from head.queue or limit_buckets.open_at is null
                    or limit_buckets.open_at > now + interval '1 second')
               for no key update of limit_buckets skip locked) as rate
     where limit_buckets.bucket_id = rate.bucket_id;
    select chosen.job_ids, chosen.task_indexes into chosen_jobs, chosen_tasks
      from holdfast.choose_gated(bucket_ids, now) as chosen;
    with opened as (
        delete from holdfast.gated where ctid = any (array(
            select gated.ctid from unnest(chosen_jobs, chosen_tasks) as mine(job_id, task_index)
              join holdfast.gated using (job_id, task_index)
             where gated.bucket_id = any (bucket_ids)
               for update of gated skip locked))
        returning queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid
    ),
    in_line as (
        insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid)
        select * from opened
    )
    select array_agg(queue), array_agg(job_id), array_agg(task_index) into queues, job_ids, task_indexes from opened;
end $$;

-- A chore: forgets buckets that nobody holds, waits for or has spent of; who needs one makes it anew. Whoever is about
-- to decide by it holds its row. Looks at a stretch of them; returns the last one, if there may be more.
create or replace function holdfast.drop_idle_buckets(after_bucket_id bigint, buckets_max int) returns bigint
    language plpgsql as $$
declare
    now constant timestamptz := holdfast.now();
    chosen bigint[];
    last_bucket_id bigint;
begin
    -- Whoever sets a limit gives its buckets to what runs already: meanwhile none is dropped.
    perform holdfast.has_limits();
    select max(bucket_id) into last_bucket_id
      from (select bucket_id from holdfast.limit_buckets
             where bucket_id > after_bucket_id order by bucket_id limit buckets_max) as stretch
    having count(*) = buckets_max;
    select array_agg(bucket_id) into chosen
      from (select bucket_id from holdfast.limit_buckets
             where bucket_id > after_bucket_id order by bucket_id limit buckets_max
               for update skip locked) as locked;
    -- In a later statement, that sees what the last one who held it has done.
    delete from holdfast.limit_buckets
     using holdfast.usage_limits
     where limit_buckets.bucket_id = any (chosen) and usage_limits.limit_id = limit_buckets.limit_id
       and (holdfast.measure_bucket(usage_limits, limit_buckets, now)).room
           >= coalesce(usage_limits.burst, usage_limits.most)
       and not exists (select from holdfast.gated where gated.bucket_id = limit_buckets.bucket_id);
    return last_bucket_id;
end $$;
