-- Completing by SQL: a task succeeds inside its own code's transaction, and is as it was if that is rolled back.

-- Whether an attempt that has ended should be stopped at once: not while it goes home after a success that its own code
-- has recorded, but for its deadlines.
create or replace function holdfast.is_to_stop(ended_job_id bigint, ended_index int, ended_attempt int,
                                               deadline timestamptz) returns boolean
    language sql stable as $$
    select coalesce(deadline <= holdfast.now(), false)
           or not exists (select from holdfast.attempts
                           where attempts.job_id = ended_job_id and attempts.task_index = ended_index
                             and attempts.attempt = ended_attempt and attempts.state = {SUCCEEDED})
$$;

-- The lease lives on as ending until the worker says that the code has returned: what it prints until then is kept, and
-- what it holds is held. What follows from the success is done after the commit by chores, by counts and the outbox.
-- Locks are taken in the order of all others: task, lease, job. Who may execute this needs no other right but usage of
-- the schema, and completes only what it knows the lease token of. Settings as those of holdfast.submit and turn.
create or replace function holdfast.complete(
    task_id text, attempt int, lease_token uuid, result jsonb default null) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on set extra_float_digits = 1 set plan_cache_mode = force_generic_plan
    set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    parts text[] := regexp_match(complete.task_id, '^(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,8})$');
    kept constant text := nullif(complete.result, 'null')::text;
    id bigint;
    place int;
    start smallint;
    lease holdfast.leases;
    clock timestamptz;
    ended_at timestamptz;
    begun_at timestamptz;
begin
    perform holdfast.refuse_field('task_id', format('%L is not a task id; pass it as it came, such as 4182.3',
                                                    complete.task_id)) where parts is null;
    perform holdfast.refuse_field('attempt', 'is missing; pass the number of the attempt')
      where complete.attempt is null;
    perform holdfast.refuse_field('lease_token', 'is missing; pass the lease token of the attempt')
      where complete.lease_token is null;
    perform holdfast.check_value('result', complete.result) where kept is not null;
    perform holdfast.check_size('result', octet_length(kept), (select input_bytes_max from holdfast.limits), 'bytes');
    id := parts[1];
    place := parts[2];
    select state into start from holdfast.tasks where job_id = id and task_index = place for update;
    select leases.* into lease from holdfast.leases
     where leases.job_id = id and leases.task_index = place and leases.attempt = complete.attempt
       and leases.lease_token = complete.lease_token
       for update;
    if lease is null or lease.ending then
        if exists (select from holdfast.attempts
                    where attempts.job_id = id and attempts.task_index = place
                      and attempts.attempt = complete.attempt and attempts.lease_token = complete.lease_token
                      and attempts.state = {SUCCEEDED}) then
            raise exception using errcode = 'HF004',
                message = format('task %s: attempt %s has completed already; roll back, and change nothing more',
                                 complete.task_id, complete.attempt);
        end if;
        raise exception using errcode = 'HF003',
            message = format('task %s: attempt %s does not hold the lease, or no longer; roll back, and stop',
                             complete.task_id, complete.attempt);
    end if;
    perform holdfast.refuse_field('task_id', format(
        'job %s writes datasets; let the worker complete it, with what it has written', id))
      where exists (select from holdfast.job_outputs where job_outputs.job_id = id);
    perform holdfast.refuse_field('result', format(
        'job %s runs a pickle, whose result is one too; return it, or complete without a result', id))
      where kept is not null
        and (select jobs.spec -> 'entrypoint' ? 'pickle' from holdfast.jobs where jobs.job_id = id);
    clock := holdfast.now();
    -- The report of the start may be on its way: the code runs, at the latest since it was claimed.
    if start <> {RUNNING} then
        update holdfast.tasks
           set state = {RUNNING}, seq = tasks.seq + 1, started_at = tasks.moved_at, actor = lease.worker_id,
               cause = null
         where tasks.job_id = id and tasks.task_index = place;
    end if;
    update holdfast.tasks
       set state = {SUCCEEDED}, seq = tasks.seq + 1, moved_at = greatest(clock, tasks.moved_at),
           finished_at = greatest(clock, tasks.moved_at), actor = lease.worker_id, cause = null, result = kept::json
     where tasks.job_id = id and tasks.task_index = place
    returning tasks.started_at, tasks.finished_at into begun_at, ended_at;
    update holdfast.leases set ending = true where leases.job_id = id and leases.task_index = place;
    insert into holdfast.attempts (job_id, task_index, attempt, worker_id, state, created_at, started_at, finished_at,
                                   exit_code, lease_token, last_lease_expires_at, reported)
    values (id, place, lease.attempt, lease.worker_id, {SUCCEEDED}, lease.created_at, begun_at, ended_at, 0,
            lease.lease_token, lease.expires_at, true);
    perform holdfast.count_moves(
        array[id], '{}', array[-(start = {ASSIGNED})::int], array[-(start = {BUILDING})::int],
        array[-(start = {RUNNING})::int], array[1], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', array[false]);
end $$;
revoke all on function holdfast.complete from public;
