-- Jobs that expire: their time is noted as they are stored, whichever way they come.

create or replace function holdfast.note_expiry() returns trigger language plpgsql as $$
begin
    insert into holdfast.expiries (job_id, expires_at)
    values (new.job_id, coalesce(to_timestamp((new.spec ->> 'expires_at')::float8),
                                 new.created_at + (new.spec ->> 'expires')::float8 * interval '1 second'));
    return null;
end $$;
create or replace trigger a_job_that_expires_is_noted after insert on holdfast.jobs for each row
    when (new.spec ?| '{expires,expires_at}') execute function holdfast.note_expiry();

create or replace function holdfast.forget_expiry() returns trigger language plpgsql as $$
begin
    delete from holdfast.expiries where job_id = old.job_id;
    return null;
end $$;
create or replace trigger an_expiry_goes_with_its_job after delete on holdfast.jobs for each row
    when (old.spec ?| '{expires,expires_at}') execute function holdfast.forget_expiry();
