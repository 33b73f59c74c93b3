-- A claim where limits have been set; without any, it is take_tasks.

-- As take_tasks, but each task passes the limits first. `look_ahead` more are looked at than are given, since some may
-- have to wait: those leave the line and stand behind their limit. `num_gated` of them did; whoever was given nothing
-- asks again at once. `opens_at` is when a rate allows more.
create or replace function holdfast.take_limited(
    queues text[], urgencies int[], places_at timestamptz[], place_job_ids bigint[], place_indexes int[],
    tasks_max int, look_ahead int, firsts int[], asking text[], claim_keys text[], starting boolean[],
    is_bounded boolean, noise bytea, notes_places boolean,
    out is_declined boolean, out is_short boolean, out num_stale int, out requests int[], out job_ids bigint[],
    out task_indexes int[], out attempt_numbers int[], out tokens uuid[], out expiries timestamptz[],
    out started boolean[], out waits float8[], out inputs text[], out failure_counts int[],
    out preemption_counts int[], out free_loss_counts int[], out found_queues text[], out found_urgencies int[],
    out found_at timestamptz[], out found_job_ids bigint[], out found_indexes int[], out num_gated int,
    out opens_at timestamptz)
    language plpgsql as $$
#variable_conflict use_column
declare
    look_max constant int := tasks_max + look_ahead;
    shares int[];
    shared boolean := false;
    num_picked int;
    is_sized boolean;
    stale_rows tid[];
    row_ids tid[];
    line_queues text[];
    types text[];
    owners text[];
    keys text[];
    slots int[];
    line_urgencies int[];
    eligibles timestamptz[];
    line_job_ids bigint[];
    line_indexes int[];
    give_ups timestamptz[];
    durations interval[];
    run_timeouts interval[];
    starts_at_once boolean[];
    verdicts bigint[];
    held text[];
    next_opening timestamptz;
begin
    num_gated := 0;
    perform holdfast.open_due(queues, tasks_max);
    -- A queue that may start nothing is left alone: its tasks stay in line, however many they are.
    select caps, room.opens_at into shares, opens_at from holdfast.find_room(queues, look_max) as room;
    if cardinality(queues) > 1 then
        shares := array(
            select (select count(*) from unnest(best.numbers) as number where number = wanted.number)::int
              from generate_subscripts(queues, 1) as wanted(number),
                   (select array_agg(heads.number) as numbers from (
                        select wanted.number
                          from unnest(queues, urgencies, places_at, place_job_ids, place_indexes, shares)
                               with ordinality as wanted(queue, urgency, eligible_at, job_id, task_index, share,
                                                         number)
                         cross join lateral (
                               select ready.urgency, ready.eligible_at
                                 from holdfast.ready
                                where ready.queue = wanted.queue
                                  and (ready.urgency, ready.eligible_at, ready.job_id, ready.task_index)
                                      >= (wanted.urgency, wanted.eligible_at, wanted.job_id, wanted.task_index)
                                order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
                                limit greatest(wanted.share, 0)) as head
                         where not exists (select from holdfast.queues where queues.queue = wanted.queue)
                         order by head.urgency, head.eligible_at
                         limit look_max) as heads) as best
             order by wanted.number);
        shared := (select sum(share) from unnest(shares) as share) >= tasks_max;
    end if;
    with picked as materialized (
        select head.*
          from unnest(queues, urgencies, places_at, place_job_ids, place_indexes, shares)
                 as wanted(queue, urgency, eligible_at, job_id, task_index, share)
         cross join lateral (
               select ready.ctid as row_id, ready.queue, ready.urgency, ready.eligible_at, ready.unschedulable_at,
                      tasks.job_id, tasks.task_index, tasks.state, tasks.input,
                      tasks.preemption_count = 0 and tasks.free_loss_count = 0 as has_cost_no_worker
                 from holdfast.ready
                 join holdfast.tasks on tasks.job_id = ready.job_id and tasks.task_index = ready.task_index
                where ready.queue = wanted.queue
                  and (ready.urgency, ready.eligible_at, ready.job_id, ready.task_index)
                      >= (wanted.urgency, wanted.eligible_at, wanted.job_id, wanted.task_index)
                order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
                limit greatest(wanted.share, 0)
                  for update of ready, tasks skip locked) as head
         where not exists (select from holdfast.queues where queues.queue = wanted.queue)
         order by head.urgency, head.eligible_at
         limit look_max
    ),
    seen as materialized (
        select picked.row_id, picked.queue, picked.urgency, picked.eligible_at, picked.unschedulable_at,
               picked.job_id, picked.task_index, jobs.type, jobs.owner,
               picked.state = {PENDING} and jobs.submitted_at is not null and jobs.finished_at is null
               and jobs.cancel_mode is null as is_fresh,
               jobs.spec ->> 'resources' is not null as is_sized,
               coalesce((jobs.spec ->> 'slots')::int, 1) as slots,
               case when jobs.spec ? 'concurrency_key' then holdfast.asked_key(jobs.spec, picked.input) end as key,
               (jobs.spec ->> 'lease')::float8 * interval '1 second' as duration,
               (jobs.spec ->> 'timeout')::float8 * interval '1 second' as run_timeout,
               -- As JobSpec.starts_at_once has it.
               picked.has_cost_no_worker
               and coalesce(jobs.spec #>> '{entrypoint,command}', jobs.spec #>> '{entrypoint,shell}',
                            jobs.spec ->> 'bundle', nullif(jobs.spec ->> 'requirements', '[]')) is null
               as starts_at_once
          from picked join holdfast.jobs using (job_id)
         order by picked.urgency, picked.eligible_at, picked.job_id, picked.task_index
    ),
    places as (
        select distinct on (queue) queue, urgency, eligible_at, job_id, task_index
          from picked where notes_places order by queue, urgency, eligible_at, job_id, task_index
    )
    select (select count(*) from picked),
           array(select row_id from seen where not is_fresh),
           line.*, found.*
      into num_picked, stale_rows, is_sized, row_ids, line_queues, types, owners, keys, slots, line_urgencies,
           eligibles, line_job_ids, line_indexes, give_ups, durations, run_timeouts, starts_at_once, found_queues,
           found_urgencies, found_at, found_job_ids, found_indexes
      from (select coalesce(bool_or(is_sized), false), array_agg(row_id), array_agg(queue), array_agg(type),
                   array_agg(owner), array_agg(case when length(key) > 256 then holdfast.short_key(key) else key end),
                   array_agg(slots), array_agg(urgency), array_agg(eligible_at),
                   array_agg(job_id), array_agg(task_index), array_agg(unschedulable_at), array_agg(duration),
                   array_agg(run_timeout), array_agg(starts_at_once)
              from seen where is_fresh) as line,
           (select array_agg(queue), array_agg(urgency), array_agg(eligible_at), array_agg(job_id),
                   array_agg(task_index)
              from places) as found;
    is_short := num_picked < tasks_max and shared;
    num_stale := cardinality(stale_rows);
    -- An incarnation that has been replaced can never speak again.
    is_declined := row_ids is not null and (is_bounded and is_sized or exists (
        select from holdfast.workers where workers.worker_id = any (asking) and workers.lost_at is not null));
    if is_declined then
        return;
    end if;
    if row_ids is not null then
        select passing.verdicts, passing.held, passing.opens_at into verdicts, held, next_opening
          from holdfast.pass_limits(
              line_queues, types, owners, keys, slots, line_urgencies, eligibles, line_job_ids, line_indexes,
              give_ups, array_fill(null::text, array[cardinality(row_ids)]), tasks_max) as passing;
        opens_at := least(opens_at, next_opening);
    end if;
    delete from holdfast.ready
     where ctid = any (stale_rows || array(
         select row_id from unnest(row_ids, verdicts) as mine(row_id, verdict) where verdict >= 0));
    num_gated := (select count(*) from unnest(verdicts) as verdict where verdict > 0);
    if 0 <> all (coalesce(verdicts, '{}')) then
        return;
    end if;
    with clock as materialized (select holdfast.now() as now),
    passed as materialized (
        select job_id, task_index, eligible_at, held, slots, duration, run_timeout, starts_at_once,
               row_number() over (order by position)::int as number
          from unnest(line_job_ids, line_indexes, eligibles, verdicts, held, slots, durations, run_timeouts,
                      starts_at_once)
               with ordinality as mine(job_id, task_index, eligible_at, verdict, held, slots, duration, run_timeout,
                                       starts_at_once, position)
         where verdict = 0
    ),
    given as materialized (
        select passed.*, mine.request, asking[mine.request] as worker_id, claim_keys[mine.request] as claim_key,
               encode(substring(noise from number * 16 - 15 for 16), 'hex')::uuid as lease_token,
               starting[mine.request] and passed.starts_at_once as starts
          from passed cross join lateral (select width_bucket(passed.number, firsts)) as mine(request)
    ),
    moved as (
        update holdfast.tasks
           set state = case when given.starts then {RUNNING} else {ASSIGNED} end,
               seq = tasks.seq + case when given.starts then 2 else 1 end,
               claim_seq = case when given.starts then tasks.seq else tasks.claim_seq end,
               started_at = case when given.starts then greatest(clock.now, tasks.moved_at)
                                 else tasks.started_at end,
               moved_at = greatest(clock.now, tasks.moved_at), actor = given.worker_id, cause = null
          from given, clock
         where tasks.job_id = given.job_id and tasks.task_index = given.task_index
        returning tasks.job_id, tasks.task_index, tasks.attempt, tasks.moved_at, tasks.input, tasks.failure_count,
                  tasks.preemption_count, tasks.free_loss_count, given.request, given.number, given.starts,
                  given.worker_id, given.claim_key, given.lease_token, given.duration, given.run_timeout,
                  given.eligible_at, clock.now, given.held, given.slots
    ),
    leased as (
        insert into holdfast.leases (job_id, task_index, attempt, worker_id, lease_token, created_at, expires_at,
                                     duration, run_timeout, run_deadline_at, claim_key, held, slots)
        select job_id, task_index, attempt, worker_id, lease_token, moved_at, now + duration, duration, run_timeout,
               case when starts then now + run_timeout end, claim_key, held::bigint[],
               case when held is not null then slots end
          from moved
    )
    select array_agg(request), array_agg(job_id), array_agg(task_index), array_agg(attempt),
           array_agg(lease_token), array_agg(now + duration), array_agg(starts),
           array_agg(extract(epoch from now - eligible_at)::float8), array_agg(input::text),
           array_agg(failure_count), array_agg(preemption_count), array_agg(free_loss_count)
      into requests, job_ids, task_indexes, attempt_numbers, tokens, expiries, started, waits, inputs,
           failure_counts, preemption_counts, free_loss_counts
      from (select * from moved order by number) as moved;
end $$;
