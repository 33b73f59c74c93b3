-- name: put_signal
select outcome, found_index, found_number
  from holdfast.put_signal($job_id, $task_index, $name, $payload::text::json, $key, $sender);

-- name: find_wait
-- Its task is locked.
select waits.since, waits.until, waits.ended_at is not null as has_ended, waits.signal_number,
       signals.payload::text as payload
  from holdfast.signal_waits as waits
  left join holdfast.signals
    on signals.job_id = waits.job_id and signals.task_index = waits.task_index
   and signals.name = waits.name and signals.number = waits.signal_number
 where waits.job_id = $job_id and waits.task_index = $task_index and waits.name = $name
   and waits.number = $number;

-- name: ask_wait
-- The time of a wait runs from the moment at which an attempt has asked first.
insert into holdfast.signal_waits (job_id, task_index, name, number, attempt, since, until)
select $job_id, $task_index, $name, $number, $attempt, now, now + $timeout::interval
  from (select holdfast.now() as now) as clock
on conflict (job_id, task_index, name, number) do update set attempt = excluded.attempt, parked_at = null;

-- name: take_signal
-- In the order in which they were sent; each ends one wait.
with next as (
    select coalesce(max(waits.signal_number), 0) + 1 as number
      from holdfast.signal_waits as waits
     where waits.job_id = $job_id and waits.task_index = $task_index and waits.name = $name
)
update holdfast.signal_waits as waits
   set ended_at = holdfast.now(), signal_number = next.number
  from next join holdfast.signals
    on signals.job_id = $job_id and signals.task_index = $task_index and signals.name = $name
   and signals.number = next.number
 where waits.job_id = $job_id and waits.task_index = $task_index and waits.name = $name
   and waits.number = $number and waits.ended_at is null
returning signals.payload::text as payload;

-- name: time_out_wait
update holdfast.signal_waits set ended_at = holdfast.now()
 where job_id = $job_id and task_index = $task_index and name = $name and number = $number
   and ended_at is null and until <= holdfast.now()
returning number;

-- name: list_asked
-- For what attempts wait that end to wait, the first that they have asked for.
select mine.job_id, mine.task_index, waits.name
  from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[]) as mine(job_id, task_index, attempt)
 cross join lateral (
       select name from holdfast.signal_waits
        where signal_waits.job_id = mine.job_id and signal_waits.task_index = mine.task_index
          and signal_waits.attempt = mine.attempt and signal_waits.ended_at is null
        order by since limit 1) as waits;

-- name: park_waits
update holdfast.signal_waits as waits set parked_at = holdfast.now()
  from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[]) as mine(job_id, task_index, attempt)
 where waits.job_id = mine.job_id and waits.task_index = mine.task_index and waits.attempt = mine.attempt
   and waits.ended_at is null;

-- name: put_off_parked
-- Their tasks are locked, and so are those of whoever sends: what has been sent by now is seen here, and what comes
-- later sees the row. Without a time, for longer than anybody will look.
update holdfast.waiting set eligible_at = parked.until
  from (select waits.job_id, waits.task_index,
               min(coalesce(waits.until, holdfast.now() + interval '100 years')) as until
          from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[]) as mine(job_id, task_index, attempt)
          join holdfast.signal_waits as waits using (job_id, task_index, attempt)
         where waits.ended_at is null
         group by waits.job_id, waits.task_index
        having not bool_or(exists (
               select from holdfast.signals
                where signals.job_id = waits.job_id and signals.task_index = waits.task_index
                  and signals.name = waits.name
                  and signals.number > coalesce((
                      select max(taken.signal_number) from holdfast.signal_waits as taken
                       where taken.job_id = waits.job_id and taken.task_index = waits.task_index
                         and taken.name = waits.name), 0)))) as parked
 where waiting.job_id = parked.job_id and waiting.task_index = parked.task_index;

-- name: delete_signals_of_jobs
with gone as (
    delete from holdfast.signals where ctid = any (array(
        select ctid from holdfast.signals where job_id = any ($job_ids::bigint[]) limit $rows_max))
    returning 1
)
select count(*) from gone;

-- name: delete_signal_waits_of_jobs
with gone as (
    delete from holdfast.signal_waits where ctid = any (array(
        select ctid from holdfast.signal_waits where job_id = any ($job_ids::bigint[]) limit $rows_max))
    returning 1
)
select count(*) from gone;
