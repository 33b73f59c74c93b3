-- Submitting by SQL: a job is born inside the caller's own transaction, and is gone if that is rolled back.
--
-- What is checked and filled in is what rules/submission.py checks and fills in, in its order; what is stored is
-- what operations/submit.py stores. tests/store compares the two, one submission after the other.

-- The columns are named as in the Limits of model/spec.py: who changes the one changes the other. A table, since
-- a role that may only submit could change a setting of its session.
create table holdfast.limits (
    one boolean primary key default true,
    input_bytes_max int not null default 1048576,
    spec_bytes_max int not null default 1048576,
    text_length_max int not null default 256,
    error_length_max int not null default 65536,
    tasks_max int not null default 10000000,
    batch_tasks_max int not null default 10000,
    lease_seconds_min float8 not null default 30,
    lease_seconds_max float8 not null default 120,
    retries_max int not null default 10000,
    constraint there_is_one_row_of_limits check (one),
    constraint the_shortest_lease_is_not_longer_than_the_longest check (
        lease_seconds_min > 0 and lease_seconds_min <= lease_seconds_max and lease_seconds_max < 'infinity'),
    constraint limits_leave_room_for_something check (
        least(input_bytes_max, spec_bytes_max, text_length_max, error_length_max, tasks_max, batch_tasks_max) > 0)
);
insert into holdfast.limits default values;

create function holdfast.refuse_field(field text, problem text) returns void language plpgsql as $$
begin
    raise exception using
        errcode = 'invalid_parameter_value', column = field, message = format('%s: %s', field, problem);
end $$;

create function holdfast.check_size(field text, size bigint, size_max bigint, unit text) returns void
    language plpgsql as $$
begin
    if size > size_max then
        perform holdfast.refuse_field(field, format(
            '%s %s is over the limit of %s %s', size, unit, size_max, unit));
    end if;
end $$;

-- A decoder has to read what is stored: one number beyond a float would stop every worker that meets it.
create function holdfast.check_value(field text, value jsonb) returns void language plpgsql as $$
begin
    perform holdfast.refuse_field(field, 'is nested more than 100 levels deep; flatten it')
      where jsonb_path_exists(value, 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")');
    perform holdfast.refuse_field(field, 'holds a number beyond 1.7976931348623157e308; send it as a string')
      where jsonb_path_exists(value, 'strict $.** ? (@.type() == "number" && (@ > 1.7976931348623157e308
                                                                           || @ < -1.7976931348623157e308))');
end $$;

-- How the server writes values, to the byte: the digest is made of it ---------------------------------

create function holdfast.compact(value jsonb) returns text language sql immutable as $$
    select regexp_replace(value::text, '("(?:[^"\\]|\\.)*")|\s', '\1', 'g')
$$;

-- The float that a decoder makes of a number; a cast fails where a decoder says nought or infinity.
create function holdfast.as_float(value numeric) returns float8 language sql immutable as $$
    select case when abs(value) > 1e300 then sign(value)::float8 * float8 'infinity'
                when abs(value) < 2.5e-324 then 0
                else value::float8 end
$$;

-- 45.0 rather than 45, and 1e-6 rather than 1e-06.
create function holdfast.float_text(value numeric) returns text language sql immutable as $$
    select case when short ~ 'e' then replace(short, 'e-0', 'e-')
                when short ~ '\.' then short
                else short || '.0' end
      from (select case when float > 0 and float < 1e-5 then float::text else float::text::numeric::text end
              from holdfast.as_float(value) as float) as written(short)
$$;

create function holdfast.as_interval(seconds float8) returns interval language sql immutable as $$
    select trunc(seconds) * interval '1 second'
           + round((seconds - trunc(seconds)) * 1e6) * interval '1 microsecond'
$$;

create function holdfast.first_word(line text) returns text language sql immutable as $$
    select substring(line from '[^\x09-\x0d\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+')
$$;

-- What a spec may look like -----------------------------------------------------------------------

-- `fields` names the type of each field; a question mark says that it may be null.
create function holdfast.check_fields(path text, value jsonb, fields jsonb) returns void language plpgsql as $$
declare
    whole constant text := coalesce(nullif(rtrim(path, '.'), ''), 'spec');
    given record;
begin
    perform holdfast.refuse_field(whole, 'is not an object; give one')
      where jsonb_typeof(value) is distinct from 'object';
    for given in select case key when '' then whole else path || key end as field,
                        rtrim(fields ->> key, '?') as type, jsonb_typeof(each.value) as found,
                        jsonb_typeof(each.value) = 'null' and fields ->> key like '%?' as left_out,
                        each.value #>> '{}' as text
                   from jsonb_each(value) as each loop
        if given.type is null then
            perform holdfast.refuse_field(given.field, 'is not a known field; remove it or correct its name');
        elsif given.left_out then
            continue;
        elsif given.found <> (case given.type when 'integer' then 'number' else given.type end) then
            perform holdfast.refuse_field(given.field, format(
                'is of type %s; give one of type %s', given.found, given.type));
        elsif given.type = 'integer' and scale(given.text::numeric) > 0 then
            perform holdfast.refuse_field(given.field, 'has a fraction; give a whole number');
        end if;
    end loop;
end $$;

create function holdfast.check_shape(spec jsonb) returns void language plpgsql as $$
begin
    perform holdfast.refuse_field(field, 'is not taken by SQL; submit the job through the server')
       from unnest('{resources,constraints,coscheduling,bundle,requirements}'::text[]) as field where spec ? field;
    perform holdfast.check_fields('', spec, '{
        "entrypoint": "object", "name": "string?", "type": "string?", "owner": "string?", "replicas": "integer?",
        "queue": "string?", "environment": "object", "labels": "object", "max_attempts": "integer?",
        "max_retries_failure": "integer?", "max_retries_preemption": "integer?", "backoff": "object",
        "max_task_failures": "integer?", "on_exhausted": "string?", "scheduling_timeout": "number?",
        "timeout": "number?", "on_timeout": "string?", "lease": "number?", "grace": "number?",
        "not_before": "number?", "priority": "integer", "idempotency_key": "string?",
        "correlation_id": "string?", "trace_id": "string?"}');
    perform holdfast.check_fields('entrypoint.', spec -> 'entrypoint', '{
        "command": "array?", "shell": "string?", "function": "string?", "args": "array", "kwargs": "object",
        "pickle": "string?"}');
    perform holdfast.check_fields('backoff.', coalesce(spec -> 'backoff', '{}'), '{
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

create function holdfast.check_entrypoint(entrypoint jsonb) returns void language plpgsql as $$
declare
    -- Which characters beyond ASCII are letters depends on the database's locale: here they all are.
    letter constant text := '(?:[A-Za-z_]|[^\x01-\x7f])';
    word constant text := letter || '(?:[0-9]|' || letter || ')*';
    dotted constant text := word || '(?:\.' || word || ')*';
begin
    perform holdfast.refuse_field('entrypoint', 'give exactly one of command, shell, function, pickle')
      where num_nonnulls(entrypoint ->> 'command', entrypoint ->> 'shell', entrypoint ->> 'function',
                         entrypoint ->> 'pickle') <> 1;
    perform holdfast.refuse_field('entrypoint.command', 'is empty; give a program and its arguments')
      where entrypoint ->> 'command' is not null and coalesce(entrypoint #>> '{command,0}', '') = '';
    perform holdfast.refuse_field('entrypoint.shell', 'is empty; give a shell line')
      where entrypoint ->> 'shell' is not null and holdfast.first_word(entrypoint ->> 'shell') is null;
    perform holdfast.refuse_field('entrypoint.function', 'is not an import path; write it like package.module:name')
      where entrypoint ->> 'function' !~ ('^' || dotted || ':' || dotted || '$');
    perform holdfast.refuse_field('entrypoint.pickle', 'is empty; give a pickled callable')
      where entrypoint ->> 'pickle' = '';
    perform case when entrypoint ->> 'function' is null
                 then holdfast.refuse_field('entrypoint.' || field, 'goes with function only')
                 else holdfast.check_value('entrypoint.' || field, entrypoint -> field) end
       from unnest(array['args', 'kwargs']) as field
      where entrypoint -> field not in ('[]', '{}');
end $$;

create function holdfast.check_texts(spec jsonb, limits holdfast.limits) returns void language plpgsql as $$
declare
    field text;
begin
    foreach field in array array['name', 'type', 'owner', 'queue', 'idempotency_key', 'correlation_id',
                                 'trace_id'] loop
        perform holdfast.refuse_field(field, 'is empty; leave it out or give it a value') where spec ->> field = '';
        perform holdfast.check_size(field, length(spec ->> field), limits.text_length_max, 'characters');
    end loop;
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

create function holdfast.check_numbers(spec jsonb, limits holdfast.limits) returns void language plpgsql as $$
declare
    year constant float8 := 366 * 86400;
begin
    perform holdfast.refuse_field(field, format('is out of range; use %s to %s', lowest, highest))
       from (values ('max_retries_failure', float8 '0', limits.retries_max::float8),
                    ('max_retries_preemption', 0, limits.retries_max),
                    ('max_attempts', 1, limits.retries_max + 1),
                    ('max_task_failures', 0, limits.tasks_max),
                    ('replicas', 1, limits.tasks_max),
                    ('priority', -1000000, 1000000),
                    ('lease', limits.lease_seconds_min, limits.lease_seconds_max),
                    ('timeout', 0.001, year),
                    ('scheduling_timeout', 0.001, year),
                    ('grace', 0, 86400),
                    ('not_before', 0, 253370764800),
                    ('backoff.base', 0, 86400),
                    ('backoff.factor', 1, 100),
                    ('backoff.ceiling', coalesce(holdfast.as_float((spec #>> '{backoff,base}')::numeric), 0.5), 86400)
            ) as ranges(field, lowest, highest)
      where holdfast.as_float(coalesce((spec #>> string_to_array(field, '.'))::numeric,
                                       case field when 'backoff.ceiling' then 60 end))
            not between lowest and highest;
    perform holdfast.refuse_field('max_attempts', 'means max_retries_failure + 1; give one of the two')
      where num_nonnulls(spec ->> 'max_attempts', spec ->> 'max_retries_failure') = 2;
end $$;

-- Returns the JSON text of each task's input: null for every task of a job without inputs.
create function holdfast.check_inputs(spec jsonb, inputs jsonb, limits holdfast.limits) returns text[]
    language plpgsql as $$
declare
    num_tasks int;
    given record;
    texts text[] := '{}';
begin
    perform holdfast.refuse_field('replicas', 'goes without inputs; give one of the two')
      where inputs is not null and spec ->> 'replicas' is not null;
    perform holdfast.refuse_field('inputs', 'is not an array; give one') where jsonb_typeof(inputs) <> 'array';
    perform holdfast.refuse_field('inputs', 'is empty; give at least one input') where inputs = '[]';
    num_tasks := coalesce(jsonb_array_length(inputs), (spec ->> 'replicas')::int, 1);
    perform holdfast.refuse_field(case when inputs is null then 'replicas' else 'inputs' end, format(
                '%s tasks is over the limit of %s tasks in one transaction; submit them through the server',
                num_tasks, limits.batch_tasks_max))
      where num_tasks > limits.batch_tasks_max;
    if inputs is null then
        return array_fill(null::text, array[num_tasks]);
    end if;
    for given in select format('inputs[%s]', place - 1) as field, value, holdfast.compact(value) as text
                   from jsonb_array_elements(inputs) with ordinality as each(value, place) loop
        perform holdfast.check_size(given.field, octet_length(given.text), limits.input_bytes_max, 'bytes');
        perform holdfast.check_value(given.field, given.value);
        texts := texts || given.text;
    end loop;
    return texts;
end $$;

-- What is stored ----------------------------------------------------------------------------------

-- Every hole filled, in the order of the fields of JobSpec; concat_ws leaves out what is null.
create function holdfast.complete_spec(spec jsonb, fan_out boolean, limits holdfast.limits) returns text
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
        '"backoff":{' || case when spec ? 'backoff' then concat_ws(',',
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
        '"trace_id":' || to_json(spec ->> 'trace_id')) || '}';
end $$;

-- As operations/partitions.py does it when ids have run ahead; held until the caller's transaction ends.
create function holdfast.ensure_partition(job_id bigint) returns void language plpgsql as $$
declare
    newest holdfast.partitions;
begin
    lock table holdfast.partitions in share row exclusive mode;
    select * into newest from holdfast.partitions order by first_job_id desc limit 1;
    while job_id >= newest.end_job_id loop
        newest := (newest.end_job_id, newest.end_job_id
                   + greatest(10000, least(1000000, (newest.end_job_id - newest.first_job_id) * 4)), null);
        perform holdfast.add_partition(newest.first_job_id, newest.end_job_id);
    end loop;
exception
    -- Somebody made it after this transaction's snapshot was taken: it is there, although it cannot be seen.
    when unique_violation then null;
end $$;

-- A repeat is known by its digest, or by what it says: the server and this function may write the same in two ways.
create function holdfast.answer_repeat(complete jsonb, inputs jsonb, digest bytea) returns bigint
    language plpgsql as $$
declare
    first record;
begin
    select job_id, spec_digest = digest or spec = complete and case
               when num_tasks = jsonb_array_length(inputs)
               then inputs = (select jsonb_agg(input::jsonb order by task_index)
                                from holdfast.tasks where tasks.job_id = jobs.job_id)
               else inputs is null end as is_same
      into first from holdfast.jobs
     where owner = complete ->> 'owner' and idempotency_key = complete ->> 'idempotency_key';
    if not found then
        raise exception using errcode = 'serialization_failure',
            message = 'the job under this idempotency_key was deleted at the same moment; try again';
    end if;
    perform holdfast.refuse_field('idempotency_key', format(
                '%L was used for job %s with a different spec; use a new key, or submit the same spec',
                complete ->> 'idempotency_key', first.job_id))
      where not first.is_same;
    return first.job_id;
end $$;

-- Whoever may execute this needs no other right but usage of the schema. The settings are those that would
-- change what a text in these functions means, should the caller's session have others.
create function holdfast.submit(spec jsonb, inputs jsonb default null) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on set extra_float_digits = 1 as $$
declare
    limits holdfast.limits;
    texts text[];
    whole text;
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
    whole := holdfast.complete_spec(spec, inputs is not null, limits);
    perform holdfast.check_size('spec', octet_length(whole), limits.spec_bytes_max, 'bytes');
    complete := whole::jsonb;
    select sha256(convert_to(whole, 'UTF8')
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
revoke all on function holdfast.submit from public;
