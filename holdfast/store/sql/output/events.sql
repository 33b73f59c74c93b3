-- name: insert_notes
with clock as materialized (select holdfast.now() as now)
insert into holdfast.notes (job_id, task_index, attempt, kind, ts, payload, expires_at)
select job_id, task_index, attempt, kind, clock.now, payload::json, clock.now + $time_to_live::interval
  from unnest($job_ids::bigint[], $task_indexes::int[], $attempts::int[], $kinds::text[],
              $payloads::text[]) as new(job_id, task_index, attempt, kind, payload),
       clock;

-- name: prune_notes
delete from holdfast.notes where id = any (array(
    select id from holdfast.notes where expires_at <= (select holdfast.now()) order by expires_at limit $batch_max))
returning 1;

-- name: read_partitions
select first_job_id, end_job_id from holdfast.partitions order by first_job_id;

-- name: lock_partitions
-- One maker of partitions at a time; the row locks of others are not in the way.
lock table holdfast.partitions in share row exclusive mode;

-- name: shorten_lock_timeout
select set_config('lock_timeout', $milliseconds, true);

-- name: add_partition
select holdfast.add_partition($first_job_id, $end_job_id);

-- name: summarise_events
select holdfast.summarise_events();

-- name: drop_partition
select holdfast.drop_partition($first_job_id);

-- name: read_job_id_pace
-- last_value of a sequence that was never used would claim one id too many; that is harmless here.
select (select last_value from holdfast.job_ids) as last_job_id,
       (select count(*) from (select from holdfast.jobs
                               where created_at > holdfast.now() - interval '1 day'
                               order by job_id desc limit $span_max::int) as recent) as jobs_last_day;

-- name: list_prunable_partitions
-- A range goes when its ids are used up, its jobs have been finished for long enough, nothing of it is
-- still ending, nobody has yet to hear of an end, and no dead letter of it waits for somebody's decision.
-- What looks at many rows of a range comes second, for ranges that could go otherwise.
with old as materialized (
    select first_job_id, end_job_id from holdfast.partitions
     where retired_at is null and end_job_id <= (select last_value from holdfast.job_ids)
       and not exists (select from holdfast.jobs
                        where job_id >= first_job_id and job_id < end_job_id
                          and (finished_at is null or finished_at > holdfast.now() - $older_than::interval))
       and not exists (select from holdfast.dead_letters
                        where job_id >= first_job_id and job_id < end_job_id
                          and replayed_at is null and discarded_at is null)
       and not exists (select from holdfast.leases where job_id >= first_job_id and job_id < end_job_id)
       and not exists (select from holdfast.outbox where job_id >= first_job_id and job_id < end_job_id)
       and not exists (select from holdfast.undos
                        where job_id >= first_job_id and job_id < end_job_id and ended_at is null)
       and not exists (select from holdfast.dependencies
                        where depends_on >= first_job_id and depends_on < end_job_id and closed_at is null)
     order by first_job_id
)
select first_job_id, end_job_id from old
 -- Nor while somebody may still ask for a result of it. `offset 0` asks job by job, by index.
 where not exists (select from (select job_id from holdfast.dependencies
                                 where depends_on >= first_job_id and depends_on < end_job_id) as dependents
                    where exists (select from holdfast.jobs as others
                                   where others.job_id = dependents.job_id and others.finished_at is null offset 0))
   -- Nor what may still have to be undone: when a job of the same graph fails. Graph by graph, not job by job.
   and not exists (select from (select distinct graph_id from holdfast.jobs
                                 where job_id >= first_job_id and job_id < end_job_id
                                   and graph_id is not null and spec ? 'compensation') as graphs
                    where exists (select from holdfast.jobs as others
                                   where others.graph_id = graphs.graph_id
                                     and (others.finished_at is null
                                          or others.finished_at > holdfast.now() - $older_than::interval)
                                  offset 0))
 order by first_job_id limit 1;

-- name: retire_partition
update holdfast.partitions set retired_at = holdfast.now()
 where first_job_id = $first_job_id and retired_at is null;

-- name: list_retired_partitions
select first_job_id, end_job_id from holdfast.partitions where retired_at is not null order by first_job_id;

-- name: lock_retired_partition
-- Another server may be at it: then it is skipped.
select first_job_id from holdfast.partitions
 where first_job_id = $first_job_id and retired_at is not null for update skip locked;

-- name: lock_jobs_of_partition
-- A submission that is about to depend on a job holds its row: that job is skipped.
select job_id from holdfast.jobs
 where job_id >= $first_job_id and job_id < $end_job_id
 order by job_id limit $batch_max for update skip locked;

-- name: list_jobs_in_use
select distinct dependencies.depends_on
  from holdfast.dependencies join holdfast.jobs using (job_id)
 where dependencies.depends_on = any ($job_ids::bigint[]) and jobs.finished_at is null;

-- name: delete_jobs
delete from holdfast.jobs where job_id = any ($job_ids::bigint[]);

-- name: has_jobs_of_partition
select from holdfast.jobs where job_id >= $first_job_id and job_id < $end_job_id limit 1;

-- name: delete_dead_letters_of_jobs
with gone as (
    delete from holdfast.dead_letters where ctid = any (array(
        select ctid from holdfast.dead_letters where job_id = any ($job_ids::bigint[]) limit $rows_max))
    returning 1
)
select count(*) from gone;

-- name: delete_ready_of_partition
with gone as (
    delete from holdfast.ready where ctid = any (array(
        select ctid from holdfast.ready where job_id >= $first_job_id and job_id < $end_job_id limit $rows_max))
    returning 1
),
ungated as (
    delete from holdfast.gated where ctid = any (array(
        select ctid from holdfast.gated where job_id >= $first_job_id and job_id < $end_job_id limit $rows_max))
    returning 1
)
select (select count(*) from gone) + (select count(*) from ungated);
