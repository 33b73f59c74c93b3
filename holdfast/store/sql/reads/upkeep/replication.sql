-- name: read_position
-- How far a Postgres is: what a primary has written, what a standby has applied. Two with the same
-- system_identifier are copies of one; with the same started_at they are the very same.
select (select system_identifier from pg_control_system()) as system_identifier,
       pg_is_in_recovery() as is_standby,
       pg_postmaster_start_time() as started_at,
       (case when pg_is_in_recovery() then coalesce(pg_last_wal_replay_lsn(), '0/0')
             else pg_current_wal_lsn() end - '0/0')::bigint as position;
