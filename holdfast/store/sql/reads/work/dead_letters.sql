-- name: walk_open_dead_letters
select job_id, task_index from holdfast.dead_letters
 where (job_id, task_index) > ($after_job_id::bigint, $after_task_index::int) and job_id <= $last_job_id
   and replayed_at is null and discarded_at is null
 order by job_id, task_index limit $count_max;

-- name: walk_dead_letters
select job_id, task_index from holdfast.dead_letters
 where (job_id, task_index) > ($after_job_id::bigint, $after_task_index::int) and job_id <= $last_job_id
 order by job_id, task_index limit $count_max;

-- name: walk_newest_open_letters
select dead_lettered_at, job_id, task_index from holdfast.dead_letters
 where (dead_lettered_at, job_id, task_index)
       < ($before::timestamptz, $before_job_id::bigint, $before_task_index::int)
   and replayed_at is null and discarded_at is null
 order by dead_lettered_at desc, job_id desc, task_index desc limit $count_max;

-- name: walk_newest_letters
-- Some that died at the same moment are sorted; the moments come in the order of their index.
select dead_lettered_at, job_id, task_index from holdfast.dead_letters
 where dead_lettered_at <= $before::timestamptz
   and (dead_lettered_at, job_id, task_index)
       < ($before::timestamptz, $before_job_id::bigint, $before_task_index::int)
 order by dead_lettered_at desc, job_id desc, task_index desc limit $count_max;

-- name: read_letter_errors
-- The beginning of the error, by which letters are told apart; not the inputs, which may be large.
select job_id, task_index, error_class, error
  from unnest($job_ids::bigint[], $task_indexes::int[])
         with ordinality as walked(walked_job_id, walked_index, position)
 cross join lateral (
       select *, left(last_error, $error_length::int) as error from holdfast.dead_letters
        where job_id = walked_job_id and task_index = walked_index limit 1) as letter
 where ($reason_code::text is null or reason_code = $reason_code)
   and ($stage::text is null or stage = $stage)
   and ($type::text is null or type = $type)
   and ($queue::text is null or queue = $queue)
 order by position;

-- name: read_dead_letters
-- In the order in which they were walked.
select job_id, task_index, reason_code, stage, error_class, last_error, attempts, last_owner,
       last_lease_expires_at, correlation_id, type, queue, input::text, dead_lettered_at, replayed_at,
       replayed_as, discarded_at, discarded_by, input_edited
  from unnest($job_ids::bigint[], $task_indexes::int[])
         with ordinality as walked(walked_job_id, walked_index, position)
 cross join lateral (
       select * from holdfast.dead_letters
        where job_id = walked_job_id and task_index = walked_index limit 1) as letter
 where ($reason_code::text is null or reason_code = $reason_code)
   and ($stage::text is null or stage = $stage)
   and ($type::text is null or type = $type)
   and ($queue::text is null or queue = $queue)
 order by position limit $count_max;

-- name: list_open_ids
select job_id, task_index from holdfast.dead_letters
 where job_id >= $first_job_id and job_id <= $last_job_id
   and replayed_at is null and discarded_at is null
   and ($reason_code::text is null or reason_code = $reason_code)
   and ($stage::text is null or stage = $stage)
   and ($type::text is null or type = $type)
   and ($queue::text is null or queue = $queue)
 order by job_id, task_index limit $count_max;

-- name: list_newest_letters
select job_id, task_index, reason_code, stage, type, error_class, left(last_error, $error_length::int),
       dead_lettered_at
  from (select * from holdfast.dead_letters
         where replayed_at is null and discarded_at is null
         order by dead_lettered_at desc, job_id desc, task_index desc limit $examined_max) as newest
 where ($reason_code::text is null or reason_code = $reason_code)
   and ($stage::text is null or stage = $stage)
   and ($type::text is null or type = $type)
   and ($queue::text is null or queue = $queue)
 limit $count_max;

-- name: count_letters
-- By reason and stage, those among the newest.
select reason_code, stage, count(*)
  from (select * from holdfast.dead_letters
         where replayed_at is null and discarded_at is null
         order by dead_lettered_at desc, job_id desc, task_index desc limit $examined_max) as newest
 where ($type::text is null or type = $type)
   and ($reason_code::text is null or reason_code = $reason_code)
   and ($stage::text is null or stage = $stage)
   and ($queue::text is null or queue = $queue)
 group by reason_code, stage
 order by count(*) desc, reason_code, stage;

-- name: list_newest_letters_of_job
select job_id, task_index, reason_code, stage, type, error_class, left(last_error, $error_length::int),
       dead_lettered_at
  from (select * from holdfast.dead_letters
         where job_id = $job_id and replayed_at is null and discarded_at is null
         order by task_index desc limit $examined_max) as last
 where ($reason_code::text is null or reason_code = $reason_code)
   and ($stage::text is null or stage = $stage)
   and ($type::text is null or type = $type)
   and ($queue::text is null or queue = $queue)
 order by dead_lettered_at desc, task_index desc limit $count_max;

-- name: count_letters_of_job
select reason_code, stage, count(*)
  from (select * from holdfast.dead_letters
         where job_id = $job_id and replayed_at is null and discarded_at is null
         order by task_index desc limit $examined_max) as last
 where ($type::text is null or type = $type)
   and ($reason_code::text is null or reason_code = $reason_code)
   and ($stage::text is null or stage = $stage)
   and ($queue::text is null or queue = $queue)
 group by reason_code, stage
 order by count(*) desc, reason_code, stage;

-- name: measure_letters_of_job
select count(*) from (
    select from holdfast.dead_letters
     where job_id = $job_id and replayed_at is null and discarded_at is null limit $count_max) as counted;

-- name: measure_letters
select count(*) from (
    select from holdfast.dead_letters
     where replayed_at is null and discarded_at is null limit $count_max) as counted;

-- name: count_open_letters
select reason_code, count(*)
  from (select reason_code from holdfast.dead_letters
         where replayed_at is null and discarded_at is null
         order by job_id, task_index limit $count_max) as letters
 group by reason_code;
