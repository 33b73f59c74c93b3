-- name: list_sized_heads
-- The jobs at the heads of queues whose tasks name resources, how many of them stand there, and since when.
with heads as materialized (
    select counted.queue, counted.job_id, count(*)::int as tasks, min(counted.eligible_at) as since
      from (select wanted.queue, line.job_id, line.eligible_at
              from unnest($queues::text[]) as wanted(queue)
             cross join lateral (
                   select ready.job_id, ready.eligible_at
                     from holdfast.ready
                    where ready.queue = wanted.queue
                    order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
                    limit $head_max) as line
             limit $tasks_max) as counted
     group by counted.queue, counted.job_id
)
select heads.queue, heads.job_id, heads.tasks, heads.since, (jobs.spec -> 'resources')::text as resources
  from heads join holdfast.jobs using (job_id)
 where jsonb_typeof(jobs.spec -> 'resources') = 'object' and jobs.cancel_mode is null and jobs.finished_at is null
 order by heads.since, heads.job_id;

-- name: read_resources
select (spec -> 'resources')::text from holdfast.jobs
 where job_id = $job_id and jsonb_typeof(spec -> 'resources') = 'object';
