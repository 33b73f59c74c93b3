-- name: find_standing
-- What a role is to the schema: whoever owns it, or is above all rights, needs none. And whether this session is
-- one of the owner: of others, Postgres ignores a grant with no more than a warning.
select rolname = pg_get_userbyid(nspowner) or rolsuper as needs_nothing,
       pg_has_role(nspowner, 'usage') as is_owner, pg_get_userbyid(nspowner)::text as owner
  from pg_roles, pg_namespace
 where rolname = $role::text and nspname = 'holdfast';

-- name: write_grants
-- All that a server and an audit need, and nothing by which the ledger's guards could be switched off.
-- What later migrations of the owner add is granted by that, whoever grants: by default it would be what the role of
-- this session adds, which may be a superuser or another member of the owner.
select format(statement, $role::text, owner) as statement
  from unnest(array[
    'grant usage on schema holdfast to %I',
    'grant select, insert, update, delete on all tables in schema holdfast to %I',
    'revoke insert, update, delete on holdfast.schema_versions, holdfast.schema_definitions from %I',
    'grant usage, select on all sequences in schema holdfast to %I',
    'grant execute on function holdfast.add_partition, holdfast.drop_partition, holdfast.summarise_events to %I',
    'alter default privileges for role %2$I in schema holdfast '
      'grant select, insert, update, delete on tables to %1$I',
    'alter default privileges for role %2$I in schema holdfast grant usage, select on sequences to %1$I'
  ]) with ordinality as listed (statement, number),
       (select pg_get_userbyid(nspowner) as owner from pg_namespace where nspname = 'holdfast') as owned
 order by number;
