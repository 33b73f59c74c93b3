-- The guards: what must never happen to a row of the ledger is refused here, whoever the writer is.
--
-- A trigger's name is the sentence it defends, and its rule stands in its WHEN clause where it can: that
-- costs next to nothing while the rule holds. Events are written by triggers alone, so that no client can
-- move a task without its event, write an event without a move, or leave a gap in a stream.

create function holdfast.refuse() returns trigger
    language plpgsql as $$
begin
    raise exception using
        errcode = 'integrity_constraint_violation',
        constraint = tg_name,
        message = format('%s on %I.%I refused: %s', tg_op, tg_table_schema, tg_table_name,
                         replace(tg_name, '_', ' '));
end $$;

-- The array is the table of legal moves of rules/lifecycle.py: for each state, a bit per successor.
create trigger a_task_only_moves_forward before update on holdfast.tasks for each row
    when (not (
        old.finished_at is null
        and (('{0,1856,232,240,0,1026,1024,1026,0,236,0}'::int[])[old.state + 1] >> new.state) & 1 = 1
        and new.attempt = old.attempt + (new.state = 1)::int
        and new.seq = old.seq + 1
        and new.failure_count >= old.failure_count
        and new.preemption_count >= old.preemption_count
        and new.moved_at >= old.moved_at
        and new.job_id = old.job_id and new.task_index = old.task_index))
    execute function holdfast.refuse();

create trigger a_task_is_born_pending before insert on holdfast.tasks for each row
    when (not (new.state = 1 and new.attempt = 0 and new.seq = 0 and new.failure_count = 0
               and new.preemption_count = 0 and new.free_loss_count = 0))
    execute function holdfast.refuse();

create function holdfast.refuse_unsettled_task() returns trigger
    language plpgsql as $$
begin
    if exists (select from holdfast.tasks
                where job_id = new.job_id and task_index = new.task_index
                  and state in (5, 6, 7) and finished_at is null) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('task %s.%s is neither finished nor retried', new.job_id, new.task_index);
    end if;
    return null;
end $$;
create constraint trigger an_ended_task_is_finished_or_retried after update on holdfast.tasks
    deferrable initially deferred for each row
    when (new.finished_at is null and new.state in (5, 6, 7))
    execute function holdfast.refuse_unsettled_task();

create function holdfast.write_task_events() returns trigger
    language plpgsql as $$
begin
    insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, actor, cause, payload, txid)
    select job_id, task_index, seq - 1, attempt,
           case when state = 9 and placed then 'placed'
                else ('{NULL,retried,building,started,succeeded,failed,killed,worker_failed,unschedulable,'
                      'claimed,dead_lettered}'::holdfast.event_type[])[state + 1] end,
           moved_at, actor, cause,
           case when state = 1 then jsonb_build_object(
               'eligible_at', eligible_at, 'failure_count', failure_count,
               'preemption_count', preemption_count) end,
           txid_current()
      from moved;
    return null;
end $$;
create trigger every_move_is_an_event after update on holdfast.tasks
    referencing new table as moved for each statement execute function holdfast.write_task_events();

create function holdfast.refuse_delete_of_shown_task() returns trigger
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
create trigger a_task_of_a_submitted_job_stays before delete on holdfast.tasks for each row
    execute function holdfast.refuse_delete_of_shown_task();

create trigger events_are_written_by_moves_alone before insert on holdfast.events for each statement
    when (pg_trigger_depth() = 0) execute function holdfast.refuse();
create trigger an_event_never_changes before update or delete on holdfast.events for each row
    execute function holdfast.refuse();

create trigger an_ended_attempt_is_only_released before update on holdfast.attempts for each row
    when (old.released_at is not null or new.released_at is null
          or (old.job_id, old.task_index, old.attempt, old.worker_id, old.state, old.created_at,
              old.finished_at, old.lease_token, old.reported)
             is distinct from
             (new.job_id, new.task_index, new.attempt, new.worker_id, new.state, new.created_at,
              new.finished_at, new.lease_token, new.reported)
          or (old.started_at, old.exit_code, old.error, old.error_class, old.stage)
             is distinct from
             (new.started_at, new.exit_code, new.error, new.error_class, new.stage))
    execute function holdfast.refuse();
create trigger an_attempt_is_never_deleted before delete on holdfast.attempts for each row
    execute function holdfast.refuse();

create trigger a_lease_keeps_its_identity before update on holdfast.leases for each row
    when (new.job_id <> old.job_id or new.task_index <> old.task_index
          or new.attempt <> old.attempt or new.lease_token <> old.lease_token
          or new.created_at <> old.created_at or (old.ending and not new.ending))
    execute function holdfast.refuse();

create trigger a_job_only_moves_forward before update on holdfast.jobs for each row
    when (new.state <> old.state and (
              old.finished_at is not null or new.seq <> old.seq + 1 or new.submitted_at is null
              or not (new.state = 3 and old.state = 1 or new.finished_at is not null))
          or new.seq not in (old.seq, old.seq + 1)
          or new.seq = old.seq + 1 and new.event_type is distinct from
             case when new.submitted_at is distinct from old.submitted_at then 'submitted'
                  when new.state <> old.state
                  then ('{NULL,NULL,NULL,started,succeeded,failed,killed,worker_failed,unschedulable,NULL,'
                        'dead_lettered}'::holdfast.event_type[])[new.state + 1]
                  when new.event_type in ('cancel_requested', 'replayed', 'compensated') then new.event_type end
          or new.seq = old.seq + 1 and new.event_at < old.event_at
          or old.finished_at is distinct from new.finished_at and old.finished_at is not null
          or old.submitted_at is distinct from new.submitted_at and old.submitted_at is not null
          or old.cancel_mode = 'hard' and new.cancel_mode is distinct from 'hard'
          or old.cancel_mode is not null and new.cancel_mode is null
          or new.job_id <> old.job_id or new.num_tasks <> old.num_tasks or new.spec <> old.spec)
    execute function holdfast.refuse();

create trigger a_job_is_born_pending before insert on holdfast.jobs for each row
    when (not (new.state = 1 and new.pending = new.num_tasks and new.cancel_mode is null
               and new.seq = (new.submitted_at is not null)::int))
    execute function holdfast.refuse();

create function holdfast.write_job_event() returns trigger
    language plpgsql as $$
begin
    insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, actor, cause, payload, txid)
    values (new.job_id, -1, new.seq - 1, -1, new.event_type, new.event_at, new.event_actor,
            new.event_cause, new.event_payload, txid_current());
    return null;
end $$;
create trigger a_submission_is_an_event after insert on holdfast.jobs for each row
    when (new.seq = 1) execute function holdfast.write_job_event();
create trigger every_job_event_is_written after update on holdfast.jobs for each row
    when (new.seq <> old.seq) execute function holdfast.write_job_event();

create function holdfast.refuse_delete_of_live_job() returns trigger
    language plpgsql as $$
begin
    if exists (select from holdfast.tasks where job_id = old.job_id) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('job %s still has tasks', old.job_id);
    end if;
    return old;
end $$;
create trigger a_job_goes_after_its_tasks before delete on holdfast.jobs for each row
    execute function holdfast.refuse_delete_of_live_job();

-- A statement that names a partition would pass the statement-level triggers of its parent by. These two
-- run with the rights of the schema's owner, so that the application's role needs none but to read and write.
create function holdfast.add_partition(first_job_id bigint, end_job_id bigint) returns void
    language plpgsql security definer set search_path = holdfast, pg_temp as $$
declare
    parent text;
    options text;
begin
    insert into holdfast.partitions values (first_job_id, end_job_id);
    foreach parent in array array['tasks', 'attempts', 'events'] loop
        -- A partition that was analyzed while it held a handful of rows would be planned for a handful.
        options := format('with (fillfactor = %s, autovacuum_analyze_threshold = 5000)',
                          case parent when 'tasks' then 60 else 100 end);
        -- Made apart and then attached: creating it in place would wait for every reader of the parent.
        execute format('create table holdfast.%I (like holdfast.%I including defaults including constraints) %s',
                       parent || '_' || first_job_id, parent, options);
        execute format('alter table holdfast.%I attach partition holdfast.%I for values from (%s) to (%s)',
                       parent, parent || '_' || first_job_id, first_job_id, end_job_id);
        execute format('create trigger a_partition_is_written_through_its_parent '
                       'before insert or update or delete on holdfast.%I '
                       'for each statement execute function holdfast.refuse()',
                       parent || '_' || first_job_id);
    end loop;
end $$;

create function holdfast.drop_partition(first bigint) returns void
    language plpgsql security definer set search_path = holdfast, pg_temp as $$
declare
    parent text;
begin
    if exists (select from holdfast.partitions join holdfast.jobs
                   on job_id >= first_job_id and job_id < end_job_id
                where first_job_id = first and finished_at is null) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = 'a_partition_with_live_jobs_stays',
            message = format('partition %s holds jobs that have not ended', first);
    end if;
    delete from holdfast.partitions where first_job_id = first;
    foreach parent in array array['tasks', 'attempts', 'events'] loop
        execute format('drop table holdfast.%I', parent || '_' || first);
    end loop;
end $$;

select holdfast.add_partition(1, 10001);
