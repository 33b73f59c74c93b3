-- name: list_unmet
-- Not by `closed_at`: so the index of all that is open is none for it, only that of the job. And whether a chain
-- stands still there: the other job has failed, and nobody has let it pass.
select unmet.depends_on,
       unmet.on_failure = 'block' and jobs.finished_at is not null and jobs.state <> {SUCCEEDED}
       and jobs.cancel_mode is null as stands_still
  from (select depends_on, coalesce(on_failure, '') as on_failure from holdfast.dependencies
         where job_id = $job_id and holds is null
         order by depends_on limit $count_max) as unmet
 cross join lateral (
       select state, finished_at, cancel_mode from holdfast.jobs
        where jobs.job_id = unmet.depends_on offset 0) as jobs
 order by unmet.depends_on;

-- name: walk_up
-- Breadth first, and no further than asked: a recursion is run as far as its rows are fetched.
with recursive above(job_id) as (
    select $job_id::bigint
    union
    select following.depends_on
      from above cross join lateral (
           select dependencies.depends_on from holdfast.dependencies
            where dependencies.job_id = above.job_id
            order by dependencies.depends_on limit $count_max) as following
)
select job_id from above limit $count_max;

-- name: walk_down
with recursive below(job_id) as (
    select $job_id::bigint
    union
    select following.job_id
      from below cross join lateral (
           select dependencies.job_id from holdfast.dependencies
            where dependencies.depends_on = below.job_id
            order by dependencies.job_id limit $count_max) as following
)
select job_id from below limit $count_max;

-- name: read_graph_jobs
-- With those that undo them. A lateral with a limit is a look-up by key.
select job.job_id, job.name, job.type, job.state, job.graph_id, job.compensates_job_id
  from unnest($job_ids::bigint[]) as mine(job_id)
 cross join lateral (
       (select * from holdfast.jobs where jobs.job_id = mine.job_id limit 1)
       union all
       (select * from holdfast.jobs
         where jobs.compensates_job_id = mine.job_id and jobs.replay_of is null limit 1)) as job
 where job.submitted_at is not null;

-- name: list_edges
-- From both ends: of a job that has more than are looked at, those that led to others are among the first.
select distinct edge.job_id, edge.depends_on, edge.condition, edge.holds
  from unnest($job_ids::bigint[]) as mine(job_id)
 cross join lateral (
       (select * from holdfast.dependencies
         where dependencies.job_id = mine.job_id order by dependencies.depends_on limit $jobs_max)
       union all
       (select * from holdfast.dependencies
         where dependencies.depends_on = mine.job_id order by dependencies.job_id limit $jobs_max)) as edge
 where edge.job_id = any ($job_ids::bigint[]) and edge.depends_on = any ($job_ids::bigint[])
 order by edge.job_id, edge.depends_on limit $count_max;
