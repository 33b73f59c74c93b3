-- The guards of tasks. A trigger's name is the sentence it defends, and its rule stands in its WHEN clause where it
-- can: that costs next to nothing while the rule holds. Events are written by triggers alone, so that no client can
-- move a task without its event, write an event without a move, or leave a gap in a stream.

-- The array is the table of legal moves of rules/lifecycle.py: for each state, a bit per successor. A claim that
-- records the start makes two moves at once, and claim_seq says so; nothing else changes that column.
-- After the update, not before: a trigger before it would lock each row once more, and log that.
create or replace trigger a_task_only_moves_forward after update on holdfast.tasks for each row
    when (not (
        old.finished_at is null
        and ((('{0,1856,232,240,0,1026,1024,1026,0,236,0}'::int[])[old.state + 1] >> new.state) & 1 = 1
             and new.seq = old.seq + 1 and new.claim_seq is not distinct from old.claim_seq
             or old.state = {PENDING} and new.state = {RUNNING}
             and new.seq = old.seq + 2 and new.claim_seq is not distinct from old.seq)
        and new.attempt = old.attempt + (new.state = {PENDING})::int
        and new.failure_count >= old.failure_count
        and new.preemption_count >= old.preemption_count
        and new.moved_at >= old.moved_at))
    execute function holdfast.refuse();

-- By the statement: a row that goes to another partition is not updated, but deleted here and inserted there.
create or replace trigger a_task_keeps_its_identity before update of job_id, task_index on holdfast.tasks
    for each statement execute function holdfast.refuse();

create or replace trigger a_task_is_born_pending before insert on holdfast.tasks for each row
    when (not (new.state = {PENDING} and new.attempt = 0 and new.seq = 0 and new.failure_count = 0
               and new.preemption_count = 0 and new.free_loss_count = 0
               and new.claim_seq is null))
    execute function holdfast.refuse();

create or replace function holdfast.refuse_task_left_ended() returns trigger
    language plpgsql as $$
begin
    if exists (select from holdfast.tasks
                where job_id = new.job_id and task_index = new.task_index
                  and state in ({FAILED}, {KILLED}, {WORKER_FAILED}) and finished_at is null) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('task %s.%s is neither finished nor retried', new.job_id, new.task_index);
    end if;
    return null;
end $$;
drop trigger if exists an_ended_task_is_finished_or_retried on holdfast.tasks;
create constraint trigger an_ended_task_is_finished_or_retried after update on holdfast.tasks
    deferrable initially deferred for each row
    when (new.finished_at is null and new.state in ({FAILED}, {KILLED}, {WORKER_FAILED}))
    execute function holdfast.refuse_task_left_ended();

create or replace function holdfast.write_task_events() returns trigger
    language plpgsql as $$
begin
    insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, actor, cause, payload, txid)
    select job_id, task_index, claim_seq, attempt,
           case when placed then 'placed' else 'claimed' end::holdfast.event_type,
           moved_at, actor, cause, null, txid_current()
      from moved
     where state = {RUNNING} and claim_seq = seq - 2
    union all
    select job_id, task_index, seq - 1, attempt,
           case when state = {ASSIGNED} and placed then 'placed'
                else ('{NULL,retried,building,started,succeeded,failed,killed,worker_failed,unschedulable,'
                      'claimed,dead_lettered}'::holdfast.event_type[])[state + 1] end,
           moved_at, actor, cause,
           case when state = {PENDING} then jsonb_build_object(
               'eligible_at', eligible_at, 'failure_count', failure_count,
               'preemption_count', preemption_count) end,
           txid_current()
      from moved;
    return null;
end $$;
create or replace trigger every_move_is_an_event after update on holdfast.tasks
    referencing new table as moved for each statement execute function holdfast.write_task_events();

create or replace function holdfast.refuse_delete_of_shown_task() returns trigger
    language plpgsql as $$
begin
    if exists (select from holdfast.jobs where job_id = old.job_id and submitted_at is not null) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('task %s.%s belongs to a submitted job', old.job_id, old.task_index);
    end if;
    return old;
end $$;
create or replace trigger a_task_of_a_submitted_job_stays before delete on holdfast.tasks for each row
    execute function holdfast.refuse_delete_of_shown_task();
