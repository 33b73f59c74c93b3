-- name: walk_broken
-- Around jobs, what a failure has broken: up to what they needed and did not get, down to what waited for them in
-- vain. What has succeeded and was undone since is broken, too. What a person was first to cancel is left alone, unless
-- something else needs it. By key from job to job (offset 0), whatever the statistics say of tables that were small.
with recursive broken(job_id) as (
    select job_id from unnest($job_ids::bigint[]) as given(job_id)
    union
    select found.job_id
      from broken
     cross join lateral (
           select needed.job_id
             from holdfast.dependencies join holdfast.jobs as needed on needed.job_id = dependencies.depends_on
            where dependencies.job_id = broken.job_id and dependencies.condition = 'succeeded'
              and needed.finished_at is not null
              and (needed.state <> {SUCCEEDED}
                   or exists (select from holdfast.undos where undos.job_id = needed.job_id offset 0))
            union all
           select waiting.job_id
             from holdfast.dependencies join holdfast.jobs as waiting on waiting.job_id = dependencies.job_id
            where dependencies.depends_on = broken.job_id and dependencies.condition = 'succeeded'
              and waiting.finished_at is not null
              and (exists (select from holdfast.undos where undos.job_id = waiting.job_id offset 0)
                   or waiting.state <> {SUCCEEDED}
                      and (waiting.cancel_mode is null
                           or (select events.actor from holdfast.events
                                where events.job_id = waiting.job_id and events.task_index = -1
                                  and events.type = 'cancel_requested' order by events.seq limit 1) = 'server'))
           ) as found
)
select job_id from broken limit $count_max;

-- name: list_in_vain
-- Jobs for which others have waited in vain, as above, and were not run again since.
select mine.job_id
  from unnest($job_ids::bigint[]) as mine(job_id)
  join holdfast.jobs on jobs.job_id = mine.job_id
 where jobs.state <> {SUCCEEDED} and exists (
       select from holdfast.dependencies join holdfast.jobs as waiting on waiting.job_id = dependencies.job_id
        where dependencies.depends_on = mine.job_id and dependencies.condition = 'succeeded'
          and waiting.finished_at is not null and waiting.state <> {SUCCEEDED}
          and (waiting.cancel_mode is null
               or (select events.actor from holdfast.events
                    where events.job_id = waiting.job_id and events.task_index = -1
                      and events.type = 'cancel_requested' order by events.seq limit 1) = 'server')
          and not exists (select from holdfast.events
                           where events.job_id = waiting.job_id and events.task_index = -1
                             and events.type = 'replayed' offset 0)
       offset 0)
 order by mine.job_id;

-- name: read_resumable
-- By key (limit 1), as above.
select mine.job_id, jobs.state, jobs.finished_at is not null as is_ended, jobs.cancel_mode is not null as is_cancelled,
       jobs.pending + jobs.assigned + jobs.building + jobs.running as live, jobs.fan_out, jobs.num_tasks,
       jobs.succeeded, jobs.replay_of, earlier.continues, jobs.compensates_job_id, jobs.graph_id, jobs.seq,
       undo.job_id is not null as is_undone, undo.job_id is not null and undo.ended_at is null as is_being_undone
  from unnest($job_ids::bigint[]) as mine(job_id)
  join holdfast.jobs on jobs.job_id = mine.job_id
  left join lateral (
       select continues from holdfast.continuations where continuations.job_id = mine.job_id limit 1) as earlier on true
  left join lateral (
       select undos.job_id, ended_at from holdfast.undos where undos.job_id = mine.job_id limit 1) as undo on true
 where jobs.submitted_at is not null;

-- name: list_replays
-- By the events of the jobs that were replayed: links are followed down rarely, and have no index.
select events.job_id, (events.payload ->> 'job_id')::bigint as replay
  from holdfast.events
 where events.job_id = any ($job_ids::bigint[]) and events.task_index = -1 and events.type = 'replayed'
 order by events.job_id, events.seq;

-- name: lock_open_letters
-- Job by job: for one list of all of them, ordered, PostgreSQL 15 would read every letter there is.
select letters.job_id, letters.task_index
  from (select unnest($job_ids::bigint[]) as job_id order by 1) as mine
 cross join lateral (
     select job_id, task_index from holdfast.dead_letters
      where dead_letters.job_id = mine.job_id and replayed_at is null and discarded_at is null
      order by task_index for update) as letters;

-- name: lock_streams
-- What becomes of an ended job, such as a replay, is in its stream.
select job_id, seq from holdfast.jobs where job_id = any ($job_ids::bigint[]) order by job_id for update;

-- name: hold_streams
-- Several may build on the same replays at once: they are not written to.
select job_id, seq from holdfast.jobs where job_id = any ($job_ids::bigint[]) order by job_id for share;

-- name: insert_continuations
-- Of new replays, those that run exactly what did not succeed. What was undone counts no more. By key, as above.
insert into holdfast.continuations (job_id, continues)
select new.job_id, old.job_id
  from unnest($job_ids::bigint[]) as mine(job_id)
  join holdfast.jobs as new using (job_id)
  join holdfast.jobs as old on old.job_id = new.replay_of
 where old.fan_out and old.finished_at is not null and old.pending + old.assigned + old.building + old.running = 0
   and new.num_tasks = old.num_tasks - old.succeeded
   and (old.succeeded > 0
        or exists (select from holdfast.continuations where continuations.job_id = old.job_id offset 0))
   and not exists (select from holdfast.undos where undos.job_id = old.job_id offset 0);

-- name: continue_with_fills
-- What is missing besides was made good by replays of single dead letters. One of them may have continued another of
-- them until now: from here on, it stands for the whole job, unless others but the new jobs build on what it was.
insert into holdfast.continuations (job_id, continues)
select job_id, continues from unnest($job_ids::bigint[], $continues::bigint[]) as mine(job_id, continues)
    on conflict (job_id) do update set continues = excluded.continues
 where continuations.continues = excluded.continues
    or not exists (select from holdfast.dependencies
                    where dependencies.depends_on = excluded.job_id
                      and dependencies.job_id <> all ($new_job_ids::bigint[]) offset 0)
returning job_id;
