-- name: list_horizon_holders
-- Who keeps vacuum from removing dead rows of this database: each with the oldest transaction that it
-- may still have to see. Sessions of other databases do not count; standbys and slots, which have none,
-- do; but the catalog_xmin of a slot for logical decoding keeps dead rows of the catalog alone. Type, state,
-- query and begin of a session of another role are hidden without pg_read_all_stats; its xmin is not.
select * from (
    select 'session' as kind, pid::text as name, coalesce(application_name, '') as application,
           coalesce(usename, '') as role, state,
           case when query = '<insufficient privilege>' then null else left(query, 200) end as query,
           query_start as query_started_at,
           extract(epoch from clock_timestamp() - xact_start)::float8 as seconds,
           greatest(age(backend_xmin), age(backend_xid))::bigint as xids,
           query = '<insufficient privilege>' as is_hidden
      from pg_stat_activity
     where (backend_xmin is not null or backend_xid is not null) and pid <> pg_backend_pid()
       and (datname = current_database() or datname is null)
       -- Vacuums do not wait for each other.
       and backend_type is distinct from 'autovacuum worker' and query not ilike 'vacuum%'
    union all
    select 'replication slot', slot_name, '', '',
           case when active then 'active' else 'inactive' end, null, null, null,
           age(xmin)::bigint, false
      from pg_replication_slots where xmin is not null
    union all
    select 'prepared transaction', gid, '', owner, 'prepared', null, prepared,
           extract(epoch from clock_timestamp() - prepared)::float8,
           age(transaction)::bigint, false
      from pg_prepared_xacts where database = current_database()
) as holders
 where xids is not null
 order by xids desc, seconds desc nulls last
 limit $holders_max;
