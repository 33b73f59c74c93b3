-- Jobs whose tasks end if nobody has started them by a time.

-- name: list_unstarted
-- Of jobs whose time has come, the next tasks that nobody has ever claimed, those that are overdue longest first. By
-- key from task to task: of a large job most may have been claimed. The `+ 0` is that of lock_due.
select due.job_id, unstarted.task_index
  from (select expiries.job_id, expiries.next_index
          from holdfast.expiries join holdfast.jobs on jobs.job_id = expiries.job_id + 0
         where expiries.expires_at <= (select holdfast.now()) and expiries.job_id <> all ($except_jobs::bigint[])
           and jobs.submitted_at is not null and jobs.finished_at is null and jobs.cancel_mode is null
         order by expiries.expires_at limit $batch_max) as due
 cross join lateral (
       select tasks.task_index from holdfast.tasks
        where tasks.job_id = due.job_id and tasks.task_index >= due.next_index
          and tasks.state = {PENDING} and tasks.attempt = 0
        order by tasks.task_index limit $batch_max) as unstarted
 limit $batch_max;

-- name: advance_expiries
update holdfast.expiries set next_index = greatest(expiries.next_index, mine.next_index)
  from unnest($job_ids::bigint[], $next_indexes::int[]) as mine(job_id, next_index)
 where expiries.job_id = mine.job_id;

-- name: delete_expiries
-- Of jobs of which nothing is left that could expire: a task that was claimed once is never as it was before.
delete from holdfast.expiries where job_id = any (array(
    select expiries.job_id
      from holdfast.expiries join holdfast.jobs on jobs.job_id = expiries.job_id + 0
     where expiries.expires_at <= (select holdfast.now()) and jobs.submitted_at is not null
       and (jobs.finished_at is not null or jobs.cancel_mode is not null
            or not exists (select from holdfast.tasks
                            where tasks.job_id = expiries.job_id and tasks.task_index >= expiries.next_index
                              and tasks.state = {PENDING} and tasks.attempt = 0))
     order by expiries.expires_at limit $batch_max
       for update of expiries skip locked))
returning job_id;

-- name: check_expiries
-- Rows as in audit/ledger.sql.
select 'job_without_its_expiry', jobs.job_id, null::int, null::int,
       'it is not over, its spec says when it expires, and nothing watches for that'
  from holdfast.jobs left join holdfast.expiries using (job_id)
 where jobs.spec ?| '{expires,expires_at}' and expiries.job_id is null and jobs.finished_at is null
   and jobs.submitted_at is not null and jobs.cancel_mode is null
   and exists (select from holdfast.tasks
                where tasks.job_id = jobs.job_id and tasks.state = {PENDING} and tasks.attempt = 0)
union all
select 'expiry_without_job', expiries.job_id, null::int, null::int, 'there is no job that would expire'
  from holdfast.expiries left join holdfast.jobs using (job_id)
 where jobs.job_id is null or not jobs.spec ?| '{expires,expires_at}';
