-- Signals: one function keeps them, for the server and for whoever sends them by SQL.

-- Whoever sends holds the task's row until the commit, and so does an attempt that ends to wait: one of the two sees
-- the other, whichever comes first. What waits is due at once, and is put in line by whoever holds it or by the chore.
create or replace function holdfast.put_signal(
        of_job bigint, of_task int, signal_name text, signal_payload json, signal_key text, sender text,
        out outcome text, out found_index int, out found_number int)
    language plpgsql as $$
declare
    task record;
    first record;
begin
    found_index := of_task;
    if of_task is null then
        select case when num_tasks = 1 then 0 end into found_index
          from holdfast.jobs where job_id = of_job and submitted_at is not null;
        if not found then
            outcome := 'no_job';
            return;
        elsif found_index is null then
            outcome := 'which_task';
            return;
        end if;
    end if;
    select tasks.attempt, tasks.state, tasks.finished_at is not null as has_ended into task
      from holdfast.tasks where tasks.job_id = of_job and tasks.task_index = found_index for update;
    if not found or not exists (select from holdfast.jobs where job_id = of_job and submitted_at is not null) then
        outcome := 'no_task';
        return;
    end if;
    select name, number, payload::jsonb as payload into first
      from holdfast.signals
     where job_id = of_job and task_index = found_index and idempotency_key = signal_key;
    if found then
        found_number := first.number;
        outcome := case when first.name = signal_name and first.payload = signal_payload::jsonb
                        then 'repeated' else 'other_content' end;
        return;
    end if;
    if task.has_ended or exists (select from holdfast.jobs where job_id = of_job
                                    and (finished_at is not null or cancel_mode is not null)) then
        outcome := 'ended';
        return;
    end if;
    select coalesce(max(number), 0) + 1 into found_number
      from holdfast.signals where job_id = of_job and task_index = found_index and name = signal_name;
    if found_number > 1000 then
        outcome := 'too_many';
        return;
    end if;
    insert into holdfast.signals (job_id, task_index, name, number, payload, sent_at, sent_by, idempotency_key)
    values (of_job, found_index, signal_name, found_number, signal_payload, holdfast.now(), sender, signal_key);
    update holdfast.waiting set eligible_at = least(eligible_at, holdfast.now())
     where job_id = of_job and task_index = found_index
       and exists (select from holdfast.signal_waits as waits
                    where waits.job_id = of_job and waits.task_index = found_index and waits.name = signal_name
                      and waits.attempt = task.attempt - 1 and waits.parked_at is not null
                      and waits.ended_at is null);
    outcome := 'sent';
end $$;

-- Whoever may execute this needs no other right but usage of the schema. What is checked is what rules/signals.py and
-- operations/signals.py check. A task that waits goes on after the commit, by the chore that requeues what is due.
create or replace function holdfast.signal(
        job_id bigint, name text, payload jsonb default null, task_index int default null,
        idempotency_key text default null) returns int
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on set extra_float_digits = 1 as $$
#variable_conflict use_variable
declare
    content constant text := coalesce(payload, 'null')::text;
    task_id text;
    put record;
begin
    perform holdfast.refuse_field('job_id', 'is missing; pass the id of the job') where job_id is null;
    perform holdfast.refuse_field('name', 'is empty; name the signal, such as approval') where coalesce(name, '') = '';
    perform holdfast.check_size('name', length(name), 200, 'characters');
    perform holdfast.check_value('payload', payload) where payload is not null;
    perform holdfast.check_size('payload', octet_length(content), (select input_bytes_max from holdfast.limits),
                                'bytes');
    perform holdfast.refuse_field('idempotency_key', 'is empty; leave it out, or give it a name')
      where idempotency_key = '';
    perform holdfast.check_size('idempotency_key', length(idempotency_key), 256, 'characters')
      where idempotency_key is not null;
    select * into put
      from holdfast.put_signal(job_id, task_index, name, content::json, idempotency_key, session_user::text);
    task_id := format('%s.%s', job_id, put.found_index);
    if put.outcome in ('sent', 'repeated') then
        insert into holdfast.actions (at, actor, action, subject_kind, subject, facts)
        select holdfast.now(), session_user::text, 'signal', 'task', task_id, jsonb_build_object('signal', name)
         where put.outcome = 'sent';
        return put.found_number;
    end if;
    perform holdfast.refuse_field('task_index', format(
        'is missing: job %s has several tasks; say which by its index', job_id)) where put.outcome = 'which_task';
    perform holdfast.refuse_field('idempotency_key', format(
        '%L was used for a different signal; use a new key, or send the same signal', idempotency_key))
      where put.outcome = 'other_content';
    perform holdfast.refuse_field('name', '1001 signals is over the limit of 1000 signals')
      where put.outcome = 'too_many';
    if put.outcome = 'ended' then
        raise exception using errcode = 'object_not_in_prerequisite_state', message = format(
            'cannot send signal %L to task %s: it is at its end, or its job is', name, task_id);
    end if;
    raise exception using errcode = 'no_data_found', message = format(
        'there is no %s', case put.outcome when 'no_job' then format('job %s', job_id)
                          else format('task %s', task_id) end);
end $$;
revoke all on function holdfast.signal from public;
