-- Unique jobs: what is checked of a spec, as rules/submitting/unique.py does it; and keys, for both roads, by
-- constraint.

create or replace function holdfast.check_unique_shape(rule jsonb) returns void language plpgsql as $$
begin
    if rule is null then
        return;
    end if;
    perform holdfast.check_fields('unique.', rule, '{
        "arguments": "array?", "values": "array?", "owner": "boolean", "period": "number?", "states": "array?",
        "on_conflict": "string", "keep_start": "boolean"}');
    perform holdfast.refuse_field(format('unique.arguments[%s]', position - 1), 'is not a string; give one')
       from jsonb_array_elements(nullif(rule -> 'arguments', 'null')) with ordinality as listed(path, position)
      where jsonb_typeof(path) <> 'string';
    perform holdfast.refuse_field(format('unique.states[%s]', position - 1), 'is no state of a job; use a small name')
       from jsonb_array_elements(nullif(rule -> 'states', 'null')) with ordinality as listed(state, position)
      where state not in ('"pending"', '"running"', '"succeeded"', '"failed"', '"killed"', '"worker_failed"',
                          '"unschedulable"', '"dead_lettered"');
    perform holdfast.refuse_field('unique.on_conflict', 'is unknown; use first, replace or refuse')
      where rule ->> 'on_conflict' not in ('first', 'replace', 'refuse');
end $$;

create or replace function holdfast.check_unique(
    spec jsonb, inputs jsonb, num_tasks int, limits holdfast.limits) returns void
    language plpgsql as $$
declare
    rule constant jsonb := jsonb_strip_nulls(spec -> 'unique');
    step constant text := '[^\x01-\x20+.\[\]\x7f-][^.\[\]]*';
    -- What is empty is not stored.
    called constant jsonb := jsonb_build_object(
        'args', nullif(spec #> '{entrypoint,args}', '[]'), 'kwargs', nullif(spec #> '{entrypoint,kwargs}', '{}'),
        'inputs', inputs);
begin
    if rule is null or rule = 'null' then
        return;
    end if;
    perform holdfast.refuse_field('unique', format(
                'goes with jobs of at most %s tasks; split the job, or leave it out', limits.batch_tasks_max))
      where num_tasks > limits.batch_tasks_max;
    perform holdfast.refuse_field('unique.values', 'goes without arguments; give one of the two')
      where rule ?& '{arguments,values}';
    perform holdfast.refuse_field('unique.arguments', 'names more than 100 arguments; name fewer')
      where jsonb_array_length(rule -> 'arguments') > 100;
    perform case when path !~ format('^(?:args|kwargs|inputs)(?:\.%s|\[[0-9]+\])*$', step)
                 then holdfast.refuse_field(format('unique.arguments[%s]', position - 1), format(
                          '%L is no way to an argument; write it like args[0], kwargs.user.id or inputs[0]', path))
                 when called #> holdfast.steps_of(path) is null
                      or called -> (holdfast.steps_of(path))[1] = 'null'
                 then holdfast.refuse_field(format('unique.arguments[%s]', position - 1), format(
                          'the job has no %L; name what it is called with, or give values', path)) end
       from jsonb_array_elements_text(rule -> 'arguments') with ordinality as listed(path, position);
    perform holdfast.refuse_field('unique.period', 'is out of range; use 1 to 31622400')
      where (rule ->> 'period')::numeric not between 1 and 366 * 86400;
    perform holdfast.refuse_field('unique.states', 'lacks pending, in which every job begins; add it')
      where not rule -> 'states' ? 'pending';
    perform holdfast.refuse_field('unique.states', 'lacks running, which comes before an end; add it')
      where not rule -> 'states' ? 'running' and (rule -> 'states') - 'pending' <> '[]';
    perform holdfast.refuse_field('unique.states',
                'goes beyond pending; only what waits can be replaced, so leave it out or give ["pending"]')
      where rule ->> 'on_conflict' = 'replace' and (rule -> 'states') - 'pending' <> '[]';
    perform holdfast.refuse_field('unique.keep_start', 'goes with on_conflict replace only')
      where rule -> 'keep_start' = 'true' and rule ->> 'on_conflict' is distinct from 'replace';
    perform holdfast.check_value('unique.values', rule -> 'values');
end $$;

create or replace function holdfast.steps_of(path text) returns text[] language sql immutable as $$
    select array(select found[1] from regexp_matches(path, '[^.\[\]]+', 'g') as found)
$$;

-- What is stored of a rule: without what is so by default, and with the states filled in.
create or replace function holdfast.complete_unique(rule jsonb) returns jsonb language sql immutable as $$
    select jsonb_build_object('states', case
               when rule ->> 'on_conflict' = 'replace' then '["pending"]'::jsonb
               when rule ->> 'period' is not null then '["pending", "running", "succeeded"]'
               else '["pending", "running"]' end)
           || coalesce(jsonb_object_agg(key, value) filter (
                  where value <> 'null' and (key, value) not in (
                      ('owner', 'false'), ('keep_start', 'false'), ('on_conflict', '"first"'))), '{}')
      from jsonb_each(rule)
$$;

-- What two jobs that are alike have in common.
create or replace function holdfast.unique_digest(spec jsonb, inputs jsonb, at timestamptz) returns bytea
    language sql stable as $$
    select sha256(convert_to(jsonb_build_array(
               spec -> 'type', spec -> 'queue',
               case when rule -> 'owner' = 'true' then spec -> 'owner' end,
               coalesce(
                   rule -> 'values',
                   case when rule ? 'arguments' then (
                       select coalesce(jsonb_agg(called #> holdfast.steps_of(path) order by position), '[]')
                         from jsonb_array_elements_text(rule -> 'arguments') with ordinality as listed(path, position))
                   end,
                   jsonb_build_object('entrypoint', spec -> 'entrypoint', 'inputs', inputs)),
               -- As a float: 60 and 60.0 are one period.
               (rule ->> 'period')::float8,
               floor(extract(epoch from at)::float8 / (rule ->> 'period')::float8))::text, 'utf8'))
      from (select spec -> 'unique' as rule,
                   jsonb_build_object('args', spec #> '{entrypoint,args}', 'kwargs', spec #> '{entrypoint,kwargs}',
                                      'inputs', inputs) as called) as given
$$;

-- The states of a rule, a bit for each.
create or replace function holdfast.unique_states(rule jsonb) returns int language sql immutable as $$
    select bit_or(1 << number)
      from (values ('pending', {PENDING}), ('running', {RUNNING}), ('succeeded', {SUCCEEDED}), ('failed', {FAILED}),
                   ('killed', {KILLED}), ('worker_failed', {WORKER_FAILED}), ('unschedulable', {UNSCHEDULABLE}),
                   ('dead_lettered', {DEAD_LETTERED})) as known(name, number)
     where rule -> 'states' ? name
$$;

-- Takes the keys of new jobs, before they are stored. Who finds another job at its key is answered with it, refused,
-- or puts it out of the way: as its rule says. `answers` has for each job null, if it has its key and is to be stored;
-- else 'first', 'refused' or 'started', and the job that has the key in `holders`. `starts` says when a job starts
-- that keeps the start of the one it has replaced.
-- A key is not looked at first: it is inserted. Whoever releases it has locked the row of its job before that.
create or replace function holdfast.take_unique_keys(
    job_ids bigint[], specs jsonb[], inputs jsonb[], actors text[], at timestamptz,
    out answers text[], out holders bigint[], out starts timestamptz[], out has_follow_ups boolean)
    language plpgsql as $$
declare
    wanted record;
    holder bigint;
    replaced record;
begin
    answers := array_fill(null::text, array[cardinality(job_ids)]);
    holders := array_fill(null::bigint, array[cardinality(job_ids)]);
    starts := array_fill(null::timestamptz, array[cardinality(job_ids)]);
    has_follow_ups := false;
    for wanted in
        select new.position, new.job_id, new.actor,
               coalesce(new.spec #>> '{unique,on_conflict}', 'first') as on_conflict,
               coalesce(new.spec #> '{unique,keep_start}', 'false') = 'true' as keeps_start,
               holdfast.unique_digest(new.spec, new.input, at) as digest
          from unnest(job_ids, specs, take_unique_keys.inputs, actors)
               with ordinality as new(job_id, spec, input, actor, position)
         order by digest, position
    loop
        for tries in 1..1000 loop
            if tries = 1000 then
                raise exception using errcode = 'lock_not_available', message = 'a unique key keeps changing hands';
            end if;
            insert into holdfast.unique_jobs (digest, job_id) values (wanted.digest, wanted.job_id)
                on conflict (digest) do nothing;
            exit when found;
            select unique_jobs.job_id into holder from holdfast.unique_jobs where digest = wanted.digest;
            continue when not found;
            if wanted.on_conflict <> 'replace' then
                answers[wanted.position] := case wanted.on_conflict when 'refuse' then 'refused' else 'first' end;
                holders[wanted.position] := holder;
                exit;
            end if;
            if holder = any (job_ids) then
                -- Of those that come together, the last is stored; the others are answered with it.
                update holdfast.unique_jobs set job_id = wanted.job_id where digest = wanted.digest;
                holders := array_replace(holders, holder, wanted.job_id);
                answers[array_position(job_ids, holder)] := 'first';
                holders[array_position(job_ids, holder)] := wanted.job_id;
                starts[wanted.position] := case when wanted.keeps_start
                                                then starts[array_position(job_ids, holder)] end;
                exit;
            end if;
            select jobs.state, jobs.spec, jobs.submitted_at, jobs.unmet
              into replaced
              from holdfast.jobs where jobs.job_id = holder for update;
            -- Under its lock nobody else lets go of the key, or takes it over.
            continue when not exists (
                select from holdfast.unique_jobs where digest = wanted.digest and unique_jobs.job_id = holder);
            if replaced.state <> {PENDING} then
                answers[wanted.position] := 'started';
                holders[wanted.position] := holder;
                exit;
            end if;
            if wanted.keeps_start and replaced.unmet = 0 then
                starts[wanted.position] := coalesce(
                    to_timestamp((replaced.spec ->> 'not_before')::float8),
                    replaced.submitted_at
                    + coalesce((replaced.spec ->> 'start_delay')::float8, 0) * interval '1 second');
            end if;
            perform holdfast.cancel_replaced_job(holder, wanted.job_id, wanted.actor, at);
            has_follow_ups := true;
        end loop;
    end loop;
end $$;

-- A job that waits gives way to another one: it is cancelled, and so lets go of its key.
create or replace function holdfast.cancel_replaced_job(replaced_job bigint, by_job bigint, actor text, at timestamptz)
    returns void language plpgsql as $$
begin
    update holdfast.jobs
       set cancel_mode = 'hard', cancel_reason = coalesce(cancel_reason, format('replaced by job %s', by_job)),
           seq = seq + 1, event_type = 'cancel_requested', event_at = greatest(at, event_at), event_actor = actor,
           event_cause = format('replaced by job %s', by_job), event_payload = '{"mode": "hard"}'
     where job_id = replaced_job;
    insert into holdfast.outbox (kind, job_id, next_index, created_at) values ('sweep', replaced_job, 0, at);
end $$;

-- For one job, that comes by SQL: who holds its key, if it does not, and when it starts, if it keeps a start. What is
-- refused has the code of a unique violation.
create or replace function holdfast.take_unique_key(id bigint, spec jsonb, inputs jsonb, at timestamptz,
                                                    out holder bigint, out start_at timestamptz)
    language plpgsql as $$
declare
    answer text;
begin
    select answers[1], holders[1], starts[1] into answer, holder, start_at
      from holdfast.take_unique_keys(array[id], array[spec], array[inputs], array[spec ->> 'owner'], at);
    if answer in ('refused', 'started') then
        raise exception using
            errcode = 'unique_violation', column = 'unique',
            message = case answer
                when 'refused'
                then format('unique: job %s is alike; wait for it or cancel it, or use another on_conflict', holder)
                else format('unique: job %s, which is alike, has started; try again when it has ended', holder) end;
    end if;
end $$;
