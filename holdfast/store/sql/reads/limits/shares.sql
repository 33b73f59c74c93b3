-- name: list_shares
-- Of each rule the shares that have tasks in line, in turn, with those that run something or have a weight of their
-- own: so many at most. What is in line is counted up to a bound.
with rules as materialized (
    select rule_id, queue, share_by from holdfast.share_rules
     where $queue::text is null or queue = $queue
     order by queue limit $rules_max
),
lines as materialized (
    select rules.rule_id, turn.value, min(turn.pass) as pass, sum(line.count) as waiting
      from rules
     cross join lateral (
           select shares.share_id, shares.value, shares.pass from holdfast.shares
            where shares.rule_id = rules.rule_id and shares.idle_at is null
            order by shares.urgency, shares.pass, shares.share_id limit $shares_max) as turn
     cross join lateral (
           select count(*) from (select from holdfast.gated
                                  where gated.share_id = turn.share_id limit $count_max) as counted) as line
     group by rules.rule_id, turn.value
),
placed as materialized (
    select rules.rule_id, holdfast.share_value(rules.share_by, jobs.owner, jobs.spec,
                                               case when jobs.fan_out then json 'null' end) as value,
           count(*) as waiting
      from rules
     cross join lateral (select ready.job_id from holdfast.ready
                          where ready.queue = rules.queue and rules.queue = '' limit $placed_max) as line
      join holdfast.jobs using (job_id)
     group by 1, 2
),
running as materialized (
    select rules.rule_id,
           holdfast.share_value(rules.share_by, jobs.owner, jobs.spec,
                                case when rules.queue <> '' then tasks.input
                                     when jobs.fan_out then json 'null' end) as value,
           count(*) as running
      from (select job_id, task_index from holdfast.leases limit $leases_max) as held
      join holdfast.jobs using (job_id)
      join rules on rules.queue = coalesce(jobs.queue, '')
      join holdfast.tasks using (job_id, task_index)
     group by 1, 2
),
known as (
    select rule_id, value from lines
    union
    select rule_id, value from placed
    union
    select rule_id, value from running
    union
    select named.rule_id, named.value
      from rules
     cross join lateral (select rule_id, value from holdfast.share_weights
                          where share_weights.rule_id = rules.rule_id order by value limit $shares_max) as named
),
numbered as (
    select rules.queue, known.value, coalesce(share_weights.weight, 1) as weight,
           coalesce(running.running, 0)::int as running,
           (coalesce(lines.waiting, 0) + coalesce(placed.waiting, 0))::int as waiting, lines.pass,
           row_number() over (partition by known.rule_id
                              order by lines.pass, placed.waiting, running.running desc, known.value) as number
      from known
      join rules using (rule_id)
      left join lines using (rule_id, value)
      left join placed using (rule_id, value)
      left join running using (rule_id, value)
      left join holdfast.share_weights using (rule_id, value)
)
select queue, value, weight, running, waiting, pass from numbered
 where number <= $shares_max order by queue, number;

-- name: read_turn
-- How many tasks will be let in before one that stands in its share, as things stand: those before it in its own line,
-- those of other shares whose turn comes before, and what is more urgent. Each is counted up to a bound.
with mine as (
    select gated.*, rules.share_by, shares.rule_id, shares.urgency as line, shares.value, shares.pass,
           coalesce(share_weights.weight, 1) as weight
      from holdfast.gated
      join holdfast.shares using (share_id)
      join holdfast.share_rules as rules using (rule_id)
      left join holdfast.share_weights using (rule_id, value)
     where gated.job_id = $job_id and gated.task_index = $task_index
),
own as (
    select count(*), coalesce(sum(before.slots), 0) as slots
      from mine
     cross join lateral (
           select gated.slots from holdfast.gated
            where gated.share_id = mine.share_id
              and (gated.urgency, gated.eligible_at, gated.job_id, gated.task_index)
                  < (mine.urgency, mine.eligible_at, mine.job_id, mine.task_index)
            limit $count_max) as before
),
others as (
    select coalesce(sum(least(line.count, case when other.urgency < mine.line then $count_max::int
                                               else ceil((mine.pass + own.slots / mine.weight - other.pass)
                                                         * coalesce(share_weights.weight, 1)) end)), 0) as count
      from mine cross join own
     cross join lateral (
           select shares.* from holdfast.shares
            where shares.rule_id = mine.rule_id and shares.idle_at is null and shares.share_id <> mine.share_id
              and (shares.urgency < mine.line
                   or shares.urgency = mine.line and shares.pass < mine.pass + own.slots / mine.weight)
            order by shares.urgency, shares.pass, shares.share_id limit $count_max) as other
      left join holdfast.share_weights on share_weights.rule_id = other.rule_id and share_weights.value = other.value
     cross join lateral (
           select count(*) from (select from holdfast.gated
                                  where gated.share_id = other.share_id limit $count_max) as counted) as line
)
select mine.share_by, mine.value, least(own.count + others.count, $count_max)::int from mine, own, others;

-- name: count_in_shares
-- Tasks that stand in shares, of each queue up to a bound, and since when the first of them does.
select rules.queue, min(line.eligible_at), count(*)
  from holdfast.share_rules as rules
 cross join lateral (
       select gated.eligible_at
         from holdfast.shares join holdfast.gated using (share_id)
        where shares.rule_id = rules.rule_id limit $count_max) as line
 group by rules.queue;
