-- Every job belongs to a trace, whichever way it came in.

-- The span that submitted the job: its traceparent, and behind a space its tracestate if there is one.
-- Not checked for the rows that are there: it is null in all of them, and to read them all would hold up everybody.
alter table holdfast.jobs
    add column trace_parent text,
    add constraint a_trace_parent_is_short check (length(trace_parent) <= 1024) not valid;

create function holdfast.name_trace() returns trigger language plpgsql set search_path = '' as $$
begin
    new.trace_id := replace(pg_catalog.gen_random_uuid()::text, '-', '');
    return new;
end $$;
create trigger a_job_has_a_trace before insert on holdfast.jobs for each row
    when (new.trace_id is null) execute function holdfast.name_trace();
