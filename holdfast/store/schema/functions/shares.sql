-- Queues that are shared: what becomes ready stands in the line of its share, and is let into the queue's own line by
-- stride scheduling, right before a claim takes it. A share's `pass` grows by slots through weight with each task that
-- is let in; the lowest pass goes first. Whoever lets in holds the row of the rule.

-- Which queues are shared: mostly none.
create or replace function holdfast.shared_queues() returns text[] language sql stable as $$
    select array(select queue from holdfast.share_rules where ended_at is null and queue <> '')
$$;

-- Whose share a task is part of: a key is a text, or what its input holds at a path, unless that is nothing.
create or replace function holdfast.share_value(share_by text, owner text, spec jsonb, input json) returns text
    language sql immutable as $$
    select coalesce(case share_by when 'owner' then holdfast.short_key(owner)
                                  when 'key' then holdfast.limit_key(spec, input) end, '')
$$;

-- Finds the share in whose line a task will stand, and holds it until the end of the transaction: it is not taken for
-- idle before the task is seen. One that was idle begins where those in line are, so that nobody saves up; without any
-- in line, where the last one got to. Null without the rule.
create or replace function holdfast.find_share(rule bigint, at_urgency int, of_value text) returns bigint
    language plpgsql as $$
declare
    found_id bigint;
begin
    select share_id into found_id from holdfast.shares
     where rule_id = rule and urgency = at_urgency and value = of_value and idle_at is null
       for key share;
    if found_id is null then
        insert into holdfast.shares as mine (rule_id, urgency, value, pass)
        select rule_id, at_urgency, of_value, coalesce(
                   (select pass from holdfast.shares
                     where shares.rule_id = rule and urgency = at_urgency and idle_at is null
                     order by pass limit 1),
                   (select pass from holdfast.shares
                     where shares.rule_id = rule and urgency = at_urgency order by pass desc limit 1), 0)
          from holdfast.share_rules where rule_id = rule for key share
        on conflict (rule_id, urgency, value) do update
           set idle_at = null, pass = greatest(mine.pass, excluded.pass)
        returning share_id into found_id;
    end if;
    return found_id;
end $$;

-- Lets tasks that are stored stand in the lines of their shares, instead of in that of their queue.
create or replace function holdfast.gate(job_ids bigint[], task_indexes int[], give_ups timestamptz[]) returns int
    language plpgsql as $$
declare
    num_gated int;
begin
    if job_ids is null then
        return 0;
    end if;
    with line as materialized (
        select tasks.job_id, tasks.task_index, jobs.queue, -jobs.priority as urgency, mine.give_up, rules.rule_id,
               greatest(tasks.eligible_at, jobs.released_at) as eligible_at,
               coalesce((jobs.spec ->> 'slots')::int, 1) as slots,
               holdfast.share_value(rules.share_by, jobs.owner, jobs.spec, tasks.input) as value
          from unnest(job_ids, task_indexes, give_ups) as mine(job_id, task_index, give_up)
          join holdfast.tasks on tasks.job_id = mine.job_id and tasks.task_index = mine.task_index
          join holdfast.jobs on jobs.job_id = mine.job_id
          join holdfast.share_rules as rules on rules.queue = jobs.queue
    ),
    -- In order, so that no two wait for each other.
    turns as materialized (
        select rule_id, urgency, value, holdfast.find_share(rule_id, urgency, value) as share_id
          from (select distinct rule_id, urgency, value from line order by rule_id, urgency, value) as known
    )
    insert into holdfast.gated (job_id, task_index, queue, urgency, eligible_at, unschedulable_at, share_id, slots,
                                gated_at)
    select job_id, task_index, queue, urgency, eligible_at, give_up, share_id, slots, holdfast.now()
      from line join turns using (rule_id, urgency, value)
     where share_id is not null;
    get diagnostics num_gated = row_count;
    if num_gated < cardinality(job_ids) then
        raise exception using errcode = 'lock_not_available',
            message = 'the rule of shares was taken back at this moment; try again';
    end if;
    return num_gated;
end $$;

-- Lets the next tasks of shared queues into their lines: of each so many that a claim finds as many as it wants, or
-- as many more as it wants, but no more in all than `line_max`.
create or replace function holdfast.let_in(queues text[], wanted int, line_max int) returns void
    language plpgsql as $$
#variable_conflict use_column
declare
    rule record;
begin
    for rule in
        select rules.rule_id, rules.queue from holdfast.share_rules as rules
         where rules.queue = any (queues) and rules.queue <> ''
           and not exists (select from holdfast.queues as paused where paused.queue = rules.queue)
         order by rules.rule_id
           for no key update of rules
    loop
        perform holdfast.let_in_queue(rule.rule_id, rule.queue, wanted, line_max);
    end loop;
end $$;

-- In rounds. In one, the first shares in turn may all come as far as they would if they shared what is left: so it
-- looks at no more than twice as many rows, and lets them in exactly in the order of stride scheduling.
create or replace function holdfast.let_in_queue(rule bigint, shared_queue text, wanted int, line_max int)
    returns void language plpgsql as $$
#variable_conflict use_column
declare
    best int;
    num_missing int;
    let_in int[] := '{}';
    now_in int[];
    seen_through bigint[] := '{}';
    served bigint[];
    ran_out bigint[];
begin
    loop
        select urgency into best from holdfast.shares
         where rule_id = rule and idle_at is null and share_id <> all (seen_through)
         order by urgency, pass, share_id limit 1;
        exit when not found;
        -- What stands in line before these counts; what has aged stands there by its own priority.
        num_missing := least(
            wanted - cardinality(let_in),
            line_max - (select count(*) from (select from holdfast.ready
                                               where ready.queue = shared_queue and ready.urgency <= best
                                               limit line_max) as counted)
            - (select count(*) from unnest(let_in) as urgency where urgency > best));
        exit when num_missing <= 0;
        with heads as materialized (
            select shares.share_id, shares.pass, coalesce(share_weights.weight, 1) as weight,
                   row_number() over (order by shares.pass, shares.share_id) as rank
              from holdfast.shares left join holdfast.share_weights using (rule_id, value)
             where shares.rule_id = rule and shares.urgency = best and shares.idle_at is null
               and shares.share_id <> all (seen_through)
             order by shares.pass, shares.share_id limit num_missing
        ),
        round as materialized (
            select heads.*, until, greatest(least(ceil((until - pass) * weight), num_missing),
                                            case when rank = 1 then 1 else 0 end)::int as rows_max
              from heads, (select min(pass) + num_missing / sum(weight) as until from heads) as bound
        ),
        line as materialized (
            select round.share_id, round.weight, round.until, round.rank, round.rows_max, first.*,
                   round.pass + (sum(case when first.is_stale then 0 else first.slots end)
                                     over (partition by round.share_id order by first.number)
                                 - first.slots) / round.weight as tag
              from round
             cross join lateral (
                   select locked.*, row_number() over (order by urgency, eligible_at, job_id, task_index) as number
                     from (select gated.ctid as row_id, gated.urgency, gated.eligible_at, gated.job_id,
                                  gated.task_index, gated.unschedulable_at, gated.slots,
                                  tasks.state <> {PENDING} as is_stale
                             from holdfast.gated
                             join holdfast.tasks on tasks.job_id = gated.job_id
                                                and tasks.task_index = gated.task_index
                            where gated.share_id = round.share_id
                            order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index
                            limit round.rows_max
                              for update of gated, tasks skip locked) as locked) as first
        ),
        chosen as materialized (
            select line.*, (select -jobs.priority from holdfast.jobs where jobs.job_id = line.job_id) as own_urgency
              from line where not is_stale and (tag < until or rank = 1 and number = 1)
             order by tag, share_id, number limit num_missing
        ),
        gone as (
            delete from holdfast.gated
             where ctid = any (array(select row_id from chosen) || array(select row_id from line where is_stale))
        ),
        lined as (
            insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at)
            select shared_queue, own_urgency, eligible_at, job_id, task_index, unschedulable_at from chosen
        ),
        advanced as (
            update holdfast.shares set pass = far.pass
              from (select share_id, max(tag + slots / weight) as pass from chosen group by share_id) as far
             where shares.share_id = far.share_id
        )
        select array(select own_urgency from chosen), array(select distinct share_id from chosen),
               array(select share_id from round
                      where rows_max > (select count(*) from line where line.share_id = round.share_id)
                        and not exists (select from line where line.share_id = round.share_id and not is_stale
                                                           and row_id <> all (array(select row_id from chosen))))
          into now_in, served, ran_out;
        let_in := let_in || now_in;
        seen_through := seen_through || ran_out;
        -- Who adds a task to one at this moment holds it.
        ran_out := array(select share_id from holdfast.shares
                          where share_id = any (ran_out || served)
                            and not exists (select from holdfast.gated where gated.share_id = shares.share_id)
                          order by share_id for update skip locked);
        update holdfast.shares set idle_at = holdfast.now()
         where share_id = any (ran_out)
           and not exists (select from holdfast.gated where gated.share_id = shares.share_id);
    end loop;
end $$;

-- What stood in line before its queue was shared goes to its share, some of it at a time. Returns how many went.
create or replace function holdfast.sort_into_shares(batch_max int) returns int
    language plpgsql as $$
#variable_conflict use_column
declare
    rule record;
    num_gone int;
    num_all int := 0;
begin
    for rule in
        select rules.rule_id, rules.queue from holdfast.share_rules as rules
         where rules.sorted_at is null and rules.ended_at is null
         order by rules.rule_id
           for no key update of rules skip locked
    loop
        with gone as (
            delete from holdfast.ready where rule.queue <> '' and ctid = any (array(
                select ready.ctid
                  from (select ready.ctid, ready.job_id, ready.task_index from holdfast.ready
                         where ready.queue = rule.queue
                         order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
                         limit batch_max
                           for update skip locked) as ready))
            returning job_id, task_index, unschedulable_at
        )
        select holdfast.gate(array_agg(job_id), array_agg(task_index), array_agg(unschedulable_at))
          into num_gone from gone join holdfast.tasks using (job_id, task_index);
        num_all := num_all + num_gone;
        update holdfast.share_rules set sorted_at = holdfast.now() where rule_id = rule.rule_id and num_gone = 0;
    end loop;
    return num_all;
end $$;

-- What stands in shares whose rule was taken back returns to the lines of queues, some of it at a time; at last, the
-- rule goes. Not at once: who saw it before may still add a task. Returns how many went.
create or replace function holdfast.return_from_shares(batch_max int) returns int
    language plpgsql as $$
#variable_conflict use_column
declare
    rule record;
    num_gone int;
    num_all int := 0;
begin
    for rule in
        select rules.rule_id, rules.ended_at from holdfast.share_rules as rules
         where rules.ended_at is not null
         order by rules.rule_id
           for no key update of rules skip locked
    loop
        with gone as (
            delete from holdfast.gated where ctid = any (array(
                select line.row_id
                  from holdfast.shares
                 cross join lateral (
                       select gated.ctid as row_id from holdfast.gated
                        where gated.share_id = shares.share_id limit batch_max
                          for update skip locked) as line
                 where shares.rule_id = rule.rule_id limit batch_max))
            returning queue, eligible_at, job_id, task_index, unschedulable_at
        )
        -- What has aged stands in the line of a queue by its own priority.
        insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at)
        select gone.queue, -jobs.priority, eligible_at, job_id, task_index, unschedulable_at
          from gone join holdfast.jobs using (job_id);
        get diagnostics num_gone = row_count;
        num_all := num_all + num_gone;
        if num_gone = 0 and rule.ended_at < holdfast.now() - interval '1 minute' then
            perform holdfast.drop_idle_shares(rule.rule_id, null, batch_max);
            delete from holdfast.share_rules
             where rule_id = rule.rule_id
               and not exists (select from holdfast.shares where shares.rule_id = rule.rule_id);
        end if;
    end loop;
    return num_all;
end $$;

-- Forgets shares of a rule without a task in line: all of them, or those that are idle since then. Who adds a task to
-- one at this moment holds it.
create or replace function holdfast.drop_idle_shares(rule bigint, before timestamptz, batch_max int) returns int
    language plpgsql as $$
declare
    held bigint[];
    num_gone int;
begin
    held := array(select share_id from holdfast.shares
                   where rule_id = rule and (before is null or idle_at < before)
                   order by share_id limit batch_max for update skip locked);
    delete from holdfast.shares
     where share_id = any (held)
       and not exists (select from holdfast.gated where gated.share_id = shares.share_id);
    get diagnostics num_gone = row_count;
    return num_gone;
end $$;

-- Ages what stands in shares: a task that has waited a step longer moves on to the line of its share that is one step
-- more urgent, while its bound allows. Of each line the first ones alone: who comes behind them waits for them anyway.
create or replace function holdfast.age_shares(heads_max int) returns int
    language plpgsql as $$
#variable_conflict use_column
declare
    rule record;
    num_aged int;
    num_all int := 0;
begin
    for rule in
        select rules.rule_id, rules.age_step, rules.age_max from holdfast.share_rules as rules
         where rules.age_step is not null and rules.ended_at is null
         order by rules.rule_id
           for no key update of rules skip locked
    loop
        with aged as materialized (
            select line.row_id, shares.urgency, shares.value
              from holdfast.shares
             cross join lateral (
                   select gated.ctid as row_id, gated.eligible_at, gated.job_id from holdfast.gated
                    where gated.share_id = shares.share_id
                      and gated.eligible_at <= holdfast.now() - rule.age_step
                    order by gated.urgency, gated.eligible_at, gated.job_id, gated.task_index
                    limit heads_max
                      for update skip locked) as line
              join holdfast.jobs using (job_id)
             cross join lateral (select -jobs.priority - shares.urgency as gained) as so_far
             where shares.rule_id = rule.rule_id and shares.idle_at is null and gained < rule.age_max
               and line.eligible_at <= holdfast.now() - (gained + 1) * rule.age_step
        ),
        turns as materialized (
            select urgency, value, holdfast.find_share(rule.rule_id, urgency - 1, value) as share_id
              from (select distinct urgency, value from aged order by urgency, value) as known
        )
        update holdfast.gated set share_id = turns.share_id, urgency = turns.urgency - 1
          from aged join turns using (urgency, value)
         where gated.ctid = aged.row_id;
        get diagnostics num_aged = row_count;
        num_all := num_all + num_aged;
    end loop;
    return num_all;
end $$;
