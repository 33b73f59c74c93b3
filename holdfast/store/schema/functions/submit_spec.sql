-- Submitting by SQL: what is stored of a spec, as rules/submission.py and rules/policy_fill.py make it.

-- Every hole filled, in the order of the fields of JobSpec; concat_ws leaves out what is null.
create or replace function holdfast.complete_spec(spec jsonb, fan_out boolean, limits holdfast.limits) returns text
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
    lease constant text := least(limits.lease_seconds_max, greatest(
        limits.lease_seconds_min, case when placed then 60 else 30 end));
begin
    return '{' || concat_ws(',',
        '"entrypoint":{' || concat_ws(',',
            '"command":' || holdfast.compact(nullif(entrypoint -> 'command', 'null')),
            '"shell":' || to_json(entrypoint ->> 'shell'),
            '"function":' || to_json(entrypoint ->> 'function'),
            '"args":' || nullif(holdfast.compact(entrypoint -> 'args'), '[]'),
            '"kwargs":' || nullif(holdfast.compact(entrypoint -> 'kwargs'), '{}'),
            '"pickle":' || to_json(entrypoint ->> 'pickle')) || '}',
        '"name":' || to_json(name),
        '"type":' || to_json(coalesce(spec ->> 'type', name)),
        '"owner":' || to_json(coalesce(spec ->> 'owner', 'anonymous')),
        '"replicas":' || case when not fan_out then coalesce(spec ->> 'replicas', '1') end,
        '"queue":' || to_json(spec ->> 'queue'),
        '"environment":' || nullif(holdfast.compact(spec -> 'environment'), '{}'),
        '"labels":' || nullif(holdfast.compact(spec -> 'labels'), '{}'),
        '"max_retries_failure":'
            || coalesce((spec ->> 'max_retries_failure')::int, (spec ->> 'max_attempts')::int - 1, 0),
        '"max_retries_preemption":'
            || coalesce(spec ->> 'max_retries_preemption', case when placed then '100' else '5' end),
        '"backoff":{' || case when spec ->> 'backoff' is not null then concat_ws(',',
            '"base":' || holdfast.float_text(coalesce((spec #>> '{backoff,base}')::numeric, 0.5)),
            '"factor":' || holdfast.float_text(coalesce((spec #>> '{backoff,factor}')::numeric, 2)),
            '"ceiling":' || holdfast.float_text(coalesce((spec #>> '{backoff,ceiling}')::numeric, 60))) end || '}',
        '"max_task_failures":' || coalesce(spec ->> 'max_task_failures', case when not fan_out then '0' end),
        '"on_exhausted":'
            || to_json(coalesce(spec ->> 'on_exhausted', case when placed then 'fail' else 'dead_letter' end)),
        '"scheduling_timeout":' || holdfast.float_text((spec ->> 'scheduling_timeout')::numeric),
        '"timeout":' || holdfast.float_text((spec ->> 'timeout')::numeric),
        '"on_timeout":' || to_json(coalesce(spec ->> 'on_timeout', case when placed then 'kill' else 'fail' end)),
        '"lease":' || holdfast.float_text(coalesce(spec ->> 'lease', lease)::numeric),
        '"grace":' || holdfast.float_text(coalesce((spec ->> 'grace')::numeric, 30)),
        '"not_before":' || holdfast.float_text((spec ->> 'not_before')::numeric),
        '"priority":' || nullif((spec ->> 'priority')::int, 0),
        '"idempotency_key":' || to_json(spec ->> 'idempotency_key'),
        '"correlation_id":' || to_json(spec ->> 'correlation_id'),
        '"trace_id":' || to_json(spec ->> 'trace_id'),
        '"verbose_events":' || (spec ->> 'verbose_events')) || '}';
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
        given := own -> field.name;
        if field.name = 'max_retries_failure' and own ? 'max_attempts' then
            given := plain -> field.name;
        end if;
        if given is not null then
            perform holdfast.refuse_beyond(
                case when field.name = 'max_retries_failure' and own ? 'max_attempts' then 'max_attempts'
                     else field.name end, given, plain ->> 'type', field.lowest, field.highest);
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
