-- Partitions of tasks, attempts and events. They are added and dropped with the rights of the schema's owner, so that
-- the application's role needs none but to read and write. Whoever may do no more than use the schema, or submit by
-- SQL, must not be able to call for that.

-- A statement that names a partition would pass the statement-level triggers of its parent by: hence its own trigger.
create or replace function holdfast.add_partition(first_job_id bigint, end_job_id bigint) returns void
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
                       'before insert or update or delete or truncate on holdfast.%I '
                       'for each statement execute function holdfast.refuse()',
                       parent || '_' || first_job_id);
    end loop;
end $$;
revoke execute on function holdfast.add_partition(bigint, bigint) from public;

create or replace function holdfast.drop_partition(first bigint) returns void
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
revoke execute on function holdfast.drop_partition(bigint) from public;

-- As operations/upkeep/partitions.py does it when ids have run ahead; held until the caller's transaction ends.
create or replace function holdfast.ensure_partition(job_id bigint) returns void language plpgsql as $$
declare
    newest holdfast.partitions;
begin
    lock table holdfast.partitions in share row exclusive mode;
    select * into newest from holdfast.partitions order by first_job_id desc limit 1;
    while job_id >= newest.end_job_id loop
        newest := (newest.end_job_id, newest.end_job_id
                   + greatest(10000, least(1000000, (newest.end_job_id - newest.first_job_id) * 4)), null, null);
        perform holdfast.add_partition(newest.first_job_id, newest.end_job_id);
    end loop;
exception
    -- Somebody made it after this transaction's snapshot was taken: it is there, although it cannot be seen.
    when unique_violation then null;
end $$;

-- The first one, from which the rest follow.
select holdfast.add_partition(1, 10001) where not exists (select from holdfast.partitions);
