-- name: has_lease
select from holdfast.leases where job_id = $job_id limit 1;

-- name: read_stored_until
-- Before this moment nothing is going to be stored any more: whoever writes has begun later, or so long ago that it
-- is given up.
select least(holdfast.now() - $quiet::interval,
             (select min(xact_start) from pg_stat_activity
               where backend_xid is not null and datname = current_database() and pid <> pg_backend_pid()
                 and xact_start > clock_timestamp() - $patience::interval));

-- name: walk_job_log
-- The size of what is stored elsewhere is known without fetching it.
select stored_at, task_index, attempt, start_offset, octet_length(content) as size
  from holdfast.logs
 where job_id = $job_id and stored_at < $until::timestamptz
   and (stored_at, task_index, attempt, start_offset)
       > ($stored_at::timestamptz, $after_index::int, $after_attempt::int, $after_offset::bigint)
 order by stored_at, task_index, attempt, start_offset limit $count_max;

-- name: read_stretches
select stretch.task_index, stretch.attempt, stretch.start_offset, stretch.content
  from unnest($task_indexes::int[], $attempts::int[], $start_offsets::bigint[])
         with ordinality as walked(task_index, attempt, start_offset, position)
 cross join lateral (
       select * from holdfast.logs
        where logs.job_id = $job_id and logs.task_index = walked.task_index
          and logs.attempt = walked.attempt and logs.start_offset = walked.start_offset limit 1) as stretch
 order by walked.position;
