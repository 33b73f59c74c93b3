-- name: list_parked
-- What tasks wait for whose last attempt has ended to wait; where it waits for several signals, the first of them. Of a
-- large job no other task is read, by `offset 0`.
select waits.task_index, waits.name, waits.since, waits.until
  from unnest($task_indexes::int[]) as mine(task_index)
 cross join lateral (
       select tasks.state, tasks.attempt from holdfast.tasks
        where tasks.job_id = $job_id and tasks.task_index = mine.task_index offset 0) as task
  join holdfast.waiting on waiting.job_id = $job_id and waiting.task_index = mine.task_index
 cross join lateral (
       select signal_waits.task_index, signal_waits.name, signal_waits.since, signal_waits.until
         from holdfast.signal_waits
        where signal_waits.job_id = $job_id and signal_waits.task_index = mine.task_index
          and signal_waits.attempt = task.attempt - 1 and signal_waits.parked_at is not null
          and signal_waits.ended_at is null
        order by signal_waits.since limit 1) as waits
 where task.state = {PENDING};

-- name: list_kept
-- The signals that a task's function has not waited for so far, by name.
select signals.name, count(*)::int, min(signals.sent_at)
  from holdfast.signals
 where signals.job_id = $job_id and signals.task_index = $task_index
   and signals.number > coalesce((
       select max(waits.signal_number) from holdfast.signal_waits as waits
        where waits.job_id = signals.job_id and waits.task_index = signals.task_index
          and waits.name = signals.name), 0)
 group by signals.name order by signals.name limit $count_max;
