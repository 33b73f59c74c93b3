-- Counts of a job's tasks, and the job's state, which follows from them.

-- The rule of rules/job_state.py; tests/store/test_job_state.py compares the two. Null is a state that a count cannot
-- reach. One expression, so that it becomes a part of the statement that asks.
create or replace function holdfast.job_state(
    pending int, assigned int, building int, running int, succeeded int, failed int, killed int, worker_failed int,
    unschedulable int, dead_lettered int, timed_out int, fan_out boolean, max_task_failures int, cancel_mode text,
    has_started boolean) returns smallint
    language sql immutable as $$
    select case
        when pending + assigned + building + running + failed + killed + worker_failed + unschedulable
             + dead_lettered = 0 then {SUCCEEDED}
        else coalesce(
            case when pending + assigned + building + running = 0
                      or not (cancel_mode is not distinct from 'soft' or fan_out and max_task_failures is null) then
                case when failed + case when fan_out then timed_out else 0 end > coalesce(max_task_failures, 0)
                     then {FAILED}
                     when failed + case when fan_out then timed_out else 0 end + dead_lettered
                          > coalesce(max_task_failures, 0)
                     then {DEAD_LETTERED}
                     when unschedulable > 0 then {UNSCHEDULABLE}
                     when killed > 0
                          and (not fan_out or cancel_mode is not null
                               or pending + assigned + building + running + succeeded = 0)
                     then {KILLED} end end,
            case when pending + assigned + building + running = 0
                 then case when worker_failed > 0 then {WORKER_FAILED} else {SUCCEEDED} end
                 when assigned + building + running > 0 or has_started then {RUNNING}
                 else {PENDING} end) end::smallint
$$;

-- Adds moves to the counts of jobs, and lets their states follow. What follows from an end is left in the outbox.
-- Job rows are locked last, and in the order of their ids: the moves come sorted, and the plan looks each job up as it
-- meets it. A list that is shorter than that of the jobs stands for zeros.
create or replace function holdfast.count_moves(
    job_ids bigint[], pending int[], assigned int[], building int[], running int[], succeeded int[], failed int[],
    killed int[], worker_failed int[], unschedulable int[], dead_lettered int[], timed_out int[], errors text[],
    exit_codes int[], must_be_live boolean[],
    out num_counted int, out ended_job_ids bigint[], out ended_states int[], out has_follow_ups boolean)
    language plpgsql as $$
#variable_conflict use_column
declare
    changed_job_id bigint;
    started_job_ids bigint[];
    live int[];
begin
    with counted as (
        update holdfast.jobs
           set pending = jobs.pending + coalesce(moves.pending, 0),
               assigned = jobs.assigned + coalesce(moves.assigned, 0),
               building = jobs.building + coalesce(moves.building, 0),
               running = jobs.running + coalesce(moves.running, 0),
               succeeded = jobs.succeeded + coalesce(moves.succeeded, 0),
               failed = jobs.failed + coalesce(moves.failed, 0),
               killed = jobs.killed + coalesce(moves.killed, 0),
               worker_failed = jobs.worker_failed + coalesce(moves.worker_failed, 0),
               unschedulable = jobs.unschedulable + coalesce(moves.unschedulable, 0),
               dead_lettered = jobs.dead_lettered + coalesce(moves.dead_lettered, 0),
               timed_out = jobs.timed_out + coalesce(moves.timed_out, 0),
               error = coalesce(jobs.error, moves.error),
               exit_code = case when jobs.error is null then coalesce(moves.exit_code, jobs.exit_code)
                                else jobs.exit_code end
          from unnest(job_ids, count_moves.pending, count_moves.assigned, count_moves.building, count_moves.running,
                      count_moves.succeeded, count_moves.failed, count_moves.killed, count_moves.worker_failed,
                      count_moves.unschedulable, count_moves.dead_lettered, count_moves.timed_out, errors,
                      exit_codes, must_be_live)
                 as moves(job_id, pending, assigned, building, running, succeeded, failed, killed, worker_failed,
                          unschedulable, dead_lettered, timed_out, error, exit_code, must_be_live)
         where jobs.job_id = moves.job_id
        returning jobs.job_id, jobs.state,
                  moves.must_be_live and (jobs.finished_at is not null or jobs.cancel_mode is not null) as is_changed,
                  jobs.pending + jobs.assigned + jobs.building + jobs.running as live,
                  case when jobs.finished_at is not null then jobs.state
                       else holdfast.job_state(
                           jobs.pending, jobs.assigned, jobs.building, jobs.running, jobs.succeeded, jobs.failed,
                           jobs.killed, jobs.worker_failed, jobs.unschedulable, jobs.dead_lettered, jobs.timed_out,
                           jobs.fan_out, jobs.max_task_failures, jobs.cancel_mode, jobs.started_at is not null)
                       end as following
    )
    select count(*), min(job_id) filter (where is_changed),
           array_agg(job_id) filter (where following <> state and following = {RUNNING}),
           array_agg(job_id) filter (where following <> state and following <> {RUNNING}),
           array_agg(following::int) filter (where following <> state and following <> {RUNNING}),
           array_agg(live) filter (where following <> state and following <> {RUNNING})
      into num_counted, changed_job_id, started_job_ids, ended_job_ids, ended_states, live
      from counted;
    if changed_job_id is not null then
        raise exception using
            errcode = 'HF001',
            message = format('job %s has ended, or was cancelled, while its tasks were being moved', changed_job_id);
    end if;
    has_follow_ups := false;
    if started_job_ids is not null then
        with clock as materialized (select holdfast.now() as now)
        update holdfast.jobs
           set state = {RUNNING}, started_at = greatest(clock.now, jobs.event_at), seq = jobs.seq + 1,
               event_type = 'started', event_at = greatest(clock.now, jobs.event_at), event_actor = 'server',
               event_cause = null, event_payload = null
          from unnest(started_job_ids) as mine(job_id), clock
         where jobs.job_id = mine.job_id;
    end if;
    if ended_job_ids is not null then
        has_follow_ups := holdfast.finish_jobs(ended_job_ids, ended_states, live);
    end if;
end $$;

-- What follows from an end, for others: those that wait for the job, its undoing, what it has undone; and for its own
-- tasks that are live. All of that happens in later transactions. Returns whether anything does.
create or replace function holdfast.finish_jobs(job_ids bigint[], states int[], live int[]) returns boolean
    language plpgsql as $$
#variable_conflict use_column
begin
    with clock as materialized (select holdfast.now() as now),
    finished as (
        update holdfast.jobs
           set state = ended.state, finished_at = greatest(clock.now, jobs.event_at), seq = jobs.seq + 1,
               event_type = case ended.state
                   when {SUCCEEDED} then 'succeeded'::holdfast.event_type when {FAILED} then 'failed'
                   when {KILLED} then 'killed' when {WORKER_FAILED} then 'worker_failed'
                   when {UNSCHEDULABLE} then 'unschedulable' when {DEAD_LETTERED} then 'dead_lettered' end,
               event_at = greatest(clock.now, jobs.event_at), event_actor = 'server',
               event_cause = case ended.state when {SUCCEEDED} then null
                                              when {KILLED} then coalesce(jobs.cancel_reason, jobs.error)
                                              else jobs.error end,
               event_payload = null,
               error = case when ended.state = {KILLED} then coalesce(jobs.cancel_reason, jobs.error)
                            else jobs.error end,
               exit_code = case when ended.state = {SUCCEEDED} then 0 else jobs.exit_code end
          from unnest(job_ids, states, finish_jobs.live) as ended(job_id, state, live), clock
         where jobs.job_id = ended.job_id
        returning jobs.job_id, ended.state <> {SUCCEEDED} as is_bad, ended.live > 0 as is_live,
                  -- A large spec is stored elsewhere, and looked at after a failure alone.
                  ended.state <> {SUCCEEDED} and (jobs.graph_id is not null or jobs.spec ? 'compensation')
                  as is_to_be_undone,
                  jobs.compensates_job_id is not null as is_compensation,
                  -- With `exists`, a planner may read all that is open instead, into a hash.
                  (select true from holdfast.dependencies
                    where depends_on = jobs.job_id and closed_at is null limit 1) is not null as is_awaited
    )
    insert into holdfast.outbox (kind, job_id, next_index, created_at)
    select wanted.kind, finished.job_id, 0, clock.now
      from finished, clock,
           lateral (values (1, 'sweep', is_live), (2, 'job_ended', is_bad), (3, 'undo', is_to_be_undone),
                           (4, 'undone', is_compensation), (5, 'release', is_awaited))
             as wanted(number, kind, is_wanted)
     where wanted.is_wanted
     order by wanted.number, finished.job_id;
    return found;
end $$;
