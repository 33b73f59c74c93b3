-- The audit of jobs: rows as in ledger.sql. The last statement yields every job, for the rule that derives
-- a job's state.

-- name: replay_job_events
with kinds as (
    select type::holdfast.event_type, state
      from unnest($types::text[], $states::int[]) as kinds(type, state)
),
steps as (
    select events.job_id, events.seq, events.type, events.ts, events.id, kinds.state,
           kinds.type is null as foreign_type,
           lag(events.seq) over stream as seq_before,
           lag(events.ts) over stream as ts_before,
           lag(events.id) over stream as id_before,
           -- The state of the last event that has one: not every event of a job is a move.
           coalesce(max(events.seq * 16::bigint + kinds.state) over (
               partition by events.job_id order by events.seq
               rows between unbounded preceding and 1 preceding) % 16, {PENDING})::int as state_before
      from holdfast.events left join kinds using (type)
     where events.task_index = -1
    window stream as (partition by events.job_id order by events.seq)
),
checked as (
    select *,
           seq <> coalesce(seq_before + 1, 0) as gap_in_stream,
           foreign_type as event_in_the_wrong_stream,
           (seq_before is null) <> (type = 'submitted') as submitted_not_first_and_once,
           type <> 'submitted' and (($successors::int[])[state_before + 1] >> state) & 1 = 0
               as illegal_job_move,
           type = 'cancel_requested' and state_before in ({ENDED}) as cancel_after_the_end,
           ts < ts_before as time_runs_backward,
           id <= id_before as events_out_of_order
      from steps
)
select checks.invariant, job_id, null::int as task_index, null::int as attempt, checks.detail
  from checked
 cross join lateral (values
    ('gap_in_stream', gap_in_stream,
     format('event %s follows event %s', seq, coalesce(seq_before::text, 'none'))),
    ('event_in_the_wrong_stream', event_in_the_wrong_stream,
     format('event %s is %s, which happens to tasks only', seq, type)),
    ('submitted_not_first_and_once', submitted_not_first_and_once, format('event %s is %s', seq, type)),
    ('illegal_job_move', illegal_job_move,
     format('event %s is %s, coming from state %s', seq, type, state_before)),
    ('cancel_after_the_end', cancel_after_the_end,
     format('event %s asks to cancel a job in state %s', seq, state_before)),
    ('time_runs_backward', time_runs_backward,
     format('event %s is of %s, before %s', seq, ts, ts_before)),
    ('events_out_of_order', events_out_of_order,
     format('event %s has id %s, not above %s', seq, id, id_before))
  ) as checks(invariant, broken, detail)
 where (gap_in_stream or event_in_the_wrong_stream or submitted_not_first_and_once or illegal_job_move
        or cancel_after_the_end or time_runs_backward or events_out_of_order)
   and checks.broken;

-- name: compare_jobs_with_events
with kinds as (
    select type::holdfast.event_type, state
      from unnest($types::text[], $states::int[]) as kinds(type, state)
),
derived as (
    select job_id, count(*) as events,
           (max(seq * 16::bigint + state) % 16)::int as state,
           min(ts) filter (where type = 'submitted') as submitted_at,
           min(ts) filter (where type = 'started') as started_at,
           min(ts) filter (where state in ({ENDED})) as finished_at,
           max(ts) as event_at,
           bool_or(payload ->> 'mode' = 'hard') filter (where type = 'cancel_requested') as hard
      from holdfast.events left join kinds using (type)
     where task_index = -1
     group by job_id
),
checked as (
    select job_id, jobs.state, derived.state as derived_state, jobs.seq, coalesce(derived.events, 0) as events,
           jobs.submitted_at, jobs.started_at, jobs.finished_at, jobs.cancel_mode,
           jobs.job_id is null as event_without_job,
           jobs.seq > coalesce(derived.events, 0) as move_without_event,
           jobs.seq < derived.events as event_without_move,
           jobs.submitted_at is null and (jobs.seq > 0 or jobs.state <> {PENDING} or derived.events > 0)
               as hidden_job_has_moved,
           jobs.state <> coalesce(derived.state, {PENDING}) as job_state_differs_from_its_events,
           (jobs.submitted_at, jobs.started_at, jobs.finished_at, jobs.event_at) is distinct from
               (derived.submitted_at, derived.started_at, derived.finished_at, derived.event_at)
               as job_times_differ_from_its_events,
           jobs.cancel_mode is distinct from
               case derived.hard when true then 'hard' when false then 'soft' end
               as cancel_flag_differs_from_its_events,
           (jobs.finished_at is not null) <> (jobs.state in ({ENDED}))
               as finished_at_does_not_fit_the_state
      from holdfast.jobs full join derived using (job_id)
)
select checks.invariant, job_id, null::int, null::int, checks.detail
  from checked
 cross join lateral (values
    ('event_without_job', event_without_job, format('%s events of a job that does not exist', events)),
    ('move_without_event', move_without_event, format('%s events, but seq is %s', events, seq)),
    ('event_without_move', event_without_move, format('%s events, but seq is %s', events, seq)),
    ('hidden_job_has_moved', hidden_job_has_moved and not event_without_job,
     format('state %s, seq %s, %s events before its submission is complete', state, seq, events)),
    ('job_state_differs_from_its_events', job_state_differs_from_its_events,
     format('state %s; its events lead to %s', state, coalesce(derived_state, {PENDING}))),
    ('job_times_differ_from_its_events', job_times_differ_from_its_events and not event_without_job,
     format('submitted %s, started %s, finished %s', submitted_at, started_at, finished_at)),
    ('cancel_flag_differs_from_its_events', cancel_flag_differs_from_its_events and not event_without_job,
     format('cancel is %s, which is not what its events ask for', coalesce(cancel_mode, 'none'))),
    ('finished_at_does_not_fit_the_state', finished_at_does_not_fit_the_state,
     format('state %s, finished at %s', state, coalesce(finished_at::text, 'no time')))
  ) as checks(invariant, broken, detail)
 where (event_without_job or move_without_event or event_without_move or hidden_job_has_moved
        or job_state_differs_from_its_events or job_times_differ_from_its_events
        or cancel_flag_differs_from_its_events or finished_at_does_not_fit_the_state)
   and checks.broken;

-- name: compare_counts_with_tasks
with actual as (
    select job_id, count(*) as tasks, max(task_index) as last_index,
           -- Always with this cause, but a cancel may name the same: a bound, not a count.
           count(*) filter (where state = {KILLED} and cause = 'timeout') as timed_out_max,
           bool_or(placed) as any_placed, bool_and(placed) as all_placed,
           array[count(*) filter (where state = {PENDING}), count(*) filter (where state = {BUILDING}),
                 count(*) filter (where state = {RUNNING}), count(*) filter (where state = {SUCCEEDED}),
                 count(*) filter (where state = {FAILED}), count(*) filter (where state = {KILLED}),
                 count(*) filter (where state = {WORKER_FAILED}), count(*) filter (where state = {UNSCHEDULABLE}),
                 count(*) filter (where state = {ASSIGNED}), count(*) filter (where state = {DEAD_LETTERED})
                ]::int[] as counts
      from holdfast.tasks
     group by job_id
),
recorded as (
    select job_id, num_tasks, timed_out, submitted_at is null as hidden, queue is null as placed,
           array[pending, building, running, succeeded, failed, killed, worker_failed, unschedulable,
                 assigned, dead_lettered]::int[] as counts
      from holdfast.jobs
),
checked as (
    select job_id, num_tasks, tasks, last_index, recorded.counts, actual.counts as actual_counts,
           timed_out, timed_out_max,
           num_tasks is null as task_without_job,
           not hidden and (num_tasks, num_tasks - 1)
               is distinct from (coalesce(tasks, 0), coalesce(last_index, -1))
           or hidden and (tasks > num_tasks or last_index >= num_tasks) as number_of_tasks_differs,
           not hidden and recorded.counts is distinct from coalesce(actual.counts, recorded.counts)
           or hidden and actual.counts[1] <> tasks as counts_differ,
           timed_out > coalesce(timed_out_max, 0) as timed_out_count_too_high,
           any_placed <> placed or all_placed <> placed as task_placed_against_its_job
      from recorded full join actual using (job_id)
)
select checks.invariant, job_id, null::int, null::int, checks.detail
  from checked
 cross join lateral (values
    ('task_without_job', task_without_job, format('%s tasks of a job that does not exist', tasks)),
    ('number_of_tasks_differs', number_of_tasks_differs,
     format('num_tasks is %s, with %s tasks, the last of them %s', num_tasks, coalesce(tasks, 0),
            last_index)),
    ('counts_differ', counts_differ,
     format('counts of states 1 to 10 are %s on the job, %s among its tasks', counts, actual_counts)),
    ('timed_out_count_too_high', timed_out_count_too_high,
     format('timed_out is %s, with %s tasks killed by a timeout', timed_out, coalesce(timed_out_max, 0))),
    ('task_placed_against_its_job', task_placed_against_its_job,
     'work with a queue is claimed, work without is placed')
  ) as checks(invariant, broken, detail)
 where (task_without_job or number_of_tasks_differs or counts_differ or timed_out_count_too_high
        or task_placed_against_its_job)
   and checks.broken;

-- name: check_children
select 'live_child_of_an_ended_job', children.job_id, null::int, null::int,
       format('its parent %s ended in state %s', parents.job_id, parents.state)
  from holdfast.jobs as children
  join holdfast.jobs as parents on parents.job_id = children.parent_job_id
  left join (select job_id from holdfast.outbox where kind = 'job_ended') as cascades
         on cascades.job_id = parents.job_id
 where children.finished_at is null and children.submitted_at is not null
   and parents.finished_at is not null and parents.state <> {SUCCEEDED}
   and (children.cancel_mode is null
        or children.cancel_mode = 'soft' and parents.cancel_mode is distinct from 'soft')
   and cascades.job_id is null;

-- name: check_continuations
-- A job may be continued more than once, by reruns, but never before it has ended. Retention may have taken it. What
-- is missing in the job that continues it was made good by replays of dead letters.
with checked as (
    select continuations.*, new.job_id is null as continuation_without_its_job,
           old.job_id is null
           and exists (select from holdfast.partitions
                        where first_job_id <= continuations.continues and end_job_id > continuations.continues)
               as continuation_of_no_job,
           not old.fan_out or old.finished_at is null
           or old.pending + old.assigned + old.building + old.running > 0
           or new.num_tasks > old.num_tasks - old.succeeded
           or new.num_tasks = old.num_tasks - old.succeeded
              and (new.replay_of is distinct from old.job_id or old.succeeded = 0 and earlier.job_id is null)
           or new.num_tasks < old.num_tasks - old.succeeded
              and not exists (select from holdfast.dead_letters
                               where dead_letters.job_id = old.job_id and replayed_as is not null)
               as continuation_differs,
           new.replay_of, new.num_tasks, old.state, old.num_tasks - old.succeeded as missing
      from holdfast.continuations
      left join holdfast.jobs as new using (job_id)
      left join holdfast.jobs as old on old.job_id = continuations.continues
      left join holdfast.continuations as earlier on earlier.job_id = old.job_id
)
select checks.invariant, job_id, null::int, null::int,
       format('it continues job %s, in state %s with %s tasks that did not succeed; it runs %s tasks of job %s again',
              continues, coalesce(state::text, 'unknown'), coalesce(missing::text, 'unknown'),
              coalesce(num_tasks::text, 'unknown'), coalesce(replay_of::text, 'none'))
  from checked
 cross join lateral (values
    ('continuation_without_its_job', continuation_without_its_job),
    ('continuation_of_no_job', continuation_of_no_job),
    ('continuation_differs', continuation_differs and not continuation_without_its_job and state is not null)
  ) as checks(invariant, broken)
 where (continuation_without_its_job or continuation_of_no_job or continuation_differs) and checks.broken;

-- name: check_outbox
select case when jobs.job_id is null then 'outbox_row_without_job' else 'hidden_job_in_line' end,
       job_id, null::int, null::int, format('outbox row %s: %s from task %s on', id, kind, next_index)
  from holdfast.outbox left join holdfast.jobs using (job_id)
 where jobs.submitted_at is null;

-- name: check_actors
select 'event_without_actor', job_id, nullif(task_index, -1), null::int,
       format('event %s (%s) does not say who did it', seq, type)
  from holdfast.events where actor is null or actor = '';

-- name: check_notes
-- Notes have a time to live of their own: they may outlive their job, but not come before their attempt.
select 'note_without_attempt', job_id, task_index, attempt, format('note %s is of kind %s', notes.id, notes.kind)
  from holdfast.notes
  join (select job_id, task_index from holdfast.tasks) as known using (job_id, task_index)
  left join holdfast.attempts using (job_id, task_index, attempt)
  left join holdfast.leases using (job_id, task_index, attempt)
 where attempts.state is null and leases.lease_token is null;

-- name: compare_jobs_with_their_lists
select case when listed.job_id is null then 'job_missing_from_its_state' else 'job_listed_under_another_state' end,
       job_id, null::int, null::int,
       case when listed.job_id is null then format('it is in state %s', state)
            else format('it is listed under state %s', state) end
  from (select job_id, state from holdfast.jobs where state <> {SUCCEEDED} and submitted_at is not null) as shown
  full join holdfast.job_states as listed using (job_id, state)
 where shown.job_id is null or listed.job_id is null;

-- name: read_job_counts
select jobs.job_id, jobs.state, jobs.cancel_mode, jobs.fan_out, jobs.max_task_failures,
       jobs.started_at is not null as has_started,
       exists (select from holdfast.outbox where outbox.job_id = jobs.job_id and outbox.kind in ('sweep', 'sweep_held'))
           as sweeping,
       jobs.pending, jobs.assigned, jobs.building, jobs.running, jobs.succeeded, jobs.failed,
       jobs.killed, jobs.worker_failed, jobs.unschedulable, jobs.dead_lettered, jobs.timed_out
  from holdfast.jobs
 where jobs.submitted_at is not null;
