-- compatible with 23
-- Who gets how much of a queue, or of the workers of placed work: by owner or by key, by weight within a priority. A
-- share has a `pass`, which advances by slots through weight with each task that is let in; the lowest goes first.

create table holdfast.share_rules (
    rule_id bigint generated always as identity primary key,
    -- '': placed work, which has no queue.
    queue text collate "C" not null,
    share_by text not null,
    -- A task in line gains a step of priority each time it has waited so long, and so many steps at most.
    age_step interval,
    age_max int not null default 0,
    updated_at timestamptz not null,
    updated_by text not null,
    -- From then on all that stood in line before the rule was set stands in its share.
    sorted_at timestamptz,
    -- Taken back: from then on what becomes ready stands in line as usual, and what is in shares returns there.
    ended_at timestamptz,
    constraint a_queue_has_one_rule_of_shares unique (queue),
    constraint shares_are_by_what_a_job_says check (share_by in ('owner', 'key', 'nothing')),
    constraint ageing_has_a_step_and_a_bound check ((age_step is null) = (age_max = 0) and age_max between 0 and 1000),
    constraint a_step_of_ageing_takes_time check (age_step > interval '0')
);

-- Whoever is not named has the weight 1.
create table holdfast.share_weights (
    rule_id bigint not null references holdfast.share_rules on delete cascade,
    value text collate "C" not null,
    weight float8 not null,
    constraint one_weight_per_value primary key (rule_id, value),
    constraint a_weight_is_more_than_nothing check (weight > 0 and weight < 'infinity')
);

-- One for each owner or key and priority that has had tasks in line.
create table holdfast.shares (
    share_id bigint generated always as identity primary key,
    rule_id bigint not null references holdfast.share_rules on delete cascade,
    urgency int not null,
    value text collate "C" not null,
    pass float8 not null,
    -- Since when none of its tasks is in line; null while some are, or may be.
    idle_at timestamptz,
    constraint one_share_per_value_and_urgency unique (rule_id, urgency, value)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
create index shares_in_turn on holdfast.shares (rule_id, urgency, pass, share_id) where idle_at is null;
create index shares_by_pass on holdfast.shares (rule_id, urgency, pass);
