-- name: lock_functions
-- In a statement of its own: what changes meanwhile is seen by the next one.
select path from holdfast.functions where path = any ($paths::text[]) order by path for update;

-- name: announce_functions
-- What is known already is not written again; that a function is still there, once an hour. Who is kept to queues
-- leaves alone what is announced for another, or for placed work.
with given as (
    select * from jsonb_to_recordset($functions::text::jsonb)
        as given(path text, options jsonb, parameters jsonb, doc text)),
before as (select functions.* from holdfast.functions join given using (path)),
stored as (
    insert into holdfast.functions (path, options, parameters, doc, announced_by, changed_at, last_seen_at)
    select given.path, given.options, given.parameters, given.doc, $announced_by, holdfast.now(), holdfast.now()
      from given left join before using (path)
     where (given.options, given.parameters, given.doc)
               is distinct from (before.options, before.parameters, before.doc)
        or before.last_seen_at < holdfast.now() - interval '1 hour'
     order by path
    on conflict (path) do update
       set options = excluded.options, parameters = excluded.parameters, doc = excluded.doc,
           announced_by = excluded.announced_by, last_seen_at = excluded.last_seen_at,
           changed_at = case when (functions.options, functions.parameters, functions.doc)
                                      is distinct from (excluded.options, excluded.parameters, excluded.doc)
                             then excluded.changed_at else functions.changed_at end
     where $queues::text[] = '{}' or functions.options ->> 'queue' = any ($queues::text[])
    returning path, options)
select stored.path from stored left join before using (path)
 where stored.options is distinct from before.options;

-- name: list_functions_beyond
select path, options ->> 'queue' from holdfast.functions
 where path = any ($paths::text[]) and not coalesce(options ->> 'queue' = any ($queues::text[]), false);

-- name: advance_functions
update holdfast.policy_clock set functions_version = functions_version + 1;

-- name: drop_old_functions
-- Those that nobody has announced for the longest time.
delete from holdfast.functions where path in (
    select path from holdfast.functions order by last_seen_at desc, path offset $functions_max)
returning path;

-- name: read_function_options
select path, options::text from holdfast.functions;

-- name: list_functions
select path, options::text, parameters::text, doc, announced_by, changed_at, last_seen_at from holdfast.functions
 where path > $after collate "C" order by path limit $batch_max;

-- name: find_function
select path, options::text, parameters::text, doc, announced_by, changed_at, last_seen_at from holdfast.functions
 where path = $path;
