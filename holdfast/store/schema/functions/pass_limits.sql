-- Who may start by his limits. Locks are waited for here, in the order of buckets, and once in a transaction.

-- Decides which tasks may start now, `passed_max` of them at most; they come in the order of their line. The verdict on
-- each: 0, it may, and this has spent its part of the rates; -1, it stays in line, since its queue gives no more, or
-- enough others may start; else the bucket behind which it waits: there it stands when this returns, and whoever asked
-- takes it out of its line. `held` names the buckets whose slots a task takes with it, as a text. `opens_at` is when
-- a rate lets more of them start.
create or replace function holdfast.pass_limits(
    queues text[], types text[], owners text[], keys text[], slots int[], urgencies int[], eligibles timestamptz[],
    job_ids bigint[], task_indexes int[], give_ups timestamptz[], avoids text[], passed_max int,
    out verdicts bigint[], out held text[], out opens_at timestamptz)
    language plpgsql as $$
#variable_conflict use_column
declare
    num_tasks constant int := cardinality(job_ids);
    -- Each pair of a task and a bucket, by the task's number.
    numbers int[];
    pair_limits bigint[];
    pair_values text[];
    pair_buckets bigint[];
    ranks int[];
    is_new boolean;
    -- Each bucket, by its rank, as it was when it was locked.
    bucket_ids bigint[];
    bucket_limits bigint[];
    tokens float8[];
    filled_ats timestamptz[];
    fits boolean;
    kinds text[];
    rooms float8[];
    mosts float8[];
    rates float8[];
    of_queues boolean[];
    openings timestamptz[];
    is_closed boolean[];
    spent float8[];
    has_gangs boolean;
    barrier_urgencies int[];
    barrier_eligibles timestamptz[];
    barrier_jobs bigint[];
    barrier_indexes int[];
    now timestamptz;
    pair int := 1;
    first_pair int;
    blocker int;
    rank int;
    num_passed int := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'at isolation level % a slot that was just taken would count as free',
            current_setting('transaction_isolation')
            using hint = 'set default_transaction_isolation of the role that Holdfast uses to read committed';
    end if;
    select array_agg(number), array_agg(limit_id), array_agg(value), array_agg(bucket_id), bool_or(bucket_id is null)
      into numbers, pair_limits, pair_values, pair_buckets, is_new
      from (select task.number::int, mine.limit_id, task.value, known.bucket_id
              from (select *, array_position('{key,owner,type,queue}', usage_limits.scope) as breadth
                      from holdfast.usage_limits
                     cross join lateral (select case usage_limits.scope when 'queue' then queues
                                                                        when 'type' then types
                                                                        when 'owner' then owners
                                                                        when 'key' then keys end as of_tasks)
                           as by_scope
                     where usage_limits.only_for is null or usage_limits.only_for = any (of_tasks)) as mine
             cross join lateral unnest(mine.of_tasks) with ordinality as task(value, number)
             -- By the whole key: a join would be content with all buckets of the limit.
              left join lateral (
                   select limit_buckets.bucket_id from holdfast.limit_buckets
                    where limit_buckets.limit_id = mine.limit_id and limit_buckets.value = task.value
                    limit 1) as known on true
             -- Placed work is of no queue, and its limits are none of it.
             where task.value is not null and (mine.scope <> 'queue' or task.value <> '')
               and (mine.only_for is null or mine.only_for = task.value)
               and (mine.in_queue is null or mine.in_queue = queues[task.number])
               and (mine.in_type is null or mine.in_type = types[task.number])
             -- What has to wait does so behind the narrowest: a crowd of one key is in the way of that key alone.
             order by task.number, mine.breadth, mine.limit_id) as pairs;
    if numbers is null then
        verdicts := array(select case when number <= passed_max then 0 else -1 end
                            from generate_series(1, num_tasks) as number order by number);
        held := array_fill(null::text, array[num_tasks]);
        return;
    end if;
    -- A bucket that nobody used any more may have been dropped after it was found.
    loop
        if is_new then
            insert into holdfast.limit_buckets (limit_id, value)
            select distinct limit_id, value from unnest(pair_limits, pair_values) as pairs(limit_id, value)
             where not exists (select from holdfast.limit_buckets as known
                                where known.limit_id = pairs.limit_id and known.value = pairs.value)
             order by limit_id, value
                on conflict do nothing;
            pair_buckets := array(
                select limit_buckets.bucket_id
                  from unnest(pair_limits, pair_values) with ordinality as pairs(limit_id, value, position)
                  left join holdfast.limit_buckets using (limit_id, value)
                 order by position);
        end if;
        select array_agg(locked.bucket_id), array_agg(locked.limit_id), array_agg(locked.tokens),
               array_agg(locked.filled_at),
               bool_or(case when locked.gang_until is not null then locked.gang_until > holdfast.now() end)
          into bucket_ids, bucket_limits, tokens, filled_ats, has_gangs
          from (select * from holdfast.limit_buckets
                 where limit_buckets.bucket_id = any (pair_buckets)
                 order by limit_buckets.bucket_id
                   for no key update) as locked;
        is_new := cardinality(bucket_ids) is distinct from (
            select count(distinct coalesce(bucket_id, 0)) from unnest(pair_buckets) as bucket_id);
        exit when not is_new;
    end loop;
    now := holdfast.now();
    -- In a statement after the locks. One part for each index of those that hold slots, for as many limits as a task
    -- can have; and what the tasks want.
    select array_agg(kind), array_agg(room), array_agg(most), array_agg(rate), array_agg(of_queue), array_agg(opening),
           bool_and(room >= wanted)
      into kinds, rooms, mosts, rates, of_queues, openings, fits
      from (select bucket_id, max(kind) as kind, max(room) - coalesce(sum(taken), 0) as room, max(most) as most,
                   max(rate) as rate, bool_or(of_queue) as of_queue, max(opening) as opening, sum(wanted) as wanted
              from (select mine.bucket_id, usage_limits.kind,
                           case usage_limits.kind
                               when 'concurrency' then usage_limits.most
                               -- A clock that was put back takes nothing out of the bucket.
                               when 'bucket' then least(usage_limits.burst, coalesce(
                                   mine.tokens + greatest(date_part('epoch', now - mine.filled_at), 0)
                                                 * usage_limits.most / date_part('epoch', usage_limits.period),
                                   usage_limits.burst))
                               -- A slice counts as long as any part of it is within the period.
                               else usage_limits.most - coalesce((
                                   select sum(limit_spent.spent) from holdfast.limit_spent
                                    where limit_spent.bucket_id = mine.bucket_id
                                      and limit_spent.slice > now - usage_limits.period * 1.01), 0) end as room,
                           coalesce(usage_limits.burst, usage_limits.most) as most,
                           case usage_limits.kind when 'bucket' then
                               usage_limits.most / date_part('epoch', usage_limits.period) end as rate,
                           usage_limits.scope = 'queue' and usage_limits.in_type is null as of_queue,
                           case usage_limits.kind when 'window' then (
                               select min(limit_spent.slice) + usage_limits.period * 1.01 from holdfast.limit_spent
                                where limit_spent.bucket_id = mine.bucket_id
                                  and limit_spent.slice > now - usage_limits.period * 1.01) end as opening,
                           null::int as taken, null::int as wanted
                      from unnest(bucket_ids, bucket_limits, tokens, filled_ats)
                             as mine(bucket_id, limit_id, tokens, filled_at)
                      join holdfast.usage_limits on usage_limits.limit_id = mine.limit_id
                     union all
                    select bucket_id, null, null, null, null, null, null, null, slots[number]
                      from unnest(pair_buckets, numbers) as pairs(bucket_id, number)
                     union all
                    select held[1], null, null, null, null, null, null, leases.slots, null from holdfast.leases
                     where held[1] = any (bucket_ids) and held[1] is not null
                     union all
                    select held[2], null, null, null, null, null, null, leases.slots, null from holdfast.leases
                     where held[2] = any (bucket_ids) and held[2] is not null
                     union all
                    select held[3], null, null, null, null, null, null, leases.slots, null from holdfast.leases
                     where held[3] = any (bucket_ids) and held[3] is not null
                       and (select exists (select from holdfast.leases where held[3] is not null))
                     union all
                    select held[4], null, null, null, null, null, null, leases.slots, null from holdfast.leases
                     where held[4] = any (bucket_ids) and held[4] is not null
                       and (select exists (select from holdfast.leases where held[4] is not null))) as parts
             group by bucket_id order by bucket_id) as buckets;
    -- Whom the others do not pass: the first who takes several slots, or the gang for which the bucket is kept.
    if has_gangs or exists (
        select from holdfast.gated where gated.bucket_id = any (bucket_ids) and gated.bucket_id is not null
                                     and gated.slots > 1) then
        select array_agg(urgency order by bucket_id), array_agg(eligible_at order by bucket_id),
               array_agg(job_id order by bucket_id), array_agg(task_index order by bucket_id)
          into barrier_urgencies, barrier_eligibles, barrier_jobs, barrier_indexes
          from unnest(bucket_ids, mosts) as mine(bucket_id, most)
          left join lateral (
               (select gated.urgency, gated.eligible_at, gated.job_id, gated.task_index from holdfast.gated
                 where gated.bucket_id = mine.bucket_id and gated.slots > 1 and gated.slots <= mine.most
                 order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index limit 1)
                union all
               select gang_urgency, gang_eligible_at, gang_job_id, gang_task_index from holdfast.limit_buckets
                where has_gangs and limit_buckets.bucket_id = mine.bucket_id and gang_slots <= mine.most
                  and holdfast.gang_before(limit_buckets, now) is not null
                order by urgency, eligible_at, job_id, task_index limit 1) as line on true;
    end if;
    -- As mostly, there is room for all of them.
    if num_tasks <= passed_max and barrier_jobs is null and fits and 'concurrency' = all (kinds) then
        verdicts := array_fill(0::bigint, array[num_tasks]);
        held := array(
            select '{' || string_agg(bucket_id::text, ',' order by bucket_id) || '}'
              from (select * from unnest(numbers, pair_buckets) as pairs(number, bucket_id)
                     union all
                    select number, null from generate_series(1, num_tasks) as number) as buckets
             group by number order by number);
        return;
    end if;
    ranks := array(
        select dense_rank() over (order by bucket_id)::int
          from unnest(pair_buckets) with ordinality as pairs(bucket_id, position) order by position);
    is_closed := array_fill(false, array[cardinality(bucket_ids)]);
    spent := array_fill(0::float8, array[cardinality(bucket_ids)]);
    verdicts := array_fill(0::bigint, array[num_tasks]);
    for number in 1 .. num_tasks loop
        first_pair := pair;
        blocker := null;
        while numbers[pair] = number loop
            rank := ranks[pair];
            -- One that it can never pass comes before all others: behind them, it would keep slots for nothing.
            if slots[number] > mosts[rank] then
                blocker := case when slots[number] > mosts[blocker] then blocker else rank end;
            -- Behind its queue it need not wait if it has to wait behind something else.
            elsif (blocker is null or of_queues[blocker] and slots[number] <= mosts[blocker])
                and (is_closed[rank] or rooms[rank] + 1e-9 < slots[number]
                     or barrier_jobs[rank] is not null
                        and (urgencies[number], eligibles[number], job_ids[number], task_indexes[number])
                            > (barrier_urgencies[rank], barrier_eligibles[rank], barrier_jobs[rank],
                               barrier_indexes[rank])) then
                blocker := rank;
            end if;
            pair := pair + 1;
        end loop;
        if blocker is null and num_passed = passed_max then
            verdicts[number] := -1;
        elsif blocker is null then
            num_passed := num_passed + 1;
            for position in first_pair .. pair - 1 loop
                rooms[ranks[position]] := rooms[ranks[position]] - slots[number];
                spent[ranks[position]] := spent[ranks[position]] + slots[number];
            end loop;
        else
            -- Who comes after one that waits for several slots does not take them away from him.
            is_closed[blocker] := is_closed[blocker]
                or (slots[number] > 1 or of_queues[blocker]) and slots[number] <= mosts[blocker];
            verdicts[number] := case when of_queues[blocker] and slots[number] <= mosts[blocker] then -1
                                     else bucket_ids[blocker] end;
            if kinds[blocker] <> 'concurrency' and slots[number] <= mosts[blocker] then
                opens_at := least(opens_at, case when rates[blocker] > 0 then
                    now + (slots[number] - rooms[blocker]) / rates[blocker] * interval '1 second'
                    else openings[blocker] end);
            end if;
        end if;
    end loop;
    held := array(
        select '{' || string_agg(bucket_id::text, ',' order by bucket_id) || '}'
          from (select numbers[position] as number, bucket_ids[ranks[position]] as bucket_id
                  from generate_subscripts(numbers, 1) as position
                 where kinds[ranks[position]] = 'concurrency' and verdicts[numbers[position]] = 0
                 union all
                select number, null from generate_series(1, num_tasks) as number) as buckets
         group by number order by number);
    insert into holdfast.gated (job_id, task_index, queue, urgency, eligible_at, unschedulable_at, avoid, bucket_id,
                                slots, gated_at)
    select job_id, task_index, queue, urgency, eligible_at, give_up, avoid, verdict, slots, now
      from unnest(job_ids, task_indexes, queues, urgencies, eligibles, give_ups, avoids, verdicts, slots)
             as tasks(job_id, task_index, queue, urgency, eligible_at, give_up, avoid, verdict, slots)
     where verdict > 0
        -- A row may be left of one that was cancelled while somebody held it.
        on conflict (job_id, task_index) do update
       set queue = excluded.queue, urgency = excluded.urgency, eligible_at = excluded.eligible_at,
           unschedulable_at = excluded.unschedulable_at, avoid = excluded.avoid, bucket_id = excluded.bucket_id,
           share_id = null, slots = excluded.slots, gated_at = excluded.gated_at;
    if 'bucket' = any (kinds) or 'window' = any (kinds) then
        perform holdfast.spend_rates(bucket_ids, kinds, rooms, mosts, rates, openings, spent, now);
    end if;
end $$;

-- Writes down what has been spent of rates whose buckets are held, and when the first of those behind them may start.
create or replace function holdfast.spend_rates(
    bucket_ids bigint[], kinds text[], rooms float8[], mosts float8[], rates float8[], openings timestamptz[],
    spent float8[], now timestamptz) returns void
    language plpgsql as $$
begin
    insert into holdfast.limit_spent (bucket_id, slice, spent)
    select mine.bucket_id, date_bin(usage_limits.period / 100, spend_rates.now, timestamptz 'epoch'), mine.spent
      from unnest(bucket_ids, kinds, spend_rates.spent) as mine(bucket_id, kind, spent)
      join holdfast.limit_buckets using (bucket_id)
      join holdfast.usage_limits using (limit_id)
     where mine.kind = 'window' and mine.spent > 0
        on conflict (bucket_id, slice) do update set spent = limit_spent.spent + excluded.spent;
    update holdfast.limit_buckets
       set tokens = case when mine.kind = 'bucket' then mine.room end,
           filled_at = case when mine.kind = 'bucket' then spend_rates.now end,
           open_queue = head.queue,
           open_at = case when head.queue is null then null
                          when mine.kind = 'bucket' and mine.rate > 0 then spend_rates.now
                               + greatest(head.slots - mine.room, 0) / mine.rate * interval '1 second'
                          when mine.room >= head.slots then spend_rates.now
                          else mine.opening end
      from unnest(bucket_ids, kinds, rooms, mosts, rates, openings, spend_rates.spent)
             as mine(bucket_id, kind, room, most, rate, opening, spent)
      left join lateral (
           select gated.queue, gated.slots from holdfast.gated
            where gated.bucket_id = mine.bucket_id and gated.slots <= mine.most
            order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index limit 1) as head on true
     where limit_buckets.bucket_id = mine.bucket_id and mine.kind <> 'concurrency'
       and (mine.spent > 0 or head.queue is not null or limit_buckets.open_at is not null);
    delete from holdfast.limit_spent
     using unnest(bucket_ids, kinds, spend_rates.spent) as mine(bucket_id, kind, spent), holdfast.limit_buckets,
           holdfast.usage_limits
     where mine.kind = 'window' and mine.spent > 0 and limit_buckets.bucket_id = mine.bucket_id
       and usage_limits.limit_id = limit_buckets.limit_id
       and limit_spent.bucket_id = mine.bucket_id
       and limit_spent.slice < spend_rates.now - usage_limits.period * 1.02;
end $$;

-- For claims that have taken tasks out of line already: which of them may start, and the buckets whose slots each
-- takes with it, as a text. The others stand behind their limit, or in line as before. Without limits, says nothing.
create or replace function holdfast.pass_taken(
    job_ids bigint[], task_indexes int[], give_ups timestamptz[], avoids text[])
    returns table (job_id bigint, task_index int, may_start boolean, held text, slots int, opens_in float8)
    language plpgsql as $$
#variable_conflict use_column
declare
    line record;
    verdicts bigint[];
    all_held text[];
    opens_at timestamptz;
begin
    if not holdfast.has_limits() then
        return;
    end if;
    select array_agg(queue) as queues, array_agg(type) as types, array_agg(owner) as owners, array_agg(key) as keys,
           array_agg(slots) as slots, array_agg(urgency) as urgencies, array_agg(eligible_at) as eligibles,
           array_agg(job_id) as job_ids, array_agg(task_index) as task_indexes, array_agg(give_up) as give_ups,
           array_agg(avoid) as avoids
      into line
      from (select coalesce(jobs.queue, '') as queue, jobs.type, jobs.owner, -jobs.priority as urgency,
                   coalesce((jobs.spec ->> 'slots')::int, 1) as slots,
                   holdfast.limit_key(jobs.spec, tasks.input) as key,
                   greatest(tasks.eligible_at, jobs.released_at) as eligible_at, mine.job_id, mine.task_index,
                   mine.give_up, mine.avoid
              from unnest(pass_taken.job_ids, pass_taken.task_indexes, pass_taken.give_ups, pass_taken.avoids)
                     as mine(job_id, task_index, give_up, avoid)
              join holdfast.tasks using (job_id, task_index)
              join holdfast.jobs using (job_id)
             order by urgency, eligible_at, job_id, task_index) as taken;
    select passing.verdicts, passing.held, passing.opens_at into verdicts, all_held, opens_at
      from holdfast.pass_limits(line.queues, line.types, line.owners, line.keys, line.slots, line.urgencies,
                                line.eligibles, line.job_ids, line.task_indexes, line.give_ups, line.avoids,
                                cardinality(line.job_ids)) as passing;
    insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid)
    select mine.queue, mine.urgency, mine.eligible_at, mine.job_id, mine.task_index, mine.give_up, mine.avoid
      from unnest(line.queues, line.urgencies, line.eligibles, line.job_ids, line.task_indexes, line.give_ups,
                  line.avoids, verdicts)
             as mine(queue, urgency, eligible_at, job_id, task_index, give_up, avoid, verdict)
     where mine.verdict < 0;
    return query
    select mine.job_id, mine.task_index, mine.verdict = 0, mine.held,
           case when mine.held is not null then mine.slots end,
           extract(epoch from opens_at - holdfast.now())::float8
      from unnest(line.job_ids, line.task_indexes, verdicts, all_held, line.slots)
             as mine(job_id, task_index, verdict, held, slots);
end $$;
