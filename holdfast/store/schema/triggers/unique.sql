-- Unique jobs: when they let go of their keys. Jobs without one pay for a look at a column that is null.

create or replace function holdfast.note_unique_states() returns trigger language plpgsql as $$
begin
    new.unique_states := holdfast.unique_states(new.spec -> 'unique');
    return new;
end $$;
create or replace trigger a_unique_job_knows_its_states before insert on holdfast.jobs for each row
    when (new.spec ? 'unique') execute function holdfast.note_unique_states();

create or replace function holdfast.release_unique_key() returns trigger language plpgsql as $$
begin
    delete from holdfast.unique_jobs where job_id = old.job_id;
    return null;
end $$;
-- A job that waits and is cancelled will never run, so the next one need not wait until it is swept away.
create or replace trigger a_job_lets_go_of_its_unique_key
    after update of state, cancel_mode on holdfast.jobs for each row
    when (new.unique_states is not null
          and ((new.unique_states >> new.state) & 1 = 0 or new.state = {PENDING} and new.cancel_mode is not null)
          and (new.state <> old.state or new.cancel_mode is distinct from old.cancel_mode))
    execute function holdfast.release_unique_key();

create or replace trigger a_unique_key_goes_with_its_job after delete on holdfast.jobs for each row
    when (old.unique_states is not null) execute function holdfast.release_unique_key();
