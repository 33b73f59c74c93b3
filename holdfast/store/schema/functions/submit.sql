-- Submitting by SQL: a job is born inside the caller's own transaction, and is gone if that is rolled back.
--
-- What is checked and filled in is what rules/submitting/submission.py checks and fills in, in its order; what is
-- stored is what a submission through the server stores. tests/store compares the two, one submission after the other.

create or replace function holdfast.as_interval(seconds numeric) returns interval language sql immutable as $$
    select trunc(float) * interval '1 second' + round((float - trunc(float)) * 1e6) * interval '1 microsecond'
      from (select round(seconds, 9)::float8) as rounded(float)
$$;

-- A repeat is known by what it says, as operations/submitting/repeats.py knows it.
create or replace function holdfast.answer_repeat(plain jsonb, inputs jsonb) returns bigint
    language plpgsql as $$
declare
    first record;
begin
    select job_id, coalesce(asked_hash = jsonb_hash_extended(plain, 0), spec = plain) and case
               when num_tasks = jsonb_array_length(inputs)
               then inputs = (select jsonb_agg(input::jsonb order by task_index)
                                from holdfast.tasks where tasks.job_id = jobs.job_id)
               else inputs is null and not fan_out end as is_same
      into first from holdfast.jobs
     where owner = plain ->> 'owner' and idempotency_key = plain ->> 'idempotency_key';
    if not found then
        raise exception using errcode = 'serialization_failure',
            message = 'the job under this idempotency_key was deleted at the same moment; try again';
    end if;
    perform holdfast.refuse_field('idempotency_key', format(
                '%L was used for job %s with a different spec; use a new key, or submit the same spec',
                plain ->> 'idempotency_key', first.job_id))
      where not first.is_same;
    return first.job_id;
end $$;

-- Whoever may execute this needs no other right but usage of the schema. The settings are those that would
-- change what a text in these functions means, should the caller's session have others.
create or replace function holdfast.submit(spec jsonb, inputs jsonb default null) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on set extra_float_digits = 1 as $$
declare
    limits holdfast.limits;
    num_tasks int;
    asked jsonb;
    plain jsonb;
    complete jsonb;
    rules jsonb;
    clock timestamptz;
    eligible timestamptz;
    id bigint;
    key record;
    last bigint;
    before bigint;
begin
    select * into strict limits from holdfast.limits;
    perform holdfast.check_shape(spec);
    asked := spec - 'placed';
    spec := holdfast.add_announced(spec, inputs is not null);
    perform holdfast.check_shape(spec);
    perform holdfast.check_entrypoint(spec -> 'entrypoint');
    perform holdfast.check_texts(spec, limits);
    perform holdfast.check_numbers(spec, limits);
    num_tasks := holdfast.check_inputs(spec, inputs, limits);
    perform holdfast.check_unique(spec, inputs, num_tasks, limits);
    plain := holdfast.complete_spec(spec, inputs is not null, limits);
    complete := plain;
    select policy into rules from holdfast.policies where type = plain ->> 'type';
    if found then
        complete := holdfast.complete_spec(
            holdfast.follow_policy(spec, plain, num_tasks, rules), inputs is not null, limits);
    end if;
    -- A repeat is known by what the job would be without a policy and without what workers have announced, whatever
    -- those were the first time.
    plain := holdfast.complete_spec(asked, inputs is not null, limits);
    perform holdfast.check_size('spec', octet_length(complete::text), limits.spec_bytes_max, 'bytes');
    if jsonb_typeof(complete -> 'concurrency_key') = 'object' then
        perform holdfast.check_key(complete, inputs);
    end if;

    -- Who joins a chain has a number above those of all who joined before.
    if complete ? 'chain' then
        insert into holdfast.chains (owner, key) values (complete ->> 'owner', complete ->> 'chain')
            on conflict on constraint a_chain_has_one_last_job do update set joined_at = holdfast.now()
        returning last_job_id into last;
        perform holdfast.has_limits();  -- before jobs are locked: whoever changes limits waits for leases
        loop  -- once, unless one ends at this moment: then an earlier one comes next
            before := holdfast.find_in_chain(last);
            perform from holdfast.jobs where job_id in (last, before) order by job_id for share;
            exit when not exists (select from holdfast.jobs where job_id = before and finished_at is not null);
        end loop;
        if complete ->> 'on_failure' = 'block' then
            before := coalesce(holdfast.find_stop(last), before);
        end if;
    end if;
    id := nextval('holdfast.job_ids');
    if id >= (select max(end_job_id) from holdfast.partitions) then
        perform holdfast.ensure_partition(id);
    end if;
    clock := holdfast.now();
    if complete ? 'unique' then
        perform holdfast.has_limits();
        if exists (select from holdfast.jobs where owner = complete ->> 'owner'
                      and idempotency_key = complete ->> 'idempotency_key') then
            return holdfast.answer_repeat(plain, inputs);
        end if;
        select * into strict key from holdfast.take_unique_key(id, complete, inputs, clock);
        if key.holder is not null then
            return key.holder;
        elsif key.start_at is not null then
            complete := complete || jsonb_build_object('not_before', extract(epoch from key.start_at)::float8);
        end if;
    end if;
    insert into holdfast.jobs (
        job_id, name, type, owner, queue, priority, spec, labels, correlation_id, trace_id, idempotency_key,
        asked_hash, created_at, submitted_at, fan_out, max_task_failures, num_tasks, pending, unmet, seq, event_type,
        event_at, event_actor)
    values (
        id, complete ->> 'name', complete ->> 'type', complete ->> 'owner', complete ->> 'queue',
        coalesce((complete ->> 'priority')::int, 0), complete, coalesce(complete -> 'labels', '{}'),
        coalesce(complete ->> 'correlation_id', gen_random_uuid()::text), complete ->> 'trace_id',
        complete ->> 'idempotency_key',
        case when complete ? 'idempotency_key' then jsonb_hash_extended(nullif(plain, complete), 0) end,
        clock, clock, inputs is not null, (complete ->> 'max_task_failures')::int, num_tasks, num_tasks,
        (before is not null)::int, 1,
        'submitted', clock, complete ->> 'owner')
    on conflict (owner, idempotency_key) where idempotency_key is not null do nothing;
    if not found then
        if complete ? 'unique' then
            raise exception using errcode = 'serialization_failure',
                message = 'a job under this idempotency_key was submitted at the same moment; try again';
        end if;
        return holdfast.answer_repeat(plain, inputs);
    end if;
    eligible := greatest(clock, to_timestamp(0) + holdfast.as_interval((complete ->> 'not_before')::numeric));
    insert into holdfast.tasks (job_id, task_index, placed, eligible_at, submitted_at, moved_at, input)
    select id, task_index, complete ->> 'queue' is null, eligible, clock, clock, (inputs -> task_index)::json
      from generate_series(0, num_tasks - 1) as task_index;
    if complete ? 'chain' then
        update holdfast.chains set last_job_id = id
         where chains.owner = complete ->> 'owner' and chains.key = complete ->> 'chain';
        insert into holdfast.dependencies (job_id, depends_on, condition, on_failure)
        select id, before, 'ended', coalesce(complete ->> 'on_failure', 'pass')
         where before is not null;
    end if;
    if before is not null then
        null;  -- its tasks are put in line when its turn comes
    elsif eligible > clock then
        insert into holdfast.waiting (job_id, task_index, eligible_at)
        select id, task_index, eligible from generate_series(0, num_tasks - 1) as task_index;
    elsif exists (select from holdfast.share_rules
                   where share_rules.queue = complete ->> 'queue' and ended_at is null) then
        perform holdfast.gate(array_agg(id), array_agg(task_index), array_agg(
                    eligible + holdfast.as_interval((complete ->> 'scheduling_timeout')::numeric)))
           from generate_series(0, num_tasks - 1) as task_index;
    else
        insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at)
        select coalesce(complete ->> 'queue', ''), -coalesce((complete ->> 'priority')::int, 0), eligible, id,
               task_index, eligible + holdfast.as_interval((complete ->> 'scheduling_timeout')::numeric)
          from generate_series(0, num_tasks - 1) as task_index;
        if exists (select from holdfast.usage_limits) then
            perform holdfast.gate_crowds(array_agg(id), array_agg(task_index), adds_buckets => false)
               from generate_series(0, num_tasks - 1) as task_index;
        end if;
    end if;
    if eligible <= clock then
        -- Commits that notify wait for each other, all of them in the cluster: who submits a lot may do without.
        perform pg_notify('holdfast_ready', complete ->> 'queue')
          where complete ? 'queue' and current_setting('holdfast.notify', true) is distinct from 'off';
    end if;
    return id;
end $$;
revoke all on function holdfast.submit from public;
