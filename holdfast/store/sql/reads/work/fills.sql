-- name: list_replayed_tasks
-- Each replay of dead letters runs those of one job, in the order of their ids: by that, which task ran which again.
-- What was undone before the job that goes on with them was submitted, if there is one, counts no more.
-- By key (limit 1), whatever the statistics say of tables that were small.
with letters as materialized (
    select job_id, task_index, replayed_as,
           row_number() over (partition by job_id, replayed_as order by task_index) - 1 as replay_index,
           count(*) over (partition by job_id, replayed_as) as amount
      from holdfast.dead_letters
     where job_id = any ($job_ids::bigint[]) and replayed_as < $before
)
select letters.job_id, letters.task_index, letters.replayed_as, letters.replay_index::int, task.state,
       replay.finished_at is not null and replay.live = 0 as has_ended, replay.seq
  from letters
 cross join lateral (
       select finished_at, pending + assigned + building + running as live, num_tasks, seq from holdfast.jobs
        where jobs.job_id = letters.replayed_as and jobs.replay_of = letters.job_id and jobs.fan_out
          and not exists (select from holdfast.undos
                           where undos.job_id = letters.replayed_as and undos.requested_at < coalesce(
                                 (select submitted_at from holdfast.jobs where jobs.job_id = $before), 'infinity')
                          offset 0)
        limit 1) as replay
 cross join lateral (
       select state from holdfast.tasks
        where tasks.job_id = letters.replayed_as and tasks.task_index = letters.replay_index limit 1) as task
 where replay.num_tasks = letters.amount
 order by letters.job_id, letters.task_index;
