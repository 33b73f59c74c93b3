-- name: read_settings
-- Those that need a right of their own to be seen are left out without it.
select name, setting from pg_settings where name = any ($names::text[]);

-- name: read_clocks
select clock_timestamp() as now, pg_is_in_recovery() as is_standby;

-- name: count_connections
-- Of all databases, and of whoever: sessions of others cannot be told apart without rights, but are counted.
select coalesce(sum(numbackends), 0)::int from pg_stat_database;

-- name: read_transaction_id_age
select age(datfrozenxid)::bigint from pg_database where datname = current_database();

-- name: list_missing_rights
-- What a server does, whose role need not own anything; of the records of migrations it only reads.
with tables as (
    select oid, relname, relkind, relname in ('schema_versions', 'schema_definitions') as is_record
      from pg_class
     where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'p', 'v', 'S') and not relispartition
)
select 'usage on schema holdfast' as lacking
 where not has_schema_privilege('holdfast', 'usage')
union all
select permission || ' on ' || relname
  from tables cross join unnest(array['select', 'insert', 'update', 'delete']) as permission
 where case when relkind = 'S' or (permission <> 'select' and (relkind = 'v' or is_record)) then false
            else not has_table_privilege(oid, permission) end
union all
select 'usage on ' || relname from tables
 where case when relkind = 'S' then not has_sequence_privilege(oid, 'usage') else false end
union all
select 'execute on ' || proname from pg_proc
 where pronamespace = 'holdfast'::regnamespace and not has_function_privilege(oid, 'execute')
   and proname in ('add_partition', 'drop_partition', 'summarise_events');

-- name: read_role
select current_user::text;

-- name: list_table_rows
-- Partitions are added up under the name of their table.
select coalesce(parents.relname, tables.relname)::text as name,
       sum(coalesce(pg_stat_get_live_tuples(tables.oid), 0))::bigint as live,
       sum(coalesce(pg_stat_get_dead_tuples(tables.oid), 0))::bigint as dead
  from pg_class as tables
  left join pg_inherits on inhrelid = tables.oid left join pg_class as parents on parents.oid = inhparent
 where tables.relnamespace = 'holdfast'::regnamespace and tables.relkind = 'r'
 group by 1 order by dead desc, name;

-- name: list_unvacuumed
select relname::text from pg_class
 where relnamespace = 'holdfast'::regnamespace and relkind = 'r'
   and exists (select from unnest(reloptions) as option where option in ('autovacuum_enabled=false',
               'autovacuum_enabled=off', 'autovacuum_enabled=no', 'autovacuum_enabled=0'))
 order by relname;

-- name: read_ranges
select (select last_value from holdfast.job_ids) as last_job_id,
       coalesce((select max(end_job_id) from holdfast.partitions where retired_at is null), 0) as end_job_id;

-- name: read_backlog
select extract(epoch from holdfast.now() - (select min(due_at) from holdfast.outbox))::float8 as outbox,
       extract(epoch from holdfast.now() - (select min(eligible_at) from holdfast.waiting))::float8 as retries,
       extract(epoch from holdfast.now() - (select min(expires_at) from holdfast.leases))::float8 as leases,
       extract(epoch from holdfast.now() - (select min(due_at) from holdfast.schedules))::float8 as schedules,
       -- Of what is still being submitted, nothing can end.
       extract(epoch from holdfast.now() - (
           select expires_at from holdfast.expiries join holdfast.jobs using (job_id)
            where jobs.submitted_at is not null order by expires_at limit 1))::float8 as expiries;

-- name: list_schedule_problems
select name, left(problem, $length_max::int) from holdfast.schedules
 where problem is not null and due_at is not null order by due_at limit $count_max;

-- name: list_standbys
-- How far each has replayed; hidden without pg_monitor or a role like it.
select application_name, state, sync_state, extract(epoch from replay_lag)::float8 as seconds,
       pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint as bytes_behind
  from pg_stat_replication order by application_name, pid;

-- name: read_wal_position
select pg_current_wal_lsn()::text;

-- name: read_replay
-- By how much a standby is behind a position of its primary. What it last replayed may be old because nothing has
-- happened since: then it is not behind.
select greatest(pg_wal_lsn_diff($position::text::pg_lsn, pg_last_wal_replay_lsn()), 0)::bigint as bytes_behind,
       extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp())::float8 as seconds,
       pg_is_wal_replay_paused() as is_paused;

-- name: read_leader
select leader, expires_at > holdfast.now() as leads from holdfast.leadership;
