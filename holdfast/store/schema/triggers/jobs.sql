-- The guards of jobs, the events of their own streams, and what lists of jobs are read by.

-- By their columns: most statements only count, and need not be compared with rules on what they do not name. After
-- the update: a trigger before it would lock each row once more.
create or replace trigger a_job_only_moves_forward
    after update of job_id, num_tasks, spec, state, seq, event_type, event_at, submitted_at, finished_at, cancel_mode
    on holdfast.jobs for each row
    when (new.state <> old.state and (
              old.finished_at is not null or new.seq <> old.seq + 1 or new.submitted_at is null
              or not (new.state = {RUNNING} and old.state = {PENDING} or new.finished_at is not null))
          or new.seq not in (old.seq, old.seq + 1)
          or new.seq = old.seq + 1 and new.event_type is distinct from
             case when new.submitted_at is distinct from old.submitted_at then 'submitted'
                  when new.state <> old.state
                  then case new.state
                       when {RUNNING} then 'started'::holdfast.event_type when {SUCCEEDED} then 'succeeded'
                       when {FAILED} then 'failed' when {KILLED} then 'killed'
                       when {WORKER_FAILED} then 'worker_failed' when {UNSCHEDULABLE} then 'unschedulable'
                       when {DEAD_LETTERED} then 'dead_lettered' end
                  when new.event_type in ('cancel_requested', 'replayed', 'compensated') then new.event_type end
          or new.seq = old.seq + 1 and new.event_at < old.event_at
          or old.finished_at is distinct from new.finished_at and old.finished_at is not null
          or old.submitted_at is distinct from new.submitted_at and old.submitted_at is not null
          or old.cancel_mode = 'hard' and new.cancel_mode is distinct from 'hard'
          or old.cancel_mode is not null and new.cancel_mode is null
          or new.job_id <> old.job_id or new.num_tasks <> old.num_tasks or new.spec <> old.spec)
    execute function holdfast.refuse();

create or replace trigger a_job_is_born_pending before insert on holdfast.jobs for each row
    when (not (new.state = {PENDING} and new.pending = new.num_tasks and new.cancel_mode is null
               and new.seq = (new.submitted_at is not null)::int))
    execute function holdfast.refuse();

create or replace trigger a_job_starts_after_what_it_depends_on
    after update of unmet, started_at, assigned, building, running on holdfast.jobs for each row
    when (new.unmet > 0 and (new.started_at is not null or new.assigned + new.building + new.running > 0))
    execute function holdfast.refuse();

create or replace trigger what_a_job_depends_on_is_settled_once
    after update of unmet, released_at, submitted_at, graph_id, compensates_job_id on holdfast.jobs for each row
    when (new.unmet > old.unmet
          or old.released_at is not null and new.released_at is distinct from old.released_at
          or old.submitted_at is not null
             and (old.graph_id, old.compensates_job_id) is distinct from (new.graph_id, new.compensates_job_id))
    execute function holdfast.refuse();

create or replace function holdfast.refuse_delete_of_live_job() returns trigger
    language plpgsql as $$
begin
    -- Of a range that is being pruned the tasks go last, all at once.
    if old.finished_at is not null and exists (
           select from holdfast.partitions
            where retired_at is not null and old.job_id >= first_job_id and old.job_id < end_job_id) then
        return old;
    end if;
    if exists (select from holdfast.tasks where job_id = old.job_id) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('job %s still has tasks', old.job_id);
    end if;
    return old;
end $$;
create or replace trigger a_job_goes_after_its_tasks before delete on holdfast.jobs for each row
    execute function holdfast.refuse_delete_of_live_job();

create or replace function holdfast.name_trace() returns trigger language plpgsql set search_path = '' as $$
begin
    new.trace_id := replace(pg_catalog.gen_random_uuid()::text, '-', '');
    return new;
end $$;
create or replace trigger a_job_has_a_trace before insert on holdfast.jobs for each row
    when (new.trace_id is null) execute function holdfast.name_trace();

-- A job that appears, starts or ends has its event written here, so this needs no triggers of its own: a job with one
-- task would pay for them three times. Those that are submitted together are written together; only a large one, whose
-- tasks were stored before, appears by an update.
create or replace function holdfast.write_submissions() returns trigger
    language plpgsql as $$
begin
    insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, actor, cause, payload, txid)
    select job_id, -1, 0, -1, event_type, event_at, event_actor, event_cause, event_payload, txid_current()
      from stored where seq = 1;
    insert into holdfast.job_states (state, job_id) select state, job_id from stored where seq = 1;
    return null;
end $$;
create or replace trigger a_submission_is_an_event after insert on holdfast.jobs referencing new table as stored
    for each statement execute function holdfast.write_submissions();

create or replace function holdfast.write_job_event() returns trigger
    language plpgsql as $$
begin
    insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, actor, cause, payload, txid)
    values (new.job_id, -1, new.seq - 1, -1, new.event_type, new.event_at, new.event_actor,
            new.event_cause, new.event_payload, txid_current());
    if new.seq = 1 then
        insert into holdfast.job_states (state, job_id) values (new.state, new.job_id);
    elsif new.state = {SUCCEEDED} and old.state <> {SUCCEEDED} then
        delete from holdfast.job_states where state = old.state and job_id = new.job_id;
    elsif new.state <> old.state then
        update holdfast.job_states set state = new.state where state = old.state and job_id = new.job_id;
    end if;
    return null;
end $$;
create or replace trigger every_job_event_is_written after update of seq on holdfast.jobs for each row
    when (new.seq <> old.seq) execute function holdfast.write_job_event();

create or replace function holdfast.forget_job_state() returns trigger
    language plpgsql as $$
begin
    delete from holdfast.job_states where state = old.state and job_id = old.job_id;
    return null;
end $$;
create or replace trigger a_listed_state_goes_with_its_job after delete on holdfast.jobs for each row
    when (old.state <> {SUCCEEDED} and old.submitted_at is not null) execute function holdfast.forget_job_state();

create or replace function holdfast.keep_labels() returns trigger
    language plpgsql as $$
begin
    insert into holdfast.job_labels (label, job_id)
    select distinct holdfast.label_hash(key, value), new.job_id from jsonb_each_text(new.labels);
    return null;
end $$;
create or replace trigger labels_are_kept_with_their_job after insert on holdfast.jobs for each row
    when (new.labels <> '{}') execute function holdfast.keep_labels();

create or replace function holdfast.drop_labels() returns trigger
    language plpgsql as $$
begin
    delete from holdfast.job_labels
     where job_id = old.job_id
       and label in (select holdfast.label_hash(key, value) from jsonb_each_text(old.labels));
    return null;
end $$;
create or replace trigger labels_go_with_their_job after delete on holdfast.jobs for each row
    when (old.labels <> '{}') execute function holdfast.drop_labels();
