-- What waits for a time or for a signal, and the signals themselves. As in ledger.sql, every statement returns the
-- invariant, the job, the task, the attempt, and what was seen.

-- name: check_waiting
select case when tasks.job_id is null then 'waiting_row_without_task'
            when jobs.submitted_at is null then 'hidden_job_in_line'
            when tasks.state <> {PENDING} then 'waiting_row_of_a_task_that_is_not_pending'
            else 'waiting_row_differs' end,
       waiting.job_id, waiting.task_index, null::int,
       format('waiting for %s; the task is in state %s, eligible at %s', waiting.eligible_at,
              tasks.state, tasks.eligible_at)
  from holdfast.waiting
  left join holdfast.tasks using (job_id, task_index)
  left join holdfast.jobs using (job_id)
 where tasks.job_id is null or jobs.submitted_at is null or tasks.state <> {PENDING}
    -- A task that waits for a signal is due when that comes, or its time is over.
    or waiting.eligible_at <> tasks.eligible_at
       and not (waiting.eligible_at > tasks.eligible_at and exists (
           select from holdfast.signal_waits as waits
            where waits.job_id = waiting.job_id and waits.task_index = waiting.task_index
              and waits.attempt = tasks.attempt - 1 and waits.parked_at is not null
              and waits.ended_at is null));

-- name: check_signals
with sent as (
    select job_id, task_index, name, count(*) as count, max(number) as last_number
      from holdfast.signals group by job_id, task_index, name
),
taken as (
    select job_id, task_index, name, count(signal_number) as count, coalesce(max(signal_number), 0) as last_number
      from holdfast.signal_waits group by job_id, task_index, name
),
checked as (
    select job_id, task_index, name, coalesce(sent.count, 0) as sent, coalesce(taken.count, 0) as taken,
           tasks.job_id is null as signal_without_task,
           coalesce(sent.last_number <> sent.count, false) as gap_in_signals,
           coalesce(taken.last_number <> taken.count, false) as signal_passed_over,
           coalesce(taken.last_number, 0) > coalesce(sent.last_number, 0) as wait_without_its_signal
      from sent full join taken using (job_id, task_index, name)
      left join (select job_id, task_index from holdfast.tasks) as tasks using (job_id, task_index)
)
select checks.invariant, job_id, task_index, null::int,
       format('signal %L: %s were sent, %s were taken', name, sent, taken)
  from checked
 cross join lateral (values
    ('signal_without_task', signal_without_task),
    ('gap_in_signals', gap_in_signals),
    ('signal_passed_over', signal_passed_over),
    ('wait_without_its_signal', wait_without_its_signal)
  ) as checks(invariant, broken)
 where checks.broken;

-- name: check_parked
-- A task that waits for a signal is due as soon as that is there, and no later than its time.
select case when heard.number is not null then 'signal_not_heard' else 'wait_beyond_its_time' end,
       waiting.job_id, waiting.task_index, waits.attempt,
       format('waiting until %s for signal %L, until %s', waiting.eligible_at, waits.name, waits.until)
  from holdfast.waiting
  join holdfast.tasks using (job_id, task_index)
  join holdfast.signal_waits as waits
    on waits.job_id = waiting.job_id and waits.task_index = waiting.task_index
   and waits.attempt = tasks.attempt - 1 and waits.parked_at is not null and waits.ended_at is null
  left join lateral (
       select signals.number from holdfast.signals
        where signals.job_id = waits.job_id and signals.task_index = waits.task_index and signals.name = waits.name
          and signals.number > coalesce((
              select max(taken.signal_number) from holdfast.signal_waits as taken
               where taken.job_id = waits.job_id and taken.task_index = waits.task_index
                 and taken.name = waits.name), 0)
        limit 1) as heard on true
 where heard.number is not null and waiting.eligible_at > holdfast.now()
    or waiting.eligible_at > waits.until;
