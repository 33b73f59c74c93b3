-- Submitting by SQL: what is stored of a spec, as rules/submitting/submission.py and rules/policies/fill.py make it.

create or replace function holdfast.first_word(line text) returns text language sql immutable as $$
    select substring(line from '[^\x09-\x0d\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+')
$$;

-- Every hole filled; what is null, and what is empty by default, is left out.
create or replace function holdfast.complete_spec(spec jsonb, fan_out boolean, limits holdfast.limits) returns jsonb
    language plpgsql as $$
declare
    entrypoint constant jsonb := spec -> 'entrypoint';
    placed constant boolean := spec ->> 'queue' is null;
    name constant text := coalesce(spec ->> 'name', left(case
        when entrypoint ->> 'function' is not null then split_part(entrypoint ->> 'function', ':', 2)
        when entrypoint ->> 'shell' is not null then holdfast.first_word(entrypoint ->> 'shell')
        when entrypoint ->> 'pickle' is not null then 'pickle'
        else coalesce(nullif(regexp_replace(rtrim(entrypoint #>> '{command,0}', '/'), '^.*/', ''), ''), 'command')
        end, limits.text_length_max));
    defaults constant jsonb := jsonb_build_object(
        'name', name,
        'type', name,
        'owner', 'anonymous',
        'max_retries_failure', coalesce((spec ->> 'max_attempts')::int - 1, 0),
        'max_retries_preemption', case when placed then 100 else 5 end,
        'on_exhausted', case when placed then 'fail' else 'dead_letter' end,
        'on_timeout', case when placed then 'kill' else 'fail' end,
        'lease', least(limits.lease_seconds_max, greatest(
            limits.lease_seconds_min, case when placed then 60 else 30 end)),
        'grace', 30)
        || case when fan_out then '{}' else '{"replicas": 1, "max_task_failures": 0}'::jsonb end;
    own constant jsonb := (
        select jsonb_object_agg(key, case key
                   when 'entrypoint' then (select jsonb_object_agg(part.key, part.value) from jsonb_each(value) as part
                                            where part.value not in ('null', '[]', '{}'))
                   when 'unique' then holdfast.complete_unique(value)
                   when 'concurrency_key' then case jsonb_typeof(value) when 'object' then '{"input": ""}' || value
                                                    else value end
                   when 'backoff' then '{"base": 0.5, "factor": 2, "ceiling": 60}' || value
                   else value end)
          from jsonb_each(spec)
         where value <> 'null' and key <> 'max_attempts'
           and (key, value) not in (('environment', '{}'), ('labels', '{}'), ('priority', '0'),
                                  ('concurrency_key', '{"input": null}')));
begin
    return defaults || own;
end $$;

-- What workers have announced of its function, where the spec says nothing, as rules/submitting/announced.py adds it.
create or replace function holdfast.add_announced(spec jsonb, fan_out boolean) returns jsonb
    language plpgsql as $$
declare
    own constant jsonb := (
        select jsonb_object_agg(key, value) from jsonb_each(spec)
         where value <> 'null' and key <> 'placed'
           and (key, value) not in (('environment', '{}'), ('labels', '{}')));
    announced jsonb;
begin
    select options into announced from holdfast.functions where path = spec #>> '{entrypoint,function}';
    if not found
       or (announced -> 'only_in_queue' = 'true' and own ->> 'queue' is distinct from announced ->> 'queue') then
        return spec - 'placed';
    end if;
    announced := announced - 'only_in_queue';
    if spec -> 'placed' = 'true' then
        announced := announced - 'queue';
    end if;
    if own ? 'queue' and not announced ? 'queue' then
        announced := announced - '{resources,constraints,coscheduling,bundle,requirements}'::text[];
    end if;
    if own ? 'max_attempts' then
        announced := announced - 'max_retries_failure';
    end if;
    if own ? 'expires_at' then
        announced := announced - 'expires';
    end if;
    if fan_out then
        announced := announced - 'replicas';
    end if;
    if own ? 'idempotency_key' then
        announced := announced - 'owner';
    end if;
    return announced || own;
end $$;

create or replace function holdfast.refuse_beyond(field text, given jsonb, type text, lowest jsonb, highest jsonb)
    returns void language plpgsql as $$
begin
    perform holdfast.refuse_field(field, format(
                '%s is beyond what type %s allows; use at most %s', given, type, highest))
      where given > highest;
    perform holdfast.refuse_field(field, format(
                '%s is beyond what type %s allows; use at least %s', given, type, lowest))
      where given < lowest;
end $$;

-- What the policy gives where the spec says nothing; `plain` is what the job would be without the policy. What comes
-- from neither is moved into the limits, and what the spec says beyond them is refused.
create or replace function holdfast.follow_policy(spec jsonb, plain jsonb, num_tasks int, policy jsonb) returns jsonb
    language plpgsql as $$
declare
    defaults constant jsonb := coalesce(policy -> 'defaults', '{}');
    limits constant jsonb := coalesce(policy -> 'limits', '{}');
    own constant jsonb := jsonb_strip_nulls(spec);
    field record;
    given jsonb;
    filled jsonb := spec;
begin
    for field in
        select * from (values ('lease', limits -> 'lease_min', limits -> 'lease_max'),
                              ('max_retries_failure', null, limits -> 'max_retries_failure'),
                              ('max_retries_preemption', null, limits -> 'max_retries_preemption'),
                              ('timeout', null, limits -> 'timeout'),
                              ('grace', null, limits -> 'grace'),
                              ('priority', null, limits -> 'priority')) as ranges(name, lowest, highest)
    loop
        if field.name = 'max_retries_failure' and own ? 'max_attempts' then
            perform holdfast.refuse_beyond('max_attempts', own -> 'max_attempts', plain ->> 'type', null,
                                           to_jsonb((field.highest)::int + 1));
            continue;
        end if;
        given := own -> field.name;
        if given is not null then
            perform holdfast.refuse_beyond(field.name, given, plain ->> 'type', field.lowest, field.highest);
            continue;
        end if;
        given := coalesce(defaults -> field.name, plain -> field.name,
                          case field.name when 'priority' then jsonb '0' end);
        if given is null or given > field.highest then
            given := coalesce(field.highest, given);
        elsif given < field.lowest then
            given := field.lowest;
        end if;
        if given is not null then
            filled := filled || jsonb_build_object(field.name, given);
        end if;
    end loop;
    if own ? 'backoff' then
        perform holdfast.refuse_beyond('backoff.ceiling', coalesce(own #> '{backoff,ceiling}', '60'),
                                       plain ->> 'type', null, limits -> 'backoff_ceiling');
    elsif defaults ? 'backoff' or coalesce(limits ->> 'backoff_ceiling', '60')::numeric < 60 then
        filled := filled || jsonb_build_object('backoff', coalesce(
            defaults -> 'backoff',
            jsonb_build_object('base', least(0.5, (limits ->> 'backoff_ceiling')::numeric),
                               'ceiling', limits -> 'backoff_ceiling')));
    end if;
    for field in select name from unnest(array['on_exhausted', 'on_timeout', 'verbose_events']) as name loop
        if own ? field.name then
            perform holdfast.refuse_field(field.name, format(
                        'type %s allows %s only', plain ->> 'type', limits ->> field.name))
              where own -> field.name <> limits -> field.name;
        elsif coalesce(limits -> field.name, defaults -> field.name) is not null then
            filled := filled || jsonb_build_object(
                field.name, coalesce(limits -> field.name, defaults -> field.name));
        end if;
    end loop;
    perform holdfast.refuse_beyond(case when own ? 'replicas' then 'replicas' else 'inputs' end, to_jsonb(num_tasks),
                                   plain ->> 'type', null, limits -> 'tasks');
    return filled;
end $$;
