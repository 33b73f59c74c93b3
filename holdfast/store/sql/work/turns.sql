-- name: take_turn
select * from holdfast.turn(
    $job_ids, $task_indexes, $attempts, $tokens, $results, $queues, $urgencies, $eligible_at, $first_job_ids,
    $first_indexes, $tasks_max, $firsts, $worker_ids, $claim_keys, $digests, $starting, $is_bounded,
    $noise, $notes_places);

-- name: store_and_take
-- One transaction: what is stored is seen by the turn, which comes after it since it is told whether anything was.
select stored.*, taken.*
  from holdfast.store_jobs(
           $job_id, $name, $type, $owner, $queue, $priority, $spec, $labels, $parent_job_id, $replay_of,
           $correlation_id, $trace_id, $trace_parent, $idempotency_key, $asked, $shown, $fan_out, $max_task_failures,
           $num_tasks, $graph_id, $compensates_job_id, $unmet, $actor, $scheduling_timeout, $positions,
           $task_indexes, $placed, $inputs, $at, $policies_version, $partitions_end) as stored
 cross join lateral holdfast.turn(
           '{}', '{}', '{}', '{}', '{}', $queues, $urgencies, $eligible_at, $first_job_ids, $first_indexes,
           case when cardinality(stored.job_ids) > 0 then $tasks_max::int else 0 end, $firsts, $worker_ids,
           $claim_keys, $digests, $starting, $is_bounded, $noise, $notes_places) as taken;
