-- name: share_ready
-- How many of the best tasks of all these queues each of them has; nothing is locked.
select best.queue, count(*)::int
  from (select wanted.queue
          from unnest($queues::text[]) as wanted(queue)
         cross join lateral (
               select ready.urgency, ready.eligible_at
                 from holdfast.ready
                where ready.queue = wanted.queue
                order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
                limit $tasks_max) as head
         where not exists (select from holdfast.queues where queues.queue = wanted.queue)
         order by head.urgency, head.eligible_at
         limit $tasks_max) as best
 group by best.queue;

-- name: take_ready
-- The rows are deleted by the claim that takes them; one that is stale (its task was cancelled) goes
-- with it, and one whose task somebody holds stays. One index range per queue, then the best of all: a
-- sort over `queue = any` reads a million.
with picked as materialized (
    select head.*
      from unnest($queues::text[], $shares::int[]) as wanted(queue, share)
     cross join lateral (
           select ready.ctid as row_id, ready.urgency, ready.eligible_at, ready.unschedulable_at, tasks.job_id,
                  tasks.task_index, tasks.state, tasks.attempt, tasks.failure_count, tasks.preemption_count,
                  tasks.free_loss_count, tasks.input
             from holdfast.ready
             join holdfast.tasks on tasks.job_id = ready.job_id and tasks.task_index = ready.task_index
            where ready.queue = wanted.queue
            order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
            limit wanted.share
              for update of ready, tasks skip locked) as head
     where not exists (select from holdfast.queues where queues.queue = wanted.queue)
     order by head.urgency, head.eligible_at
     limit $tasks_max
),
taken as (
    delete from holdfast.ready where ctid = any (array(select row_id from picked))
)
select picked.job_id, picked.task_index, picked.state, picked.attempt, picked.failure_count,
       picked.preemption_count, picked.free_loss_count, picked.input,
       jobs.submitted_at is not null and jobs.finished_at is null and jobs.cancel_mode is null
       as job_is_live, picked.urgency, picked.eligible_at, picked.unschedulable_at as gives_up_at
  from picked join holdfast.jobs using (job_id);

-- name: take_ready_from
-- As take_ready, but each queue is looked at from a place in its order on: the dead rows before it, which
-- vacuum may not remove, are not stepped over.
with picked as materialized (
    select head.*
      from unnest($queues::text[], $urgencies::int[], $eligible_at::timestamptz[], $job_ids::bigint[],
                  $task_indexes::int[]) as wanted(queue, urgency, eligible_at, job_id, task_index)
     cross join lateral (
           select ready.ctid as row_id, ready.queue, ready.urgency, ready.eligible_at, ready.unschedulable_at,
                  tasks.job_id, tasks.task_index, tasks.state, tasks.attempt, tasks.failure_count,
                  tasks.preemption_count, tasks.free_loss_count, tasks.input
             from holdfast.ready
             join holdfast.tasks on tasks.job_id = ready.job_id and tasks.task_index = ready.task_index
            where ready.queue = wanted.queue
              and (ready.urgency, ready.eligible_at, ready.job_id, ready.task_index)
                  >= (wanted.urgency, wanted.eligible_at, wanted.job_id, wanted.task_index)
            order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
            limit $tasks_max
              for update of ready, tasks skip locked) as head
     where not exists (select from holdfast.queues where queues.queue = wanted.queue)
     order by head.urgency, head.eligible_at
     limit $tasks_max
),
taken as (
    delete from holdfast.ready where ctid = any (array(select row_id from picked))
)
select picked.job_id, picked.task_index, picked.state, picked.attempt, picked.failure_count,
       picked.preemption_count, picked.free_loss_count, picked.input,
       jobs.submitted_at is not null and jobs.finished_at is null and jobs.cancel_mode is null
       as job_is_live, picked.urgency, picked.eligible_at, picked.unschedulable_at as gives_up_at, picked.queue
  from picked join holdfast.jobs using (job_id);

-- name: read_line
-- The first tasks of queues, in order; nothing is locked, and some may be gone by the time they are taken.
select head.job_id, head.task_index, wanted.queue,
       tasks.state <> {PENDING} or jobs.cancel_mode is not null or jobs.finished_at is not null as is_stale
  from unnest($queues::text[]) as wanted(queue)
 cross join lateral (
       select ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
         from holdfast.ready
        where ready.queue = wanted.queue
        order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
        limit $tasks_max) as head
  join holdfast.tasks on tasks.job_id = head.job_id and tasks.task_index = head.task_index
  join holdfast.jobs on jobs.job_id = head.job_id
 where not exists (select from holdfast.queues where queues.queue = wanted.queue)
 order by head.urgency, head.eligible_at, head.job_id, head.task_index
 limit $tasks_max;

-- name: drop_stale
-- A row whose task has moved on, or whose job has ended, never becomes true again.
with head as materialized (
    select first.row_id, first.job_id, first.task_index
      from unnest($queues::text[]) as wanted(queue)
     cross join lateral (
           select ready.ctid as row_id, ready.job_id, ready.task_index
             from holdfast.ready
            where ready.queue = wanted.queue
            order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
            limit $batch_max
              for update skip locked) as first
),
stale as materialized (
    select head.row_id
      from head join holdfast.tasks using (job_id, task_index) join holdfast.jobs using (job_id)
     where tasks.state <> {PENDING} or jobs.cancel_mode is not null or jobs.finished_at is not null
)
delete from holdfast.ready where ctid = any (array(select row_id from stale));

-- name: leave_line
-- Tasks that are about to be killed. Before they are locked, and only what nobody holds: in that order nothing
-- waits for a row of the line. What is left over, the next claim drops, or the chore below.
with ungated as (
    delete from holdfast.gated where ctid = any (array(
        select gated.ctid
          from unnest($job_ids::bigint[], $first_indexes::int[], $end_indexes::int[]) as mine(job_id, first, next)
          join holdfast.gated
            on gated.job_id = mine.job_id and gated.task_index >= mine.first
           and gated.task_index < mine.next
           for update of gated skip locked))
)
delete from holdfast.ready where ctid = any (array(
    select ready.ctid
      from unnest($job_ids::bigint[], $first_indexes::int[], $end_indexes::int[])
             as mine(job_id, first_index, end_index)
      join holdfast.jobs using (job_id)
      join holdfast.tasks
        on tasks.job_id = mine.job_id and tasks.task_index >= mine.first_index and tasks.task_index < mine.end_index
     cross join lateral (
           select ready.ctid from holdfast.ready
            where ready.queue = coalesce(jobs.queue, '') and ready.urgency = -jobs.priority
              and ready.eligible_at = greatest(tasks.eligible_at, jobs.released_at)
              and ready.job_id = tasks.job_id and ready.task_index = tasks.task_index
            limit 1
              for update skip locked) as ready));

-- name: drop_stale_heads
-- Of queues that nobody claims from: without this, cancelled tasks would count as waiting there. From queue to
-- queue by the index, a stretch of them; locked is only what is stale, so that no claim passes over a task that is
-- not. Returns how many went, and the last queue of the stretch, if there may be more.
with recursive heads as (
    (select ready.queue from holdfast.ready where ready.queue > $after::text order by ready.queue limit 1)
    union all
    select (select ready.queue from holdfast.ready where ready.queue > heads.queue order by ready.queue limit 1)
      from heads where heads.queue is not null
),
known as materialized (select heads.queue from heads where heads.queue is not null limit $queues_max),
stale as materialized (
    select head.row_id
      from known
     cross join lateral (
           select ready.ctid as row_id, ready.job_id, ready.task_index
             from holdfast.ready
            where ready.queue = known.queue
            order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
            limit $head_max) as head
      join holdfast.tasks on tasks.job_id = head.job_id and tasks.task_index = head.task_index
      join holdfast.jobs on jobs.job_id = head.job_id
     where tasks.state <> {PENDING} or jobs.cancel_mode is not null or jobs.finished_at is not null
),
dropped as (
    delete from holdfast.ready where ctid = any (array(
        select ready.ctid from holdfast.ready where ready.ctid = any (array(select row_id from stale))
           for update skip locked))
    returning 1
)
select (select count(*) from dropped)::int as dropped,
       case when (select count(*) from known) = $queues_max then (select max(queue) from known) end as last_queue;

-- name: take_ready_by_id
with picked as materialized (
    select ready.ctid as row_id
      from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
      join holdfast.tasks using (job_id, task_index)
      join holdfast.jobs using (job_id)
     cross join lateral (
           select ready.ctid from holdfast.ready
            where ready.queue = jobs.queue and ready.urgency = -jobs.priority
              and ready.eligible_at = greatest(tasks.eligible_at, jobs.released_at)
              and ready.job_id = tasks.job_id and ready.task_index = tasks.task_index
            limit 1
              for update skip locked) as ready
     where not exists (select from holdfast.queues where queues.queue = jobs.queue)
),
taken as (
    delete from holdfast.ready where ctid = any (array(select row_id from picked))
    returning urgency, eligible_at, unschedulable_at, job_id, task_index
)
select tasks.job_id, tasks.task_index, tasks.state, tasks.attempt, tasks.failure_count,
       tasks.preemption_count, tasks.free_loss_count, tasks.input,
       jobs.submitted_at is not null and jobs.finished_at is null and jobs.cancel_mode is null
       as job_is_live, taken.urgency, taken.eligible_at, taken.unschedulable_at as gives_up_at
  from taken join holdfast.tasks using (job_id, task_index) join holdfast.jobs using (job_id)
 order by tasks.job_id, tasks.task_index
   for update of tasks;

-- name: explain_unclaimable
-- Why a claim by id got nothing; read after the fact, it only words the refusal. A row that is still
-- ready is in the hands of another claim.
select mine.job_id, mine.task_index,
       case when tasks.state is null or jobs.submitted_at is null then 'not_found'
            when tasks.finished_at is not null then 'finished'
            when jobs.cancel_mode is not null or jobs.finished_at is not null then 'cancelled'
            when tasks.state <> {PENDING} then 'already_running'
            when queues.queue is not null then 'paused'
            when jobs.queue is null then 'not_claimable'
            when ready.job_id is not null then 'already_running'
            when gated.job_id is not null then 'limited'
            else 'not_eligible' end as reason
  from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
  left join holdfast.tasks using (job_id, task_index)
  left join holdfast.jobs using (job_id)
  left join holdfast.queues on queues.queue = jobs.queue
  left join lateral (
       select ready.job_id from holdfast.ready
        where ready.queue = jobs.queue and ready.urgency = -jobs.priority
          and ready.eligible_at = greatest(tasks.eligible_at, jobs.released_at)
          and ready.job_id = mine.job_id and ready.task_index = mine.task_index
        limit 1) as ready on true
  left join holdfast.gated on gated.job_id = mine.job_id and gated.task_index = mine.task_index;

-- name: insert_ready
-- In a queue that is shared, tasks stand in the lines of their shares.
with new as materialized (
    select given.*, queue = any ((select holdfast.shared_queues())::text[]) as is_shared
      from unnest($queues::text[], $urgencies::int[], $eligible_at::timestamptz[], $job_ids::bigint[],
                  $first_indexes::int[], $end_indexes::int[], $scheduling_timeouts::interval[])
             as given(queue, urgency, eligible_at, job_id, first_index, end_index, scheduling_timeout)
),
lined as (
    insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at)
    select queue, urgency, eligible_at, job_id, task_index, eligible_at + scheduling_timeout
      from new, generate_series(new.first_index, new.end_index - 1) as task_index
     where not is_shared
)
select holdfast.gate(array_agg(job_id), array_agg(task_index), array_agg(eligible_at + scheduling_timeout))
  from new, generate_series(new.first_index, new.end_index - 1) as task_index
 where is_shared;

-- name: insert_waiting
insert into holdfast.waiting (job_id, task_index, eligible_at)
select job_id, task_index, eligible_at
  from unnest($eligible_at::timestamptz[], $job_ids::bigint[], $first_indexes::int[],
              $end_indexes::int[]) as new(eligible_at, job_id, first_index, end_index),
       generate_series(new.first_index, new.end_index - 1) as task_index;

-- name: lock_due
-- What is held is left for next time. A clock asked once can end the index; with `+ 0` no plan begins with tasks.
select due.job_id, due.task_index
  from holdfast.waiting as due
  join holdfast.tasks on (tasks.job_id, tasks.task_index) = (due.job_id + 0, due.task_index)
 where due.eligible_at <= (select holdfast.now())
   and not exists (select from holdfast.leases
                    where leases.job_id = due.job_id and leases.task_index = due.task_index)
   and due.job_id <> all ($except_jobs::bigint[])
 order by due.eligible_at
 limit $batch_max
   for update of due, tasks skip locked;

-- name: promote_waiting
-- Tasks are locked: none gets or loses a lease meanwhile. Time in line counts from when it could be taken at last.
with clock as materialized (select holdfast.now() as now),
due as (
    delete from holdfast.waiting
     using unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index), clock
     where waiting.job_id = any (array[mine.job_id]) and waiting.task_index = mine.task_index
       and coalesce(waiting.eligible_at, 'infinity') <= clock.now
       and not exists (select from holdfast.leases
                        where leases.job_id = any (array[mine.job_id]) and leases.task_index = mine.task_index)
    returning waiting.job_id, waiting.task_index
),
new as materialized (
    select coalesce(jobs.queue, '') as queue, -jobs.priority as urgency,
           greatest(tasks.eligible_at, jobs.released_at) as eligible_at, job_id, task_index,
           clock.now + (jobs.spec ->> 'scheduling_timeout')::float * interval '1 second' as give_up,
           -- A placed retry keeps away from the worker of the attempt before, where it can.
           case when jobs.queue is null and tasks.attempt > 0 and not jobs.spec ? 'coscheduling' then (
               select workers.name from holdfast.attempts join holdfast.workers using (worker_id)
                where attempts.job_id = tasks.job_id and attempts.task_index = tasks.task_index
                  and attempts.attempt = tasks.attempt - 1) end as avoid,
           coalesce(jobs.queue, '') = any ((select holdfast.shared_queues())::text[]) as is_shared
      from due join holdfast.tasks using (job_id, task_index) join holdfast.jobs using (job_id), clock
     where tasks.state = {PENDING}
),
lined as (
    insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at, avoid)
    select queue, urgency, eligible_at, job_id, task_index, give_up, avoid from new where not is_shared
)
select job_id, task_index, queue
  from new
 -- Once for all of them: in a join it was asked for each.
 where (select holdfast.gate(array_agg(job_id), array_agg(task_index), array_agg(give_up))
          from new where is_shared) >= 0;

-- name: list_overdue
-- A gang has waited as long as its last member: before, it could not be placed. Locked to leave out what is held.
with clock as materialized (select holdfast.now() as now)
select ready.job_id, ready.task_index
  from clock cross join holdfast.ready join holdfast.tasks using (job_id, task_index)
 where ready.unschedulable_at <= clock.now and ready.job_id <> all ($except_jobs::bigint[])
   and not (ready.queue = '' and exists (
       select from holdfast.jobs
        where jobs.job_id = ready.job_id and jobs.spec ? 'coscheduling'
          and (exists (select from holdfast.waiting where waiting.job_id = jobs.job_id)
               or exists (select from holdfast.ready as sibling
                           where sibling.queue = '' and sibling.job_id = jobs.job_id
                             and sibling.unschedulable_at > clock.now))))
 order by ready.unschedulable_at
 limit $batch_max
   for update of ready, tasks skip locked;

-- name: take_overdue
-- By key: with a plain comparison the planner may read the index of all deadlines instead.
with picked as materialized (
    select ready.ctid as row_id
      from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
      join holdfast.tasks using (job_id, task_index)
      join holdfast.jobs using (job_id)
     cross join lateral (
           select ready.ctid from holdfast.ready
            where ready.queue = coalesce(jobs.queue, '') and ready.urgency = -jobs.priority
              and ready.eligible_at = greatest(tasks.eligible_at, jobs.released_at)
              and ready.job_id = tasks.job_id and ready.task_index = tasks.task_index
              and coalesce(ready.unschedulable_at, 'infinity') <= holdfast.now()
            limit 1
              for update skip locked) as ready
)
delete from holdfast.ready where ctid = any (array(select row_id from picked))
returning job_id, task_index;

-- name: feed_ready
-- The next stretch of a job that was shown before all of its tasks stood in line: a large one, or one that
-- waited for others. Those are eligible from the moment of their release on.
with clock as materialized (select holdfast.now() as now),
stretch as materialized (
    select tasks.job_id, tasks.task_index, tasks.eligible_at
      from unnest($job_ids::bigint[], $task_indexes::int[]) as mine(job_id, task_index)
      join holdfast.tasks using (job_id, task_index)
     where tasks.state = {PENDING} and tasks.attempt = 0
),
later as (
    insert into holdfast.waiting (job_id, task_index, eligible_at)
    select job_id, task_index, eligible_at from stretch, clock where eligible_at > clock.now
),
new as materialized (
    select coalesce(jobs.queue, '') as queue, -jobs.priority as urgency,
           greatest(stretch.eligible_at, jobs.released_at) as eligible_at, job_id, stretch.task_index,
           clock.now + (jobs.spec ->> 'scheduling_timeout')::float * interval '1 second' as give_up,
           coalesce(jobs.queue, '') = any ((select holdfast.shared_queues())::text[]) as is_shared
      from stretch join holdfast.jobs using (job_id), clock
     where stretch.eligible_at <= clock.now
),
lined as (
    insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at)
    select queue, urgency, eligible_at, job_id, task_index, give_up from new where not is_shared
)
select job_id, task_index, queue
  from new
 -- Once for all of them: in a join it was asked for each.
 where (select holdfast.gate(array_agg(job_id), array_agg(task_index), array_agg(give_up))
          from new where is_shared) >= 0;

-- name: notify_ready
select pg_notify('holdfast_ready', $queue);

-- name: list_queues_with_work
-- Of the queues that somebody waits for, those from which something can be claimed this moment.
select wanted.queue
  from unnest($queues::text[]) as wanted(queue)
 where (exists (select from holdfast.ready where ready.queue = wanted.queue)
        or exists (select from holdfast.limit_buckets
                    where open_queue = wanted.queue and open_at <= (select holdfast.now()))
        or exists (select from holdfast.share_rules join holdfast.shares using (rule_id)
                    where share_rules.queue = wanted.queue and shares.idle_at is null))
   and not exists (select from holdfast.queues where queues.queue = wanted.queue);

-- name: list_waited
-- The head of every queue that is not paused, if it is ready for a while: from queue to queue by the index.
with recursive heads as (
    (select ready.queue from holdfast.ready where ready.queue > '' order by ready.queue limit 1)
    union all
    select (select ready.queue from holdfast.ready where ready.queue > heads.queue order by ready.queue limit 1)
      from heads where heads.queue is not null
)
select heads.queue, head.job_id, head.task_index
  from heads
 cross join lateral (
       select ready.job_id, ready.task_index, ready.eligible_at
         from holdfast.ready
        where ready.queue = heads.queue
        order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
        limit $tasks_max) as head
 where head.eligible_at <= holdfast.now() - $waited::interval
   and not exists (select from holdfast.queues where queues.queue = heads.queue);
