-- Unique jobs: the keys that jobs which are alike have in common.

-- name: take_unique_keys
select answers, holders, starts, has_follow_ups
  from holdfast.take_unique_keys($job_ids::bigint[], $specs::text[]::jsonb[], $inputs::text[]::jsonb[],
                                 $actors::text[], $at::timestamptz);

-- name: check_unique_keys
-- Rows as in audit/ledger.sql: who holds a key and should not, and who should and does not.
with kept as (
    select unique_jobs.job_id as holder, jobs.*
      from holdfast.unique_jobs full join (
           select job_id, submitted_at, state, cancel_mode, finished_at, unique_states, spec
             from holdfast.jobs where unique_states is not null) as jobs using (job_id)
)
select 'unique_key_without_job', holder, null::int, null::int, 'it holds a unique key, and is no unique job'
  from kept where holder is not null and job_id is null
union all
select 'unique_key_kept_too_long', holder, null::int, null::int,
       format('it holds its unique key in state %s, %s, and should not', state,
              case when cancel_mode is null then 'not cancelled' else 'cancelled' end)
  from kept
 where holder is not null and ((unique_states >> state) & 1 = 0 or state = {PENDING} and cancel_mode is not null)
union all
select 'unique_job_without_key', job_id, null::int, null::int, format('it is unique in state %s, and has no key', state)
  from kept
 where holder is null and job_id is not null and submitted_at is not null and (unique_states >> state) & 1 = 1
   and not (state = {PENDING} and cancel_mode is not null)
union all
select 'unique_states_differ_from_the_spec', job_id, null::int, null::int,
       format('its states are the bits of %s; its spec makes them %s', unique_states,
              holdfast.unique_states(spec -> 'unique'))
  from kept where job_id is not null and unique_states is distinct from holdfast.unique_states(spec -> 'unique');
