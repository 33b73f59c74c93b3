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

-- name: walk_job_log_back
select stored_at, task_index, attempt, start_offset, octet_length(content) as size
  from holdfast.logs
 where job_id = $job_id and stored_at < $until::timestamptz
   and (stored_at, task_index, attempt, start_offset)
       < ($stored_at::timestamptz, $before_index::int, $before_attempt::int, $before_offset::bigint)
 order by stored_at desc, task_index desc, attempt desc, start_offset desc limit $count_max;

-- name: read_stretches
select stretch.task_index, stretch.attempt, stretch.start_offset, stretch.content
  from unnest($task_indexes::int[], $attempts::int[], $start_offsets::bigint[])
         with ordinality as walked(task_index, attempt, start_offset, position)
 cross join lateral (
       select * from holdfast.logs
        where logs.job_id = $job_id and logs.task_index = walked.task_index
          and logs.attempt = walked.attempt and logs.start_offset = walked.start_offset limit 1) as stretch
 order by walked.position;

-- name: read_around
-- For each run the byte before it, and what follows it without a gap, as far as a line may reach.
select before.byte, coalesce(following.content, '') as following
  from unnest($task_indexes::int[], $attempts::int[], $start_offsets::bigint[], $end_offsets::bigint[])
         with ordinality as run(task_index, attempt, start_offset, end_offset, position)
  left join lateral (
       select substring(logs.content from (run.start_offset - logs.start_offset)::int for 1) as byte
         from holdfast.logs
        where logs.job_id = $job_id and logs.task_index = run.task_index and logs.attempt = run.attempt
          and logs.start_offset < run.start_offset
        order by logs.start_offset desc limit 1) as before on true
  left join lateral (
       select string_agg(later.content, '' order by later.start_offset) as content
         from (select logs.start_offset, substring(logs.content for $bytes_max::int) as content,
                      run.end_offset + coalesce(sum(octet_length(logs.content)) over (
                          order by logs.start_offset rows between unbounded preceding and 1 preceding), 0) as expected
                 from holdfast.logs
                where logs.job_id = $job_id and logs.task_index = run.task_index and logs.attempt = run.attempt
                  and logs.start_offset >= run.end_offset
                order by logs.start_offset limit $count_max) as later
        where later.start_offset <= later.expected) as following on true
 order by run.position;
