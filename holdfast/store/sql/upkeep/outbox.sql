-- What follows from a change, in transactions of its own; a row lives until its work is done.

-- name: insert_outbox
insert into holdfast.outbox (kind, job_id, next_index, created_at)
select kind, job_id, next_index, holdfast.now()
  from unnest($kinds::text[], $job_ids::bigint[], $next_indexes::int[])
         as new(kind, job_id, next_index);

-- name: list_outbox
-- By the time at which they are due: a row that was put off comes after all that have not been looked at.
-- Kinds that may have to wait for long have lists of their own, so that these never wait behind them.
select id, kind, job_id from holdfast.outbox
 where kind = any ($kinds::text[]) and due_at <= (select holdfast.now())
 order by due_at, id limit $batch_max;

-- name: lock_outbox
-- Skipped when another server is at it.
select id, kind, job_id, next_index from holdfast.outbox where id = $id for update skip locked;

-- name: take_outbox
-- Many rows of a kind, or those of them that are named; skipped where another server is at it.
select id, job_id from holdfast.outbox
 where kind = $kind and due_at <= (select holdfast.now()) and ($ids::bigint[] is null or id = any ($ids::bigint[]))
 order by due_at, id limit $batch_max for update skip locked;

-- name: advance_outbox
update holdfast.outbox set next_index = $next_index where id = $id;

-- name: pace_outbox
-- From the time it was due, so that a pace is kept; what was missed while nobody was there is not made up for.
update holdfast.outbox
   set next_index = $next_index, due_at = greatest(due_at + $pause::interval, holdfast.now())
 where id = $id;

-- name: delete_outbox
delete from holdfast.outbox where id = any ($ids::bigint[]);

-- name: let_outbox_wait
-- What has waited for long may wait a little longer.
with clock as materialized (select holdfast.now() as now)
update holdfast.outbox
   set due_at = clock.now + least(interval '5 seconds',
                                  greatest(interval '0.5 seconds', (clock.now - outbox.created_at) / 4))
  from clock where id = any ($ids::bigint[]);

-- name: put_off_outbox
update holdfast.outbox set due_at = holdfast.now() + $delay::interval where id = any ($ids::bigint[]);

-- name: take_small_sweeps
-- Many jobs of a few tasks, ended or cancelled together: they are stopped together, too.
select outbox.id, outbox.job_id
  from holdfast.outbox join holdfast.jobs using (job_id)
 where outbox.kind = 'sweep' and outbox.next_index = 0 and outbox.due_at <= (select holdfast.now())
   and jobs.num_tasks <= $tasks_max
 order by outbox.due_at, outbox.id limit $batch_max
   for update of outbox skip locked;

-- name: drop_childless_ends
-- No child is born to a job that has ended, so one that has none now will never have any.
delete from holdfast.outbox where id = any (array(
    select outbox.id from holdfast.outbox
     where outbox.kind = 'job_ended' and outbox.due_at <= (select holdfast.now())
       and not exists (select from holdfast.jobs
                        where jobs.parent_job_id = outbox.job_id and jobs.finished_at is null)
     order by outbox.due_at, outbox.id limit $batch_max
       for update of outbox skip locked))
returning id;
