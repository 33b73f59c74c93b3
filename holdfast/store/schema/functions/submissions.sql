-- Storing new jobs: within a transaction, step by step, or all of it by one call that is a transaction of its own.
--
-- An array for each column of a job. Where no ids are given they are given out here, once it is seen that the policies
-- under which the jobs were accepted still hold, and that the ids have a partition to live in; else nothing is
-- stored, and no id is returned. With the positions of tasks, from 1 on, come the tasks too, those of each job in
-- order; they stand in line at once. Returns an id for each job, null where its key was seen before, and the time.
create or replace function holdfast.store_jobs(
    job_id bigint[], name text[], type text[], owner text[], queue text[], priority int[], spec text[], labels text[],
    parent_job_id bigint[], replay_of bigint[], correlation_id text[], trace_id text[], trace_parent text[],
    idempotency_key text[], asked text[], shown boolean[], fan_out boolean[], max_task_failures int[],
    num_tasks int[], graph_id bigint[], compensates_job_id bigint[], unmet int[], actor text[],
    scheduling_timeout interval[], positions int[], task_indexes int[], placed boolean[], inputs text[],
    at timestamptz, policies_version bigint, partitions_end bigint,
    out job_ids bigint[], out stored_at timestamptz)
    language plpgsql
    set lock_timeout = '250ms' set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
    set random_page_cost = 0 set seq_page_cost = 0 as $$
#variable_conflict use_column
declare
    new_ids bigint[];
    shared_queues text[];
begin
    stored_at := coalesce(at, holdfast.now());
    job_ids := job_id;
    if job_id[1] is null then
        job_ids := array(
            select nextval('holdfast.job_ids') from holdfast.policy_clock, generate_series(1, cardinality(job_id))
             where version + functions_version = policies_version);
        if cardinality(job_ids) = 0 or job_ids[cardinality(job_ids)] >= partitions_end then
            job_ids := '{}';
            return;
        end if;
    end if;
    with stored as (
        insert into holdfast.jobs (
            job_id, name, type, owner, queue, priority, spec, labels, parent_job_id, replay_of, correlation_id,
            trace_id, trace_parent, idempotency_key, asked_hash, created_at, submitted_at, fan_out,
            max_task_failures, num_tasks, pending, graph_id, compensates_job_id, unmet, seq, event_type, event_at,
            event_actor)
        select job_id, name, type, owner, queue, priority, spec::jsonb, labels::jsonb, parent_job_id, replay_of,
               correlation_id, trace_id, trace_parent, idempotency_key, jsonb_hash_extended(asked::jsonb, 0),
               stored_at, case when shown then stored_at end, fan_out, max_task_failures, num_tasks, num_tasks,
               graph_id, compensates_job_id, unmet, shown::int,
               case when shown then 'submitted'::holdfast.event_type end, case when shown then stored_at end,
               case when shown then coalesce(actor, owner) end
          from unnest(job_ids, name, type, owner, queue, priority, spec, labels, parent_job_id, replay_of,
                      correlation_id, trace_id, trace_parent, idempotency_key, asked, shown, fan_out,
                      max_task_failures, num_tasks, graph_id, compensates_job_id, unmet, actor)
            as new(job_id, name, type, owner, queue, priority, spec, labels, parent_job_id, replay_of,
                   correlation_id, trace_id, trace_parent, idempotency_key, asked, shown, fan_out,
                   max_task_failures, num_tasks, graph_id, compensates_job_id, unmet, actor)
        on conflict (owner, idempotency_key) where idempotency_key is not null do nothing
        returning job_id)
    select array_agg(job_id) into new_ids from stored;
    if cardinality(new_ids) is distinct from cardinality(job_ids) then
        job_ids := array(select case when id = any (new_ids) then id end
                           from unnest(job_ids) with ordinality as given(id, position) order by position);
    end if;
    if positions is null then
        return;
    end if;
    insert into holdfast.tasks (job_id, task_index, placed, eligible_at, submitted_at, moved_at, input)
    select job_ids[position], task_index, placed, stored_at, stored_at, stored_at, input::json
      from unnest(positions, task_indexes, placed, inputs) as new(position, task_index, placed, input)
     where job_ids[position] is not null;
    shared_queues := holdfast.shared_queues();
    insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index, unschedulable_at)
    select coalesce(queue, ''), -priority, stored_at, job_id, task_index, stored_at + scheduling_timeout
      from unnest(job_ids, queue, priority, num_tasks, scheduling_timeout)
             as line(job_id, queue, priority, num_tasks, scheduling_timeout),
           generate_series(0, num_tasks - 1) as task_index
     where job_id is not null and coalesce(queue, '') <> all (shared_queues);
    if exists (select from holdfast.usage_limits) then
        perform holdfast.gate_crowds(array_agg(job_id), array_agg(task_index), adds_buckets => true)
           from unnest(job_ids, queue, num_tasks) as line(job_id, queue, num_tasks),
                generate_series(0, num_tasks - 1) as task_index
          where job_id is not null and queue is not null and queue <> all (shared_queues);
    end if;
    if shared_queues && store_jobs.queue then
        perform holdfast.gate(array_agg(job_id), array_agg(task_index), array_agg(stored_at + scheduling_timeout))
           from unnest(job_ids, queue, num_tasks, scheduling_timeout)
                  as line(job_id, queue, num_tasks, scheduling_timeout),
                generate_series(0, num_tasks - 1) as task_index
          where job_id is not null and queue = any (shared_queues);
    end if;
end $$;
