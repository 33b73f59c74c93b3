-- name: lock_share_rule
-- Changes of one rule come one after another; claims of its queue wait for them.
select rules.rule_id, rules.queue, rules.share_by,
       extract(epoch from rules.age_step)::float8, rules.age_max, rules.sorted_at is not null,
       rules.ended_at is not null, rules.updated_at, rules.updated_by,
       (select coalesce(jsonb_object_agg(value, weight), '{}') from holdfast.share_weights
         where share_weights.rule_id = rules.rule_id)::text as weights
  from holdfast.share_rules as rules
 where rules.queue = $queue
   for update of rules;

-- name: list_share_rules
select rules.rule_id, rules.queue, rules.share_by,
       extract(epoch from rules.age_step)::float8, rules.age_max, rules.sorted_at is not null,
       rules.ended_at is not null, rules.updated_at, rules.updated_by,
       (select coalesce(jsonb_object_agg(value, weight), '{}') from holdfast.share_weights
         where share_weights.rule_id = rules.rule_id)::text as weights
  from holdfast.share_rules as rules
 where $queue::text is null or rules.queue = $queue
 order by rules.queue
 limit $rules_max;

-- name: count_share_rules
select count(*) from holdfast.share_rules;

-- name: store_share_rule
-- One that was being taken back goes on; what has left its shares since is sorted in again.
insert into holdfast.share_rules as rules (queue, share_by, age_step, age_max, updated_at, updated_by)
values ($queue, $share_by, $age_step_seconds::float8 * interval '1 second', $age_max, holdfast.now(), $actor)
on conflict (queue) do update
   set share_by = excluded.share_by, age_step = excluded.age_step, age_max = excluded.age_max,
       updated_at = excluded.updated_at, updated_by = excluded.updated_by,
       sorted_at = case when rules.ended_at is null then rules.sorted_at end, ended_at = null
returning rule_id;

-- name: drop_share_weights
delete from holdfast.share_weights where rule_id = $rule_id;

-- name: store_share_weights
insert into holdfast.share_weights (rule_id, value, weight)
select $rule_id, value, weight from unnest($share_values::text[], $weights::float8[]) as given(value, weight)
 order by value;

-- name: end_share_rule
update holdfast.share_rules set ended_at = holdfast.now(), updated_at = holdfast.now(), updated_by = $actor
 where queue = $queue and ended_at is null
returning 1;

-- name: has_share_rules
select exists (select from holdfast.share_rules);

-- name: let_in
select holdfast.let_in($queues, $tasks_max, $line_max);

-- name: sort_into_shares
select holdfast.sort_into_shares($batch_max);

-- name: return_from_shares
select holdfast.return_from_shares($batch_max);

-- name: age_shares
select holdfast.age_shares($heads_max);

-- name: drop_idle_shares
select coalesce(sum(holdfast.drop_idle_shares(rule_id, holdfast.now() - $idle_for::interval, $batch_max)), 0)::int
  from holdfast.share_rules;

-- name: find_placed_rule
select rule_id, extract(epoch from age_step)::float8, age_max from holdfast.share_rules
 where queue = '' and ended_at is null;

-- name: list_shares_of_jobs
-- Of keys that tasks have from their inputs, placed work knows nothing: these jobs have none.
select mine.job_id, share.value, coalesce((jobs.spec ->> 'slots')::int, 1), coalesce(share_weights.weight, 1)
  from unnest($job_ids::bigint[]) as mine(job_id)
  join holdfast.jobs using (job_id)
  join holdfast.share_rules as rules on rules.rule_id = $rule_id
 cross join lateral (select holdfast.share_value(rules.share_by, jobs.owner, jobs.spec,
                                                case when jobs.fan_out then json 'null' end) as value) as share
  left join holdfast.share_weights
    on share_weights.rule_id = rules.rule_id and share_weights.value = share.value;

-- name: list_passes
select -urgency, value, pass, idle_at is not null from holdfast.shares
 where rule_id = $rule_id order by share_id limit $shares_max;

-- name: keep_passes
-- Of shares with something in line; the others are idle.
with mine as materialized (
    select * from unnest($urgencies::int[], $share_values::text[], $passes::float8[]) as mine(urgency, value, pass)
),
rested as (
    update holdfast.shares set idle_at = holdfast.now()
     where rule_id = $rule_id and idle_at is null
       and not exists (select from mine where mine.urgency = shares.urgency and mine.value = shares.value)
)
insert into holdfast.shares (rule_id, urgency, value, pass)
select rule_id, urgency, value, pass
  from (select rule_id from holdfast.share_rules where rule_id = $rule_id for key share) as rule, mine
 order by urgency, value
on conflict (rule_id, urgency, value) do update set pass = excluded.pass, idle_at = null
 where (shares.pass, shares.idle_at is null) is distinct from (excluded.pass, true);

-- name: advance_passes
update holdfast.shares set pass = shares.pass + mine.step
  from unnest($urgencies::int[], $share_values::text[], $steps::float8[]) as mine(urgency, value, step)
 where shares.rule_id = $rule_id and shares.urgency = mine.urgency and shares.value = mine.value;
