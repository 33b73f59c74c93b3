-- Policies per type of job: defaults that the server fills in, and limits that a job's own spec is held to.

create table holdfast.policies (
    type text collate "C" primary key,
    policy jsonb not null,
    version bigint not null,
    updated_at timestamptz not null,
    updated_by text not null
);

-- Every change there ever was, whole: the number is the same that the clock below shows then.
create table holdfast.policy_changes (
    version bigint primary key,
    type text collate "C" not null,
    before jsonb,
    after jsonb,
    actor text not null,
    changed_at timestamptz not null,
    constraint a_change_of_a_policy_changes_it check (before is distinct from after)
);
create index policy_changes_of_a_type on holdfast.policy_changes (type, version);
create trigger a_change_of_a_policy_stays_as_it_was before update or delete on holdfast.policy_changes
    for each row execute function holdfast.refuse();

-- Counts the changes, one after another; every submission looks here whether the policies it knows still hold.
create table holdfast.policy_clock (
    one boolean primary key default true,
    version bigint not null default 0,
    constraint there_is_one_policy_clock check (one)
);
insert into holdfast.policy_clock default values;

-- Jobs with verbose events have many notes; one reads those of a kind.
create index notes_of_a_kind on holdfast.notes (job_id, kind, ts, id);

-- Submitting by SQL, as rules/policy_fill.py has it --------------------------------------------------

-- What the policy gives where the spec says nothing; `plain` is what the job would be without the policy. What comes
-- from neither is moved into the limits, and what the spec says beyond them is refused.
create function holdfast.follow_policy(spec jsonb, plain jsonb, num_tasks int, policy jsonb) returns jsonb
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

create function holdfast.refuse_beyond(field text, given jsonb, type text, lowest jsonb, highest jsonb) returns void
    language plpgsql as $$
begin
    perform holdfast.refuse_field(field, format(
                '%s is beyond what type %s allows; use at most %s', given, type, highest))
      where given > highest;
    perform holdfast.refuse_field(field, format(
                '%s is beyond what type %s allows; use at least %s', given, type, lowest))
      where given < lowest;
end $$;

-- From here on: functions of 0004 that now know policies, verbose_events and what else SQL does not take.

create or replace function holdfast.check_shape(spec jsonb) returns void language plpgsql as $$
begin
    perform holdfast.refuse_field(field, 'is not taken by SQL; submit the job through the server')
       from unnest('{resources,constraints,coscheduling,bundle,requirements,depends_on,
                      compensation,outputs}'::text[]) as field where spec ? field;
    perform holdfast.refuse_field('entrypoint.results', 'is not taken by SQL; submit the job through the server')
      where jsonb_typeof(spec -> 'entrypoint') = 'object' and spec -> 'entrypoint' ? 'results';
    perform holdfast.check_fields('', spec, '{
        "entrypoint": "object", "name": "string?", "type": "string?", "owner": "string?", "replicas": "integer?",
        "queue": "string?", "environment": "object", "labels": "object", "max_attempts": "integer?",
        "max_retries_failure": "integer?", "max_retries_preemption": "integer?", "backoff": "object?",
        "max_task_failures": "integer?", "on_exhausted": "string?", "scheduling_timeout": "number?",
        "timeout": "number?", "on_timeout": "string?", "lease": "number?", "grace": "number?",
        "not_before": "number?", "priority": "integer?", "idempotency_key": "string?",
        "correlation_id": "string?", "trace_id": "string?", "verbose_events": "boolean?"}');
    perform holdfast.check_fields('entrypoint.', spec -> 'entrypoint', '{
        "command": "array?", "shell": "string?", "function": "string?", "args": "array", "kwargs": "object",
        "pickle": "string?"}');
    perform holdfast.check_fields('backoff.', coalesce(nullif(spec -> 'backoff', 'null'), '{}'), '{
        "base": "number", "factor": "number", "ceiling": "number"}');
    perform holdfast.refuse_field(format('entrypoint.command[%s]', place - 1), 'is not a string; give one')
       from jsonb_array_elements(nullif(spec #> '{entrypoint,command}', 'null')) with ordinality as words(word, place)
      where jsonb_typeof(word) <> 'string';
    perform holdfast.refuse_field(field, 'holds something else than strings; write each value as a string')
       from unnest(array['labels', 'environment']) as field, jsonb_each(spec -> field)
      where jsonb_typeof(value) <> 'string';
    perform holdfast.refuse_field(field, format('is unknown; use %s or %s', one, other))
       from (values ('on_exhausted', 'fail', 'dead_letter'), ('on_timeout', 'kill', 'fail')) as known(field, one, other)
      where spec ->> field not in (one, other);
end $$;

create or replace function holdfast.check_texts(spec jsonb, limits holdfast.limits) returns void language plpgsql as $$
declare
    field text;
begin
    foreach field in array array['name', 'type', 'owner', 'queue', 'idempotency_key', 'correlation_id',
                                 'trace_id'] loop
        perform holdfast.refuse_field(field, 'is empty; leave it out or give it a value') where spec ->> field = '';
        perform holdfast.check_size(field, length(spec ->> field), limits.text_length_max, 'characters');
    end loop;
    perform holdfast.refuse_field('idempotency_key',
                'begins with holdfast:, which is kept for jobs that the server submits; use another')
      where spec ->> 'idempotency_key' like 'holdfast:%';
    perform holdfast.refuse_field('queue', format(
                '%L is not a queue name; use letters, digits and ._:/-', spec ->> 'queue'))
      where spec ->> 'queue' !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]*$';
    foreach field in array array['labels', 'environment'] loop
        perform case when key = '' then holdfast.refuse_field(field, 'has an empty name; give it one') end,
                holdfast.check_size(field, length(key), limits.text_length_max, 'characters'),
                holdfast.check_size(field || '.' || key, length(value), limits.error_length_max, 'characters')
           from jsonb_each_text(spec -> field);
    end loop;
end $$;

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

create or replace function holdfast.submit(spec jsonb, inputs jsonb default null) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on set extra_float_digits = 1 as $$
declare
    limits holdfast.limits;
    texts text[];
    plain text;
    whole text;
    rules jsonb;
    complete jsonb;
    digest bytea;
    clock timestamptz;
    eligible timestamptz;
    id bigint;
begin
    select * into strict limits from holdfast.limits;
    perform holdfast.check_shape(spec);
    perform holdfast.check_entrypoint(spec -> 'entrypoint');
    perform holdfast.check_texts(spec, limits);
    perform holdfast.check_numbers(spec, limits);
    texts := holdfast.check_inputs(spec, inputs, limits);
    -- A repeat is known by what the job would be without a policy, whatever that was the first time.
    plain := holdfast.complete_spec(spec, inputs is not null, limits);
    whole := plain;
    select policy into rules from holdfast.policies where type = plain::jsonb ->> 'type';
    if found then
        spec := holdfast.follow_policy(spec, plain::jsonb, cardinality(texts), rules);
        whole := holdfast.complete_spec(spec, inputs is not null, limits);
    end if;
    perform holdfast.check_size('spec', octet_length(whole), limits.spec_bytes_max, 'bytes');
    complete := whole::jsonb;
    select sha256(convert_to(plain, 'UTF8')
                  || coalesce(string_agg('\x00' || convert_to(input, 'UTF8'), '' order by place), ''))
      into digest from unnest(texts) with ordinality as each(input, place);

    id := nextval('holdfast.job_ids');
    if id >= (select max(end_job_id) from holdfast.partitions) then
        perform holdfast.ensure_partition(id);
    end if;
    clock := holdfast.now();
    insert into holdfast.jobs (
        job_id, name, type, owner, queue, priority, spec, labels, correlation_id, trace_id, idempotency_key,
        spec_digest, created_at, submitted_at, fan_out, max_task_failures, num_tasks, pending, seq, event_type,
        event_at, event_actor)
    values (
        id, complete ->> 'name', complete ->> 'type', complete ->> 'owner', complete ->> 'queue',
        coalesce((complete ->> 'priority')::int, 0), complete, coalesce(complete -> 'labels', '{}'),
        coalesce(complete ->> 'correlation_id', gen_random_uuid()::text), complete ->> 'trace_id',
        complete ->> 'idempotency_key', digest, clock, clock, inputs is not null,
        (complete ->> 'max_task_failures')::int, cardinality(texts), cardinality(texts), 1, 'submitted', clock,
        complete ->> 'owner')
    on conflict (owner, idempotency_key) where idempotency_key is not null do nothing;
    if not found then
        return holdfast.answer_repeat(complete, inputs, digest);
    end if;
    eligible := greatest(clock, to_timestamp(0) + holdfast.as_interval((complete ->> 'not_before')::float8));
    insert into holdfast.tasks (job_id, task_index, placed, eligible_at, submitted_at, moved_at, input)
    select id, place - 1, complete ->> 'queue' is null, eligible, clock, clock, input::json
      from unnest(texts) with ordinality as each(input, place);
    if eligible > clock then
        insert into holdfast.waiting (job_id, task_index, eligible_at)
        select id, task_index, eligible from generate_series(0, cardinality(texts) - 1) as task_index;
    else
        insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at)
        select coalesce(complete ->> 'queue', ''), -coalesce((complete ->> 'priority')::int, 0), eligible, id,
               task_index, eligible + holdfast.as_interval((complete ->> 'scheduling_timeout')::float8)
          from generate_series(0, cardinality(texts) - 1) as task_index;
        perform pg_notify('holdfast_ready', complete ->> 'queue') where complete ? 'queue';
    end if;
    return id;
end $$;
