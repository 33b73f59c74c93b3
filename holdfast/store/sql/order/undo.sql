-- name: read_causes
-- An attempt that ended without its worker's word may have run, whatever was recorded of its start.
select job_id, graph_id,
       pending + assigned + building + running = 0
       and not exists (select from holdfast.leases where leases.job_id = jobs.job_id) as is_released,
       spec ? 'compensation'
       and exists (select from holdfast.attempts
                    where attempts.job_id = jobs.job_id and (attempts.started_at is not null or not attempts.reported))
         as is_undone_itself
  from holdfast.jobs
 where job_id = any ($job_ids::bigint[]);

-- name: find_used_jobs
-- Up the graph from jobs that ended unsuccessfully: what they depend on and has succeeded, and what is
-- still live. The way ends at others that ended unsuccessfully: they go up from there themselves.
with recursive used(cause_job_id, graph_id, job_id) as (
    select causes.job_id, causes.graph_id, dependencies.depends_on
      from holdfast.jobs as causes join holdfast.dependencies using (job_id)
     where causes.job_id = any ($job_ids::bigint[]) and causes.graph_id is not null
    union
    select used.cause_job_id, used.graph_id, dependencies.depends_on
      from used
      join holdfast.jobs on jobs.job_id = used.job_id and jobs.graph_id = used.graph_id
       and (jobs.finished_at is null or jobs.state = {SUCCEEDED})
      join holdfast.dependencies on dependencies.job_id = used.job_id
)
select used.cause_job_id, used.job_id, used.graph_id, jobs.finished_at is null as is_live
  from used join holdfast.jobs on jobs.job_id = used.job_id and jobs.graph_id = used.graph_id
 where jobs.finished_at is null or jobs.state = {SUCCEEDED} and jobs.spec ? 'compensation'
 order by used.job_id, used.cause_job_id;

-- name: insert_undos
insert into holdfast.undos (job_id, graph_id, cause_job_id, requested_at)
select job_id, graph_id, cause_job_id, holdfast.now()
  from unnest($job_ids::bigint[], $graph_ids::bigint[], $cause_job_ids::bigint[])
         as new(job_id, graph_id, cause_job_id)
 order by job_id
on conflict (job_id) do nothing
returning graph_id;

-- name: read_open_undos
-- Used by a job is what that depends on, directly or not: as long as it may run, and as long as it has
-- ended unsuccessfully and what that means for others has not been noted.
with recursive busy as materialized (
    select job_id from holdfast.jobs
     where graph_id = $graph_id
       and (finished_at is null or pending + assigned + building + running > 0
            or exists (select from holdfast.leases where leases.job_id = jobs.job_id)
            or exists (select from holdfast.outbox where outbox.kind = 'undo' and outbox.job_id = jobs.job_id))
),
used(job_id) as (
    select dependencies.depends_on from busy join holdfast.dependencies using (job_id)
    union
    select dependencies.depends_on from used join holdfast.dependencies using (job_id)
)
select undos.job_id, undos.compensation_job_id is not null, jobs.state <> {SUCCEEDED}, ends.number,
       jobs.pending + jobs.assigned + jobs.building + jobs.running = 0
       and not exists (select from holdfast.leases where leases.job_id = jobs.job_id),
       exists (select from used where used.job_id = undos.job_id)
  from holdfast.undos join holdfast.jobs using (job_id)
 -- When a job ended is told by the number of its event: a clock may have been set back since.
 cross join lateral (select coalesce(max(id), 0) as number from holdfast.events
                      where events.job_id = undos.job_id and task_index = -1
                        and type in ('succeeded', 'failed', 'killed', 'worker_failed', 'unschedulable',
                                     'dead_lettered')) as ends
 where undos.graph_id = $graph_id and undos.ended_at is null
 -- The order of holdfast.rules.undo: a graph may have thousands of them, and the first ones are enough.
 order by undos.compensation_job_id is null, jobs.state = {SUCCEEDED}, ends.number desc, undos.job_id desc
 limit $batch_max;

-- name: lock_undo_graph
-- All rows of the graph: of two that are at it, the second sees the row of the first, and waits for it.
select id from holdfast.outbox
 where kind = 'undo_graph' and job_id = $graph_id order by id for update;

-- name: has_unsubmitted_undos
select from holdfast.undos
 where graph_id = $graph_id and ended_at is null and compensation_job_id is null limit 1;

-- name: measure_undone_tasks
select count(*) as num_tasks, coalesce(sum(octet_length(tasks.input::text)), 0)::bigint as bytes
  from holdfast.tasks
 where tasks.job_id = $job_id
   and exists (select from holdfast.attempts
                where attempts.job_id = tasks.job_id and attempts.task_index = tasks.task_index
                  and (attempts.started_at is not null or not attempts.reported));

-- name: read_undone_tasks
select tasks.task_index, tasks.state, tasks.input::text, tasks.result::text, last.error
  from holdfast.tasks
 cross join lateral (
       select attempts.error from holdfast.attempts
        where attempts.job_id = tasks.job_id and attempts.task_index = tasks.task_index
        order by attempts.attempt desc limit 1) as last
 where tasks.job_id = $job_id and tasks.task_index > $after
   and exists (select from holdfast.attempts
                where attempts.job_id = tasks.job_id and attempts.task_index = tasks.task_index
                  and (attempts.started_at is not null or not attempts.reported))
 order by tasks.task_index
 limit $batch_max;

-- name: read_undone_outputs
-- In the order of tasks, as many as there is room for; each row says how many there are.
with listed as (
    select task_index, dataset, key,
           json_build_object('dataset', dataset, 'version', version, 'key', key, 'partition_key', partition_key,
                             'uri', uri, 'size_bytes', size_bytes, 'checksum', checksum, 'metadata', metadata)::text
             as text
      from holdfast.dataset_entries
     where job_id = $job_id and copied_from is null
     order by task_index, dataset, key
     limit $batch_max
),
summed as (
    select task_index, dataset, key, text, count(*) over () as available,
           sum(octet_length(text)) over (order by task_index, dataset, key) as size
      from listed
)
select task_index, text, available from summed where size <= $bytes_max order by task_index, dataset, key;

-- name: read_undone_job
select state, error from holdfast.jobs where job_id = $job_id;

-- name: note_compensation
update holdfast.undos set compensation_job_id = $compensation_job_id
 where job_id = $job_id and compensation_job_id is null
returning job_id;

-- name: list_compensations
select family.job_id, family.replay_of, family.state, exists (
           select from holdfast.dead_letters
            where dead_letters.job_id = family.job_id and dead_letters.replayed_as is null)
  from holdfast.jobs as family
 where family.compensates_job_id = $job_id and family.submitted_at is not null
 order by family.job_id;

-- name: read_compensates
select compensates_job_id from holdfast.jobs where job_id = $job_id;

-- name: end_undo
-- Success is noted once; a compensation that failed may still succeed in a replay.
update holdfast.undos
   set compensation_job_id = coalesce(compensation_job_id, $compensation_job_id),
       ended_at = coalesce(ended_at, holdfast.now()), succeeded = $succeeded
 where job_id = $job_id and succeeded is not true
returning graph_id;
