-- What workers ask for all the time, by one call outside any transaction: a round trip for what would be seven.

-- Success leaves nothing to decide, so lock, fence and move are one statement. The update locks, in the order of ids.
-- Whoever ends a lease changes its task's state or attempt under the same lock, so what was read of a lease before
-- the wait for its task cannot mislead. Returns the positions of those that have ended, for how many seconds each ran,
-- and where; the others hold no lease that runs, or their start is still on its way. Tasks that waited for a slot which
-- one of them has held are named: they stand in line again. Why `= any (array[...])`: store/sql/work/leases.sql.
create or replace function holdfast.succeed_attempts(
    job_ids bigint[], task_indexes int[], attempt_numbers int[], tokens uuid[], results text[],
    out positions int[], out seconds float8[], out worker_ids text[],
    out opened_queues text[], out opened_job_ids bigint[], out opened_indexes int[])
    language plpgsql as $$
#variable_conflict use_column
declare
    freed_held text[];
    freed_slots int[];
begin
    with clock as materialized (select holdfast.now() as now),
    mine as materialized (
        select * from unnest(job_ids, task_indexes, attempt_numbers, tokens, results)
               with ordinality as mine(job_id, task_index, attempt, lease_token, result, position)
         order by job_id, task_index
    ),
    fenced as materialized (
        select mine.*, leases.worker_id
          from mine join holdfast.leases
            on leases.job_id = any (array[mine.job_id]) and leases.task_index = mine.task_index
           and leases.attempt = mine.attempt and leases.lease_token = mine.lease_token
         where not leases.ending
    ),
    moved as (
        update holdfast.tasks
           set state = {SUCCEEDED}, seq = tasks.seq + 1, moved_at = greatest(clock.now, tasks.moved_at),
               finished_at = greatest(clock.now, tasks.moved_at), actor = fenced.worker_id, cause = null,
               result = fenced.result::json
          from fenced, clock
         where tasks.job_id = fenced.job_id and tasks.task_index = fenced.task_index
           and tasks.attempt = fenced.attempt and tasks.state = {RUNNING}
        returning tasks.job_id, tasks.task_index, tasks.started_at, tasks.finished_at, fenced.position
    ),
    -- Sorted, so that all tasks are locked before the first lease, as everywhere.
    freed as (
        delete from holdfast.leases using (select * from moved order by job_id, task_index) as moved
         where leases.job_id = any (array[moved.job_id]) and leases.task_index = moved.task_index
        returning moved.job_id, moved.task_index, leases.attempt, leases.worker_id, leases.created_at,
                  moved.started_at, moved.finished_at, leases.lease_token, leases.expires_at, moved.position,
                  leases.held, leases.slots
    ),
    ended as (
        insert into holdfast.attempts (job_id, task_index, attempt, worker_id, state, created_at, started_at,
                                       finished_at, released_at, exit_code, lease_token,
                                       last_lease_expires_at, reported)
        select job_id, task_index, attempt, worker_id, {SUCCEEDED}, created_at, started_at, finished_at,
               finished_at, 0, lease_token, expires_at, true
          from freed
    )
    select array_agg(position::int), array_agg(extract(epoch from finished_at - started_at)::float8),
           array_agg(worker_id), array_agg(held::text) filter (where held is not null),
           array_agg(slots) filter (where held is not null)
      into positions, seconds, worker_ids, freed_held, freed_slots
      from freed;
    if freed_held is not null then
        select * into opened_queues, opened_job_ids, opened_indexes
          from holdfast.open_freed(freed_held, freed_slots);
    end if;
end $$;

-- Takes the first tasks out of queues that are not paused, and leases them to those who ask, in their order. `firsts`
-- has for each request the number of the first task that is its own; `noise` 16 random bytes for each task.
-- A row whose task somebody holds stays in line. One that is stale (its task was cancelled) goes with the claim that
-- meets it, and is counted. Nothing is given, and all stays in line, if a worker among those who ask is lost, or if
-- some of what was found names resources and one of them has only so much to give: `is_declined`.
create or replace function holdfast.take_tasks(
    queues text[], urgencies int[], places_at timestamptz[], place_job_ids bigint[], place_indexes int[],
    tasks_max int, firsts int[], asking text[], claim_keys text[], starting boolean[], is_bounded boolean,
    noise bytea, notes_places boolean,
    out is_declined boolean, out is_short boolean, out num_stale int, out requests int[], out job_ids bigint[],
    out task_indexes int[], out attempt_numbers int[], out tokens uuid[], out expiries timestamptz[],
    out started boolean[], out waits float8[], out inputs text[], out failure_counts int[],
    out preemption_counts int[], out free_loss_counts int[], out found_queues text[], out found_urgencies int[],
    out found_at timestamptz[], out found_job_ids bigint[], out found_indexes int[])
    language plpgsql as $$
#variable_conflict use_column
declare
    shares int[] := array_fill(tasks_max, array[cardinality(queues)]);
    num_shared int := 0;
    num_picked int;
begin
    -- Of several queues no more is locked than is taken; should others hold some of that, less is found: `is_short`.
    if cardinality(queues) > 1 then
        shares := array(
            select (select count(*) from unnest(best.numbers) as number where number = wanted.number)::int
              from generate_subscripts(queues, 1) as wanted(number),
                   (select array_agg(heads.number) as numbers from (
                        select wanted.number
                          from unnest(queues, urgencies, places_at, place_job_ids, place_indexes)
                               with ordinality as wanted(queue, urgency, eligible_at, job_id, task_index, number)
                         cross join lateral (
                               select ready.urgency, ready.eligible_at
                                 from holdfast.ready
                                where ready.queue = wanted.queue
                                  and (ready.urgency, ready.eligible_at, ready.job_id, ready.task_index)
                                      >= (wanted.urgency, wanted.eligible_at, wanted.job_id, wanted.task_index)
                                order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
                                limit tasks_max) as head
                         where not exists (select from holdfast.queues where queues.queue = wanted.queue)
                         order by head.urgency, head.eligible_at
                         limit tasks_max) as heads) as best
             order by wanted.number);
        num_shared := (select sum(share) from unnest(shares) as share);
    end if;
    with clock as materialized (select holdfast.now() as now),
    -- One index range per queue, then the best of all: a sort over `queue = any` reads a million. Each is looked at
    -- from a place in its order on: dead rows before it, which vacuum may not remove, are not stepped over.
    picked as materialized (
        select head.*
          from unnest(queues, urgencies, places_at, place_job_ids, place_indexes, shares)
                 as wanted(queue, urgency, eligible_at, job_id, task_index, share)
         cross join lateral (
               select ready.ctid as row_id, ready.queue, ready.urgency, ready.eligible_at, tasks.job_id,
                      tasks.task_index, tasks.state,
                      tasks.preemption_count = 0 and tasks.free_loss_count = 0 as has_cost_no_worker
                 from holdfast.ready
                 join holdfast.tasks on tasks.job_id = ready.job_id and tasks.task_index = ready.task_index
                where ready.queue = wanted.queue
                  and (ready.urgency, ready.eligible_at, ready.job_id, ready.task_index)
                      >= (wanted.urgency, wanted.eligible_at, wanted.job_id, wanted.task_index)
                order by ready.urgency, ready.eligible_at, ready.job_id, ready.task_index
                limit wanted.share
                  for update of ready, tasks skip locked) as head
         where not exists (select from holdfast.queues where queues.queue = wanted.queue)
         order by head.urgency, head.eligible_at
         limit tasks_max
    ),
    fresh as materialized (
        select picked.job_id, picked.task_index, picked.eligible_at, picked.has_cost_no_worker,
               row_number() over (order by picked.urgency, picked.eligible_at, picked.job_id, picked.task_index)::int
               as number,
               (jobs.spec ->> 'lease')::float8 * interval '1 second' as duration,
               (jobs.spec ->> 'timeout')::float8 * interval '1 second' as run_timeout,
               jobs.spec ->> 'resources' is not null as is_sized,
               -- As JobSpec.starts_at_once has it.
               coalesce(jobs.spec #>> '{entrypoint,command}', jobs.spec #>> '{entrypoint,shell}',
                        jobs.spec ->> 'bundle', nullif(jobs.spec ->> 'requirements', '[]')) is null
               as starts_at_once
          from picked join holdfast.jobs using (job_id)
         where picked.state = {PENDING} and jobs.submitted_at is not null and jobs.finished_at is null
           and jobs.cancel_mode is null
    ),
    -- An incarnation that has been replaced can never speak again.
    verdict as materialized (
        select exists (select from holdfast.workers
                        where workers.worker_id = any (asking) and workers.lost_at is not null)
               or is_bounded and exists (select from fresh where is_sized) as is_declined
          from (select 1 from fresh limit 1) as anything
    ),
    given as materialized (
        select fresh.*, fresh.starts_at_once and fresh.has_cost_no_worker and starting[mine.request] as starts,
               mine.request, asking[mine.request] as worker_id, claim_keys[mine.request] as claim_key,
               encode(substring(noise from number * 16 - 15 for 16), 'hex')::uuid as lease_token
          from fresh cross join lateral (select width_bucket(fresh.number, firsts)) as mine(request), verdict
         where not verdict.is_declined
    ),
    dropped as (
        delete from holdfast.ready
         where ctid = any (array(select row_id from picked where not exists (select from verdict where is_declined)))
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
                  given.eligible_at, clock.now
    ),
    leased as (
        insert into holdfast.leases (job_id, task_index, attempt, worker_id, lease_token, created_at, expires_at,
                                     duration, run_timeout, run_deadline_at, claim_key)
        select job_id, task_index, attempt, worker_id, lease_token, moved_at, now + duration, duration, run_timeout,
               case when starts then now + run_timeout end, claim_key
          from moved
    ),
    places as (
        select distinct on (queue) queue, urgency, eligible_at, job_id, task_index
          from picked where notes_places order by queue, urgency, eligible_at, job_id, task_index
    )
    select coalesce((select verdict.is_declined from verdict), false),
           (select count(*) from picked), (select count(*) from picked) - (select count(*) from fresh),
           claims.*, found.*
      into is_declined, num_picked, num_stale, requests, job_ids, task_indexes, attempt_numbers, tokens, expiries,
           started, waits, inputs, failure_counts, preemption_counts, free_loss_counts, found_queues,
           found_urgencies, found_at, found_job_ids, found_indexes
      from (select array_agg(request), array_agg(job_id), array_agg(task_index), array_agg(attempt),
                   array_agg(lease_token), array_agg(now + duration), array_agg(starts),
                   array_agg(extract(epoch from now - eligible_at)::float8), array_agg(input::text),
                   array_agg(failure_count), array_agg(preemption_count), array_agg(free_loss_count)
              from (select * from moved order by number) as moved) as claims,
           (select array_agg(queue), array_agg(urgency), array_agg(eligible_at), array_agg(job_id),
                   array_agg(task_index)
              from places) as found;
    is_short := num_picked < tasks_max and num_shared = tasks_max;
end $$;

-- One turn of workers: what they say has ended well, and what they claim from the same queues. Ends first, since tasks
-- and leases are waited for; what is claimed is held by nobody. The jobs' counts are written once, for both. `firsts`
-- ends with one more than all that ask want; where there are limits, as many as `tasks_max` are looked at for them.
-- Outside any transaction, it is one: one round trip. A lock that cannot be had undoes it, and so does a job that ends
-- or is cancelled meanwhile (HF001), and a claim whose key was used before (HF002). Settings as in store/database.py.
create or replace function holdfast.turn(
    ended_jobs bigint[], ended_tasks int[], ended_attempts int[], ended_tokens uuid[], results text[],
    queues text[], urgencies int[], places_at timestamptz[], place_job_ids bigint[], place_indexes int[],
    tasks_max int, firsts int[], asking text[], claim_keys text[], digests bytea[], starting boolean[],
    is_bounded boolean, noise bytea, notes_places boolean,
    out ended int[], out ended_seconds float8[], out ended_workers text[],
    out is_declined boolean, out is_short boolean, out num_stale int, out requests int[], out job_ids bigint[],
    out task_indexes int[], out attempt_numbers int[], out tokens uuid[], out expiries timestamptz[],
    out started boolean[], out waits float8[], out inputs text[], out failure_counts int[],
    out preemption_counts int[], out free_loss_counts int[], out found_queues text[], out found_urgencies int[],
    out found_at timestamptz[], out found_job_ids bigint[], out found_indexes int[], out num_gated int,
    out opens_in float8, out opened_queues text[], out opened_job_ids bigint[], out opened_indexes int[],
    out is_repeated boolean, out ended_job_ids bigint[], out has_follow_ups boolean)
    language plpgsql
    set lock_timeout = 250 set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
    set enable_hashjoin = off set enable_mergejoin = off set join_collapse_limit = 1 set random_page_cost = 0
    set seq_page_cost = 0 as $$
#variable_conflict use_column
declare
    moved_jobs bigint[];
    pending int[];
    assigned int[];
    running int[];
    succeeded int[];
    must_be_live boolean[];
    num_keys int;
    num_counted int;
    -- Before anything is locked, since whoever changes limits waits for leases.
    given_max constant int := firsts[cardinality(firsts)] - 1;
    has_limits constant boolean := cardinality(asking) > 0 and holdfast.has_limits();
    opens_at timestamptz;
begin
    if cardinality(ended_jobs) > 0 then
        select * into ended, ended_seconds, ended_workers, opened_queues, opened_job_ids, opened_indexes
          from holdfast.succeed_attempts(ended_jobs, ended_tasks, ended_attempts, ended_tokens, results);
    end if;
    if cardinality(asking) > 0 and exists (select from holdfast.share_rules) then
        perform holdfast.let_in(queues, tasks_max, tasks_max);
        -- What is let in may stand before the place from which others look on.
        select array_agg(case when is_shared then '-infinity' else at end order by number),
               array_agg(case when is_shared then -2147483648 else urgency end order by number)
          into places_at, urgencies
          from (select exists (select from holdfast.share_rules as rules where rules.queue = wanted.queue),
                       wanted.at, wanted.urgency, wanted.number
                  from unnest(queues, places_at, urgencies)
                       with ordinality as wanted(queue, at, urgency, number)) as looked(is_shared, at, urgency, number);
    end if;
    if has_limits then
        select * into is_declined, is_short, num_stale, requests, job_ids, task_indexes, attempt_numbers, tokens,
                      expiries, started, waits, inputs, failure_counts, preemption_counts, free_loss_counts,
                      found_queues, found_urgencies, found_at, found_job_ids, found_indexes, num_gated, opens_at
          from holdfast.take_limited(queues, urgencies, places_at, place_job_ids, place_indexes,
                                     least(tasks_max, given_max), greatest(tasks_max - given_max, 0), firsts,
                                     asking, claim_keys, starting, is_bounded, noise, notes_places);
        opens_in := extract(epoch from opens_at - holdfast.now());
    elsif cardinality(asking) > 0 then
        select * into is_declined, is_short, num_stale, requests, job_ids, task_indexes, attempt_numbers, tokens,
                      expiries, started, waits, inputs, failure_counts, preemption_counts, free_loss_counts,
                      found_queues, found_urgencies, found_at, found_job_ids, found_indexes
          from holdfast.take_tasks(queues, urgencies, places_at, place_job_ids, place_indexes,
                                   least(tasks_max, given_max), firsts, asking, claim_keys, starting,
                                   is_bounded, noise, notes_places);
    end if;
    if requests is not null then
        insert into holdfast.idempotency_keys (scope, key, request_digest, created_at)
        select 'claim:' || worker_id, key, digest, holdfast.now()
          from unnest(asking, claim_keys, digests) with ordinality as mine(worker_id, key, digest, request)
         where mine.key is not null and mine.request = any (requests)
         order by 1, 2
            on conflict (scope, key) do nothing;
        get diagnostics num_keys = row_count;
        if num_keys < (select count(*) from unnest(claim_keys) with ordinality as mine(key, request)
                        where mine.key is not null and mine.request = any (requests)) then
            raise exception using errcode = 'HF002', message = 'a claim has come under the same key before';
        end if;
    end if;
    -- Who is given nothing may have been given something the first time.
    is_repeated := exists (
        select from unnest(asking, claim_keys) with ordinality as mine(worker_id, key, request)
         where mine.key is not null and mine.request <> all (coalesce(requests, '{}'))
           and (select true from holdfast.idempotency_keys
                 where idempotency_keys.scope = 'claim:' || mine.worker_id and idempotency_keys.key = mine.key));
    if ended is null and requests is null then
        return;
    end if;
    select array_agg(job_id), array_agg(moves.pending), array_agg(moves.assigned), array_agg(moves.running),
           array_agg(moves.succeeded), array_agg(moves.must_be_live)
      into moved_jobs, pending, assigned, running, succeeded, must_be_live
      from (select job_id, -count(*) filter (where starts is not null) as pending,
                   count(*) filter (where not starts) as assigned,
                   count(*) filter (where starts) - count(*) filter (where starts is null) as running,
                   count(*) filter (where starts is null) as succeeded,
                   bool_or(starts is not null) as must_be_live
              from (select ended_jobs[position] as job_id, null::boolean as starts
                      from unnest(ended) as position
                    union all
                    select * from unnest(job_ids, started)) as made
             group by job_id order by job_id) as moves;
    select counted.num_counted, counted.ended_job_ids, counted.has_follow_ups
      into num_counted, ended_job_ids, has_follow_ups
      from holdfast.count_moves(moved_jobs, pending, assigned, '{}', running, succeeded, '{}', '{}', '{}', '{}',
                                '{}', '{}', '{}', '{}', must_be_live) as counted;
    assert num_counted = cardinality(moved_jobs), 'a task without its job';
end $$;
