-- What long lists are read by: jobs by their state, the output of a job by the time it came, the newest dead letters.

-- Jobs by state, but for the many that succeeded. An index on the state itself would have every move of a job
-- touch all indexes of its table; a narrow table costs its own share alone.
create table holdfast.job_states (
    state smallint not null,
    job_id bigint not null,
    constraint a_job_has_one_place_among_its_state primary key (state, job_id),
    constraint a_success_is_not_listed check (state <> 4)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_analyze_threshold = 20000);

-- A job that appears, starts or ends has its event written here, so this needs no triggers of its own: a job with one
-- task would pay for them three times. Those that are submitted together are written together; only a large one, whose
-- tasks were stored before, appears by an update.
create function holdfast.write_submissions() returns trigger
    language plpgsql as $$
begin
    insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, actor, cause, payload, txid)
    select job_id, -1, 0, -1, event_type, event_at, event_actor, event_cause, event_payload, txid_current()
      from stored where seq = 1;
    insert into holdfast.job_states (state, job_id) select state, job_id from stored where seq = 1;
    return null;
end $$;
drop trigger a_submission_is_an_event on holdfast.jobs;
create trigger a_submission_is_an_event after insert on holdfast.jobs referencing new table as stored
    for each statement execute function holdfast.write_submissions();

create or replace function holdfast.write_job_event() returns trigger
    language plpgsql as $$
begin
    insert into holdfast.events (job_id, task_index, seq, attempt, type, ts, actor, cause, payload, txid)
    values (new.job_id, -1, new.seq - 1, -1, new.event_type, new.event_at, new.event_actor,
            new.event_cause, new.event_payload, txid_current());
    if new.seq = 1 then
        insert into holdfast.job_states (state, job_id) values (new.state, new.job_id);
    elsif new.state = 4 and old.state <> 4 then
        delete from holdfast.job_states where state = old.state and job_id = new.job_id;
    elsif new.state <> old.state then
        update holdfast.job_states set state = new.state where state = old.state and job_id = new.job_id;
    end if;
    return null;
end $$;

create function holdfast.forget_job_state() returns trigger
    language plpgsql as $$
begin
    delete from holdfast.job_states where state = old.state and job_id = old.job_id;
    return null;
end $$;
create trigger a_place_among_its_state_goes_with_its_job after delete on holdfast.jobs for each row
    when (old.state <> 4 and old.submitted_at is not null) execute function holdfast.forget_job_state();

-- Since the trigger was made, whoever would write a job waits for the end of this transaction.
insert into holdfast.job_states (state, job_id)
select state, job_id from holdfast.jobs where state <> 4 and submitted_at is not null;

-- A large job is seen long after its id was given out: whoever lists jobs by time looks for these apart.
create index jobs_that_arrive_in_chunks on holdfast.jobs (job_id) where num_tasks > 10000;

-- Output that is there already counts as stored in 1970; then the default changes, and no row is rewritten.
alter table holdfast.logs add column stored_at timestamptz not null default '1970-01-01 00:00:00+00';
alter table holdfast.logs alter column stored_at set default holdfast.now();
create index logs_of_a_job_as_they_came on holdfast.logs (job_id, stored_at, task_index, attempt, start_offset);

create index open_dead_letters_by_time on holdfast.dead_letters (dead_lettered_at, job_id, task_index)
    where replayed_at is null and discarded_at is null;
