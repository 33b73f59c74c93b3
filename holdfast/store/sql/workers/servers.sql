-- name: note_server
-- The sender's clock is compared with that of the database when the statement begins.
insert into holdfast.servers (server_id, host, version, migration, started_at, seen_at, clock_skew_seconds, report)
values ($server_id, $host, $version, $migration, holdfast.now(), holdfast.now(),
        extract(epoch from $clock::timestamptz - holdfast.now())::float8, $report::text::jsonb)
on conflict (server_id) do update
   set seen_at = excluded.seen_at, clock_skew_seconds = excluded.clock_skew_seconds, report = excluded.report;

-- name: forget_servers
-- One that has ended says so; one that was killed is forgotten after a while.
delete from holdfast.servers
 where server_id = $server_id or seen_at < holdfast.now() - $silent_for::interval;

-- name: list_servers
select server_id, host, version, migration, started_at, seen_at, clock_skew_seconds, report::text, holdfast.now() as now
  from holdfast.servers order by started_at, server_id limit $count_max;
