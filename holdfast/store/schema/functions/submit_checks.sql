-- Submitting by SQL: what a spec may look like. Checked is what
-- rules/submitting/submission.py checks, in its order.

create or replace function holdfast.refuse_field(field text, problem text) returns void language plpgsql as $$
begin
    raise exception using
        errcode = 'invalid_parameter_value', column = field, message = format('%s: %s', field, problem);
end $$;

create or replace function holdfast.check_size(field text, size bigint, size_max bigint, unit text) returns void
    language plpgsql as $$
begin
    if size > size_max then
        perform holdfast.refuse_field(field, format(
            '%s %s is over the limit of %s %s', size, unit, size_max, unit));
    end if;
end $$;

-- A decoder has to read what is stored: one number beyond a float would stop every worker that meets it.
create or replace function holdfast.check_value(field text, value jsonb) returns void language plpgsql as $$
begin
    perform holdfast.refuse_field(field, 'is nested more than 100 levels deep; flatten it')
      where jsonb_path_exists(value, 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")');
    perform holdfast.refuse_field(field, 'holds a number beyond 1.7976931348623157e308; send it as a string')
      where jsonb_path_exists(value, 'strict $.** ? (@.type() == "number" && (@ > 1.7976931348623157e308
                                                                           || @ < -1.7976931348623157e308))');
end $$;

-- `fields` names the type of each field; a question mark says that it may be null.
create or replace function holdfast.check_fields(path text, value jsonb, fields jsonb) returns void
    language plpgsql as $$
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
        elsif given.type = 'text or object' and given.found in ('string', 'object') then
            continue;
        elsif given.found <> (case given.type when 'integer' then 'number' else given.type end) then
            perform holdfast.refuse_field(given.field, format(
                'is of type %s; give one of type %s', given.found, given.type));
        elsif given.type = 'integer' and scale(given.text::numeric) > 0 then
            perform holdfast.refuse_field(given.field, 'has a fraction; give a whole number');
        end if;
    end loop;
end $$;

create or replace function holdfast.check_shape(spec jsonb) returns void language plpgsql as $$
begin
    perform holdfast.refuse_field(field, 'is not taken by SQL; submit the job through the server')
       from unnest('{resources,constraints,coscheduling,bundle,requirements,depends_on,
                      compensation,outputs,start_delay,start_rate}'::text[]) as field where spec ? field;
    perform holdfast.refuse_field('entrypoint.results', 'is not taken by SQL; submit the job through the server')
      where jsonb_typeof(spec -> 'entrypoint') = 'object' and spec -> 'entrypoint' ? 'results';
    perform holdfast.check_fields('', spec, '{
        "entrypoint": "object", "name": "string?", "type": "string?", "owner": "string?", "replicas": "integer?",
        "queue": "string?", "environment": "object", "labels": "object", "max_attempts": "integer?",
        "max_retries_failure": "integer?", "max_retries_preemption": "integer?", "backoff": "object?",
        "max_task_failures": "integer?", "on_exhausted": "string?", "scheduling_timeout": "number?",
        "timeout": "number?", "on_timeout": "string?", "lease": "number?", "grace": "number?",
        "not_before": "number?", "expires": "number?", "expires_at": "number?", "priority": "integer?",
        "concurrency_key": "text or object?", "slots": "integer?", "idempotency_key": "string?",
        "correlation_id": "string?", "trace_id": "string?", "verbose_events": "boolean?", "unique": "object?",
        "chain": "string?", "on_failure": "string?", "placed": "boolean"}');
    perform holdfast.refuse_field('placed', format('goes without a queue, and %L is one; give one of them',
                                                   spec ->> 'queue'))
      where spec -> 'placed' = 'true' and spec ->> 'queue' is not null;
    perform holdfast.check_fields('entrypoint.', spec -> 'entrypoint', '{
        "command": "array?", "shell": "string?", "function": "string?", "args": "array", "kwargs": "object",
        "pickle": "string?"}');
    perform holdfast.check_fields('backoff.', coalesce(nullif(spec -> 'backoff', 'null'), '{}'), '{
        "base": "number", "factor": "number", "ceiling": "number"}');
    if jsonb_typeof(spec -> 'concurrency_key') = 'object' then
        perform holdfast.check_fields('concurrency_key.', spec -> 'concurrency_key', '{"input": "string?"}');
    end if;
    perform holdfast.refuse_field(format('entrypoint.command[%s]', position - 1), 'is not a string; give one')
       from jsonb_array_elements(nullif(spec #> '{entrypoint,command}', 'null'))
            with ordinality as words(word, position)
      where jsonb_typeof(word) <> 'string';
    perform holdfast.refuse_field(field, 'holds something else than strings; write each value as a string')
       from unnest(array['labels', 'environment']) as field, jsonb_each(spec -> field)
      where jsonb_typeof(value) <> 'string';
    perform holdfast.refuse_field(field, format('is unknown; use %s or %s', one, other))
       from (values ('on_exhausted', 'fail', 'dead_letter'), ('on_timeout', 'kill', 'fail'),
                    ('on_failure', 'pass', 'block')) as known(field, one, other)
      where spec ->> field not in (one, other);
    perform holdfast.check_unique_shape(nullif(spec -> 'unique', 'null'));
end $$;

create or replace function holdfast.check_entrypoint(entrypoint jsonb) returns void language plpgsql as $$
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

create or replace function holdfast.check_texts(spec jsonb, limits holdfast.limits) returns void language plpgsql as $$
declare
    field text;
    of_limits text;
begin
    foreach field in array array['name', 'type', 'owner', 'queue', 'idempotency_key', 'correlation_id',
                                 'trace_id', 'chain'] loop
        perform holdfast.refuse_field(field, 'is empty; leave it out or give it a value') where spec ->> field = '';
        perform holdfast.check_size(field, length(spec ->> field), limits.text_length_max, 'characters');
    end loop;
    perform holdfast.refuse_field('idempotency_key',
                'begins with holdfast:, which is kept for jobs that the server submits; use another')
      where spec ->> 'idempotency_key' like 'holdfast:%';
    perform holdfast.refuse_field('queue', format(
                '%L is not a queue name; use letters, digits and ._:/-', spec ->> 'queue'))
      where spec ->> 'queue' !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]*$';
    perform holdfast.refuse_field('on_failure', 'goes with a chain; name one, or leave it out')
      where spec ->> 'on_failure' is not null and spec ->> 'chain' is null;
    foreach field in array array['labels', 'environment'] loop
        perform case when key = '' then holdfast.refuse_field(field, 'has an empty name; give it one') end,
                holdfast.check_size(field, length(key), limits.text_length_max, 'characters'),
                holdfast.check_size(field || '.' || key, length(value), limits.error_length_max, 'characters')
           from jsonb_each_text(spec -> field);
    end loop;
    for field, of_limits in
        select case jsonb_typeof(given) when 'object' then 'concurrency_key.input' else 'concurrency_key' end,
               case jsonb_typeof(given) when 'object' then given ->> 'input' else given #>> '{}' end
          from (select spec -> 'concurrency_key' as given) as mine
    loop
        perform holdfast.refuse_field(field, 'is empty; leave it out or give it a value')
          where field = 'concurrency_key' and of_limits = '';
        perform holdfast.check_size(field, length(of_limits), limits.text_length_max, 'characters');
        perform holdfast.refuse_field(field, 'has an empty step; write it like customer.id')
          where field = 'concurrency_key.input' and '' = any (string_to_array(of_limits, '.'));
    end loop;
end $$;

create or replace function holdfast.check_numbers(spec jsonb, limits holdfast.limits) returns void
    language plpgsql as $$
declare
    year constant numeric := 366 * 86400;
begin
    perform holdfast.refuse_field(field, format('is out of range; use %s to %s', lowest, highest))
       from (values ('max_retries_failure', numeric '0', limits.retries_max::numeric),
                    ('max_retries_preemption', 0, limits.retries_max),
                    ('max_attempts', 1, limits.retries_max + 1),
                    ('max_task_failures', 0, limits.tasks_max),
                    ('replicas', 1, limits.tasks_max),
                    ('priority', -1000000, 1000000),
                    ('slots', 1, 1000),
                    ('lease', limits.lease_seconds_min::numeric, limits.lease_seconds_max::numeric),
                    ('timeout', 0.001, year),
                    ('scheduling_timeout', 0.001, year),
                    ('grace', 0, 86400),
                    ('not_before', 0, 253370764800),
                    ('expires', 0.001, year),
                    ('expires_at', 0, 253370764800),
                    ('backoff.base', 0, 86400),
                    ('backoff.factor', 1, 100),
                    ('backoff.ceiling', coalesce((spec #>> '{backoff,base}')::numeric, 0.5), 86400)
            ) as ranges(field, lowest, highest)
      where coalesce((spec #>> string_to_array(field, '.'))::numeric, case field when 'backoff.ceiling' then 60 end)
            not between lowest and highest;
    perform holdfast.refuse_field('expires', 'goes without expires_at; give one of the two')
      where num_nonnulls(spec ->> 'expires', spec ->> 'expires_at') = 2;
    perform holdfast.refuse_field('expires_at', 'ends before the job may start; let it expire later')
      where (spec ->> 'expires_at')::numeric <= nullif((spec ->> 'not_before')::numeric, 0);
    perform holdfast.refuse_field('max_attempts', 'means max_retries_failure + 1; give one of the two')
      where num_nonnulls(spec ->> 'max_attempts', spec ->> 'max_retries_failure') = 2;
end $$;

-- Returns the number of tasks.
create or replace function holdfast.check_inputs(spec jsonb, inputs jsonb, limits holdfast.limits) returns int
    language plpgsql as $$
declare
    num_tasks int;
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
    perform holdfast.check_size(field, octet_length(value::text), limits.input_bytes_max, 'bytes'),
            holdfast.check_value(field, value)
       from (select format('inputs[%s]', position - 1) as field, value
               from jsonb_array_elements(inputs) with ordinality as each(value, position)) as given;
    return num_tasks;
end $$;

-- A path to the keys of tasks leads to one value in each input, or in the arguments, or to a null, also on the way.
create or replace function holdfast.check_key(spec jsonb, inputs jsonb) returns void language plpgsql as $$
declare
    field constant text := 'concurrency_key.input';
    path constant text := spec #>> '{concurrency_key,input}';
    steps constant text[] := string_to_array(path, '.');
begin
    perform holdfast.refuse_field(field, format(
                '%L leads to nothing: the job has neither inputs nor arguments; give the key as a text', path))
      where inputs is null and spec #> '{entrypoint,args,0}' is null
        and coalesce(spec #> '{entrypoint,kwargs}', '{}') = '{}';
    perform holdfast.refuse_field(field, case jsonb_typeof(target)
                when 'object' then format('%L leads to an object in %s; name one value in it', path, place)
                when 'array' then format('%L leads to a list in %s; name one value in it', path, place)
                else format('%L leads to nothing in %s; %s', path, place, remedy) end)
       from (select format('inputs[%s]', position - 1) as place, value as root,
                    case when jsonb_typeof(value) in ('object', 'array')
                         then 'name a field that each has, or give it there as null for no key'
                         else 'name a field that each has, or none at all ('''') to count by the input itself'
                         end as remedy
               from jsonb_array_elements(inputs) with ordinality as each(value, position)
              union all
             select 'entrypoint.args[0]', spec #> '{entrypoint,args,0}',
                    'name a field that it has, give all arguments by name, or give the key as a text'
              where inputs is null and spec #> '{entrypoint,args,0}' is not null
              union all
             select 'entrypoint.kwargs', spec #> '{entrypoint,kwargs}',
                    'name an argument that is given, or give the key as a text'
              where inputs is null and spec #> '{entrypoint,args,0}' is null) as given,
            lateral (select root #> steps as target) as led
      where jsonb_typeof(target) in ('object', 'array')
         or target is null and not exists (
                select from generate_series(1, cardinality(steps) - 1) as length
                 where root #> steps[:length] = 'null');
end $$;
