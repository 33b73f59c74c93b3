-- Every statement here but the first two finds damage and nothing else: each row is one broken
-- invariant (its name, the ids of what is broken, and a sentence). A healthy ledger yields no rows. The
-- conditions stand as columns named like their invariants, so that sentences are only built for damage.

-- name: hold_ledger
-- Before the snapshot is taken: retention must not drop a range of jobs between two reads of it. These
-- are the locks that any read takes, and nothing but a drop waits for them.
lock table holdfast.jobs, holdfast.tasks, holdfast.attempts, holdfast.events in access share mode;

-- name: prepare_passes
-- Old statistics must not turn one pass over the ledger into one pass per task.
select set_config('work_mem', '64MB', true), set_config('enable_nestloop', 'off', true);

-- name: replay_task_events
with kinds as (
    select type::holdfast.event_type, state
      from unnest($types::text[], $states::int[]) as kinds(type, state)
),
steps as (
    select events.job_id, events.task_index, events.seq, events.attempt, events.type, events.ts,
           events.txid, events.id, kinds.state,
           lag(events.seq) over stream as seq_before,
           coalesce(lag(events.attempt) over stream, 0) as attempt_before,
           lag(events.ts) over stream as ts_before,
           lag(events.txid) over stream as txid_before,
           lag(events.id) over stream as id_before,
           lag(kinds.state, 1, {PENDING}) over stream as state_before
      from holdfast.events left join kinds using (type)
     where events.task_index >= 0
    window stream as (partition by events.job_id, events.task_index order by events.seq)
),
checked as (
    select *,
           seq <> coalesce(seq_before + 1, 0) as gap_in_stream,
           state is null as event_in_the_wrong_stream,
           (($successors::int[])[state_before + 1] >> state) & 1 = 0 as illegal_move,
           (attempt, ($ranks::int[])[state + 1])
               <= (attempt_before, ($ranks::int[])[state_before + 1]) as backward_transition,
           attempt <> attempt_before + (state = {PENDING})::int as attempt_out_of_step,
           -- What becomes of an ended attempt's task is decided with its end, not later.
           seq_before is not null and state_before in ({OUTCOMES}, {UNSCHEDULABLE}) and txid <> txid_before
               as move_after_the_end,
           ts < ts_before as time_runs_backward,
           id <= id_before as events_out_of_order
      from steps
)
select checks.invariant, job_id, task_index, null::int as attempt, checks.detail
  from checked
 cross join lateral (values
    ('gap_in_stream', gap_in_stream,
     format('event %s follows event %s', seq, coalesce(seq_before::text, 'none'))),
    ('event_in_the_wrong_stream', event_in_the_wrong_stream,
     format('event %s is %s, which happens to jobs only', seq, type)),
    ('illegal_move', illegal_move,
     format('event %s is %s, coming from state %s', seq, type, state_before)),
    ('backward_transition', backward_transition,
     format('event %s (%s, attempt %s) comes after state %s of attempt %s', seq, type, attempt,
            state_before, attempt_before)),
    ('attempt_out_of_step', attempt_out_of_step,
     format('event %s (%s) has attempt %s after attempt %s', seq, type, attempt, attempt_before)),
    ('move_after_the_end', move_after_the_end,
     format('event %s (%s) was not written together with the end before it', seq, type)),
    ('time_runs_backward', time_runs_backward,
     format('event %s is of %s, before %s', seq, ts, ts_before)),
    ('events_out_of_order', events_out_of_order,
     format('event %s has id %s, not above %s', seq, id, id_before))
  ) as checks(invariant, broken, detail)
 where (gap_in_stream or event_in_the_wrong_stream or illegal_move or backward_transition
        or attempt_out_of_step or move_after_the_end or time_runs_backward or events_out_of_order)
   and checks.broken;

-- name: compare_events_with_tasks
select case when tasks.job_id is null then 'event_without_task' else 'event_without_move' end,
       events.job_id, events.task_index, null::int,
       format('event %s (%s); the task has made %s moves', events.seq, events.type,
              coalesce(tasks.seq, 0))
  from holdfast.events left join holdfast.tasks using (job_id, task_index)
 where events.task_index >= 0 and (tasks.job_id is null or events.seq >= tasks.seq);

-- name: compare_tasks_with_events
with kinds as (
    select type::holdfast.event_type, state
      from unnest($types::text[], $states::int[]) as kinds(type, state)
),
checked as (
    select tasks.*, events.type, events.attempt as event_attempt, events.ts, kinds.state as event_state,
           tasks.seq > 0 and events.job_id is null as move_without_event,
           (tasks.state, tasks.attempt) is distinct from
               (coalesce(kinds.state, {PENDING}), coalesce(events.attempt, 0))
           or events.ts is not null and (tasks.moved_at, tasks.actor, tasks.cause) is distinct from
               (events.ts, events.actor, events.cause) as task_differs_from_its_last_event,
           (tasks.finished_at is not null) <> (tasks.state in ({ENDED}))
               or tasks.finished_at <> tasks.moved_at as finished_at_does_not_fit_the_state
      from holdfast.tasks
      left join holdfast.events
        on events.job_id = tasks.job_id and events.task_index = tasks.task_index
       and events.seq = tasks.seq - 1
      left join kinds using (type)
)
select checks.invariant, job_id, task_index, null::int, checks.detail
  from checked
 cross join lateral (values
    ('move_without_event', move_without_event,
     format('the task has made %s moves, and event %s is missing', seq, seq - 1)),
    ('task_differs_from_its_last_event', task_differs_from_its_last_event and not move_without_event,
     format('the task is in state %s, attempt %s, since %s; its last event is %s, attempt %s, at %s',
            state, attempt, moved_at, coalesce(type::text, 'none'), event_attempt, ts)),
    ('finished_at_does_not_fit_the_state', finished_at_does_not_fit_the_state,
     format('state %s since %s, finished at %s', state, moved_at,
            coalesce(finished_at::text, 'no time')))
  ) as checks(invariant, broken, detail)
 where (move_without_event or task_differs_from_its_last_event or finished_at_does_not_fit_the_state)
   and checks.broken;

-- name: compare_attempts_with_events
with kinds as (
    select type::holdfast.event_type, state
      from unnest($types::text[], $states::int[]) as kinds(type, state)
),
derived as (
    select job_id, task_index, attempt,
           count(*) filter (where state = {ASSIGNED}) as claims,
           min(ts) filter (where state = {ASSIGNED}) as claimed_at,
           min(ts) filter (where state = {RUNNING}) as started_at,
           count(*) filter (where state in ({OUTCOMES})) as ends,
           min(state) filter (where state in ({OUTCOMES})) as end_state,
           min(ts) filter (where state in ({OUTCOMES})) as ended_at
      from holdfast.events join kinds using (type)
     where task_index >= 0
     group by job_id, task_index, attempt
),
checked as (
    select job_id, task_index, attempt, claims, claimed_at, ends, end_state, ended_at,
           attempts.state, attempts.created_at, attempts.finished_at,
           attempts.state is null and claims > 0 and ends = 0 and open.job_id is null
               as claim_without_attempt,
           -- A task killed while it was PENDING has an end under this number, but no claim.
           attempts.state is null and claims > 0 and ends > 0 as ending_event_without_attempt,
           attempts.state is not null and coalesce(claims, 0) = 0 as attempt_without_claim,
           attempts.state is not null and coalesce(ends, 0) = 0 as attempt_without_ending_event,
           claims > 1 or claims = 1 and ends > 1 as attempt_told_twice,
           claims > 0 and ends > 0
           and (attempts.state <> end_state
                or attempts.state is not null
                   and (attempts.created_at, attempts.started_at, attempts.finished_at)
                       is distinct from (claimed_at, derived.started_at, ended_at))
               as attempt_differs_from_its_events,
           open.job_id is not null and (attempts.state is not null or ends > 0)
               as live_lease_of_an_ended_attempt
      from derived
      full join holdfast.attempts using (job_id, task_index, attempt)
      left join (select job_id, task_index, attempt from holdfast.leases where not ending) as open
          using (job_id, task_index, attempt)
)
select checks.invariant, job_id, task_index, attempt, checks.detail
  from checked
 cross join lateral (values
    ('claim_without_attempt', claim_without_attempt,
     format('claimed at %s; there is neither a lease nor an ended attempt', claimed_at)),
    ('ending_event_without_attempt', ending_event_without_attempt,
     format('ended in state %s at %s, but no such attempt is recorded', end_state, ended_at)),
    ('attempt_without_claim', attempt_without_claim, 'no event tells of its claim or placement'),
    ('attempt_without_ending_event', attempt_without_ending_event,
     format('it ended in state %s, and no event tells of it', state)),
    ('attempt_told_twice', attempt_told_twice,
     format('its events tell of %s claims and %s ends', claims, ends)),
    ('attempt_differs_from_its_events', attempt_differs_from_its_events,
     format('state %s from %s to %s; its events say %s from %s to %s', state, created_at, finished_at,
            end_state, claimed_at, ended_at)),
    ('live_lease_of_an_ended_attempt', live_lease_of_an_ended_attempt,
     'the attempt has ended, and its lease is not ending')
  ) as checks(invariant, broken, detail)
 where (claim_without_attempt or ending_event_without_attempt or attempt_without_claim
        or attempt_without_ending_event or attempt_told_twice or attempt_differs_from_its_events
        or live_lease_of_an_ended_attempt)
   and checks.broken;

-- name: check_budgets
with budgets as materialized (
    select job_id, (spec ->> 'max_retries_failure')::int as failures_max,
           (spec ->> 'max_retries_preemption')::int as preemptions_max, spec ? 'coscheduling' as is_gang
      from holdfast.jobs
),
gangs as (
    -- Members share their budgets. Once one is lost for good, the others may wait for the sweep.
    select job_id, sum(failure_count) as failures, sum(preemption_count) as preemptions,
           bool_or(state in ({FAILED}, {KILLED}, {WORKER_FAILED}, {UNSCHEDULABLE}, {DEAD_LETTERED})) as is_broken
      from holdfast.tasks join budgets using (job_id)
     where is_gang
     group by job_id
),
ended as (
    select job_id, task_index, count(*) filter (where state = {FAILED}) as failed,
           count(*) filter (where state = {WORKER_FAILED}) as lost,
           max(attempt) filter (where error_class = any ($not_retryable::text[]) and state = {FAILED}) as permanent
      from holdfast.attempts
     group by job_id, task_index
),
checked as (
    select tasks.*, failures_max, preemptions_max, failed, lost, permanent,
           -- Failures that end one round of a gang together cost it one.
           failure_count > coalesce(failed, 0) or not is_gang and failure_count < failed
               as failure_count_differs,
           preemption_count > coalesce(lost, 0) as preemption_count_too_high,
           free_loss_count > coalesce(lost, 0) as free_loss_count_too_high,
           coalesce(failures, failure_count) > failures_max + 1
               or coalesce(preemptions, preemption_count) > preemptions_max + 1 as budget_overrun,
           -- Whoever is beyond a budget has finished; a retry would have made the task PENDING.
           state in ({LIVE}) and is_broken is not true
               and (coalesce(failures, failure_count) > failures_max
                    or coalesce(preemptions, preemption_count) > preemptions_max)
               as retried_beyond_budget,
           permanent < attempt as retried_after_a_permanent_error
      from holdfast.tasks left join budgets using (job_id) left join gangs using (job_id)
      left join ended using (job_id, task_index)
)
select checks.invariant, job_id, task_index, null::int, checks.detail
  from checked
 cross join lateral (values
    ('failure_count_differs', failure_count_differs,
     format('failure_count is %s, with %s failed attempts', failure_count, coalesce(failed, 0))),
    ('preemption_count_too_high', preemption_count_too_high,
     format('preemption_count is %s, with %s lost attempts', preemption_count, coalesce(lost, 0))),
    ('free_loss_count_too_high', free_loss_count_too_high,
     format('free_loss_count is %s, with %s lost attempts', free_loss_count, coalesce(lost, 0))),
    ('budget_overrun', budget_overrun,
     format('%s failures with %s retries, %s preemptions with %s', failure_count, failures_max,
            preemption_count, preemptions_max)),
    ('retried_beyond_budget', retried_beyond_budget,
     format('live after %s failures with %s retries, %s preemptions with %s', failure_count,
            failures_max, preemption_count, preemptions_max)),
    ('retried_after_a_permanent_error', retried_after_a_permanent_error,
     format('attempt %s failed for good, and attempt %s followed', permanent, attempt))
  ) as checks(invariant, broken, detail)
 where (failure_count_differs or preemption_count_too_high or free_loss_count_too_high
        or budget_overrun or retried_beyond_budget or retried_after_a_permanent_error)
   and checks.broken;

-- name: check_leases
with unreleased as (
    select job_id, task_index, attempt, lease_token from holdfast.attempts where released_at is null
),
open as (
    select job_id, task_index, attempt, state from holdfast.tasks where state in ({OPEN})
),
checked as (
    select job_id, task_index, leases.attempt as leased, open.attempt as running,
           unreleased.attempt as unreleased,
           leases.attempt is not null and not ending
               and open.attempt is distinct from leases.attempt as lease_without_open_task,
           open.attempt is not null
               and (leases.ending is distinct from false or leases.attempt <> open.attempt)
               as open_task_without_lease,
           ending and (leases.attempt, leases.lease_token)
               is distinct from (unreleased.attempt, unreleased.lease_token)
               as ending_lease_without_attempt,
           unreleased.attempt is not null
               and (ending is distinct from true or leases.attempt <> unreleased.attempt)
               as unreleased_attempt_without_lease,
           (cancel_requested_at is null) <> (cancel_deadline_at is null)
               or not ending and open.state in ({BUILDING}, {RUNNING})
                  and run_timeout is not null and run_deadline_at is null as lease_without_deadline
      from holdfast.leases
      full join open using (job_id, task_index)
      full join unreleased using (job_id, task_index)
)
select checks.invariant, job_id, task_index, checks.attempt, checks.detail
  from checked
 cross join lateral (values
    ('lease_without_open_task', lease_without_open_task, leased,
     'the lease is live, and its attempt is not open'),
    ('open_task_without_lease', open_task_without_lease, running,
     'the attempt is open, and holds no live lease'),
    ('ending_lease_without_attempt', ending_lease_without_attempt, leased,
     'the lease is ending, and no attempt waits for its release'),
    ('unreleased_attempt_without_lease', unreleased_attempt_without_lease, unreleased,
     'an attempt waits for its release, and no lease of it is ending'),
    ('lease_without_deadline', lease_without_deadline, leased,
     'a timeout or a cancel would never take effect')
  ) as checks(invariant, broken, attempt, detail)
 where checks.broken;

-- name: check_dead_letters
with ended as (
    select job_id, task_index, count(*) as attempts
      from holdfast.attempts join holdfast.dead_letters using (job_id, task_index)
     group by job_id, task_index
)
select case when dead_letters.job_id is null then 'dead_letter_missing'
            when tasks.state is distinct from {DEAD_LETTERED} then 'dead_letter_of_a_task_that_is_not_dead'
            else 'dead_letter_differs' end,
       job_id, task_index, null::int,
       format('state %s, finished at %s; dead letter of %s after %s attempts, replayed as %s',
              tasks.state, tasks.finished_at, dead_lettered_at, dead_letters.attempts, replayed_as)
  from holdfast.tasks
  full join holdfast.dead_letters using (job_id, task_index)
  left join ended using (job_id, task_index)
  left join (select job_id as replay, replay_of from holdfast.jobs) as replays
         on replay = replayed_as
 where (tasks.state is not distinct from {DEAD_LETTERED}) <> (dead_letters.job_id is not null)
    or dead_lettered_at <> tasks.finished_at
    or dead_letters.attempts <> coalesce(ended.attempts, 0)
    or replay is not null and replay_of is distinct from job_id;

-- name: check_ready
-- A row of a task that runs or has finished is no damage: the claim that meets it drops it.
with lines as materialized (
    select job_id, coalesce(queue, '') as queue, -priority as urgency, submitted_at is null as hidden,
           spec ? 'scheduling_timeout' as timed, released_at
      from holdfast.jobs
),
checked as (
    select job_id, task_index, ready.queue, ready.urgency, ready.eligible_at,
           tasks.job_id is null as ready_row_without_task,
           lines.hidden as hidden_job_in_line,
           tasks.state = {PENDING} and (
               (ready.queue, ready.urgency, ready.eligible_at, ready.unschedulable_at is not null)
               is distinct from (lines.queue, lines.urgency, greatest(tasks.eligible_at, released_at), lines.timed)
               or ready.avoid is not null and (lines.queue <> '' or tasks.attempt = 0))
               as ready_row_differs,
           tasks.state = {PENDING} and leases.job_id is not null as ready_row_beside_a_lease
      from holdfast.ready
      left join holdfast.tasks using (job_id, task_index)
      left join lines using (job_id)
      left join holdfast.leases using (job_id, task_index)
)
select checks.invariant, job_id, task_index, null::int,
       format('ready in queue %L, urgency %s, since %s', queue, urgency, eligible_at)
  from checked
 cross join lateral (values
    ('ready_row_without_task', ready_row_without_task),
    ('hidden_job_in_line', hidden_job_in_line),
    ('ready_row_differs', ready_row_differs),
    ('ready_row_beside_a_lease', ready_row_beside_a_lease)
  ) as checks(invariant, broken)
 where (ready_row_without_task or hidden_job_in_line or ready_row_differs or ready_row_beside_a_lease)
   and checks.broken;

-- name: check_lines
-- The tasks of a job too large to be lined up at once stand in line as far as its feed has come.
with pending as (
    select job_id, task_index, finished_at is null and cancel_mode is null and unmet = 0 as claimable
      from (select job_id, task_index from holdfast.tasks where state = {PENDING}) as tasks
      join (select job_id, finished_at, cancel_mode, unmet from holdfast.jobs
             where submitted_at is not null) as jobs using (job_id)
),
queued as (
    select job_id, task_index, count(*) as times
      from (select job_id, task_index from holdfast.ready
             union all
            select job_id, task_index from holdfast.gated) as lines
     group by job_id, task_index
),
feeds as (
    select job_id, min(next_index) as next_index from holdfast.outbox where kind = 'feed' group by job_id
),
counted as (
    select job_id, task_index, claimable,
           coalesce(times, 0) + (waiting.job_id is not null)::int
           + (claimable and task_index >= coalesce(next_index, task_index + 1))::int as times
      from pending
      left join queued using (job_id, task_index)
      left join holdfast.waiting using (job_id, task_index)
      left join feeds using (job_id)
)
select case times when 0 then 'pending_task_not_in_line' else 'pending_task_in_line_twice' end,
       job_id, task_index, null::int,
       format('it stands or will be put in %s places where claims and placements find it', times)
  from counted
 where times > 1 or times = 0 and claimable;

-- name: check_sweeps
-- From the moment a job has ended or is flagged for cancel, each of its live tasks has been told to
-- stop, or a sweep is on its way to it, or one that comes back for those that somebody held.
with stopped as (
    select job_id, state, cancel_mode, finished_at is not null as finished from holdfast.jobs
     where finished_at is not null or cancel_mode is not null
),
sweeps as (
    select job_id, min(next_index) as next_index from holdfast.outbox where kind like 'sweep%' group by job_id
)
select 'live_task_left_behind', job_id, task_index, null::int,
       format('state %s, while its job is in state %s with cancel %s', tasks.state, stopped.state,
              coalesce(stopped.cancel_mode, 'none'))
  from (select job_id, task_index, state from holdfast.tasks where state in ({LIVE})) as tasks
  join stopped using (job_id)
  left join sweeps using (job_id)
  left join holdfast.leases using (job_id, task_index)
 where task_index < coalesce(next_index, task_index + 1)
   and (finished or stopped.cancel_mode = 'hard' or leases.cancel_requested_at is null);
