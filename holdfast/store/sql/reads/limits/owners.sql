-- name: count_live_tasks
select jobs.owner, sum(jobs.pending + jobs.assigned + jobs.building + jobs.running)
  from holdfast.job_states join holdfast.jobs using (job_id)
 where job_states.state in ({LIVE})
 group by jobs.owner;

-- name: list_ranges
-- Of which nothing is live any more, nothing more comes; the newest still gets jobs.
select first_job_id, end_job_id,
       exists (select from holdfast.job_states
                where state in ({LIVE}) and job_id >= first_job_id and job_id < end_job_id)
       or end_job_id > (select last_value from holdfast.job_ids) as may_change
  from holdfast.partitions order by first_job_id;

-- name: count_bytes
-- As they are stored: what is compressed counts as that.
select owner, sum(bytes)::bigint
  from (select owner, pg_column_size(spec) as bytes from holdfast.jobs
         where job_id >= $first_job_id and job_id < $end_job_id
        union all
        select jobs.owner, coalesce(pg_column_size(tasks.input), 0) + coalesce(pg_column_size(tasks.result), 0)
          from holdfast.tasks join holdfast.jobs using (job_id)
         where tasks.job_id >= $first_job_id and tasks.job_id < $end_job_id
           and jobs.job_id >= $first_job_id and jobs.job_id < $end_job_id
        union all
        select jobs.owner, pg_column_size(logs.content)
          from holdfast.logs join holdfast.jobs using (job_id)
         where logs.job_id >= $first_job_id and logs.job_id < $end_job_id
        union all
        select jobs.owner, pg_column_size(checkpoints.checkpoint)
          from holdfast.checkpoints join holdfast.jobs using (job_id)
         where checkpoints.job_id >= $first_job_id and checkpoints.job_id < $end_job_id
        union all
        select jobs.owner, pg_column_size(signals.payload)
          from holdfast.signals join holdfast.jobs using (job_id)
         where signals.job_id >= $first_job_id and signals.job_id < $end_job_id) as kept
 group by owner;
