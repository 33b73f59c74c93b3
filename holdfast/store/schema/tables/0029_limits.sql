-- compatible with 23
-- Limits of use: how many slots the unreleased attempts of a queue, type, owner or key may hold at once, and how many
-- may start in a time. What holds a slot is a lease, which says so itself; nothing is counted up or down.

create table holdfast.usage_limits (
    limit_id bigint generated always as identity primary key,
    name text collate "C" not null,
    -- Of what there is a bucket: of each queue, type, owner or key. 'name': one, for user code that asks by its name.
    scope text not null,
    -- Only for this queue, type, owner or key, and not for each one by itself.
    only_for text collate "C",
    -- Only for tasks of this queue, and of this type.
    in_queue text collate "C",
    in_type text collate "C",
    kind text not null,
    -- Slots at once, or started in a period.
    most float8 not null,
    period interval,
    -- What a token bucket holds when it is full.
    burst float8,
    updated_at timestamptz not null,
    updated_by text not null,
    constraint a_limit_has_a_name_of_its_own unique (name),
    constraint a_limit_has_a_known_scope check (scope in ('queue', 'type', 'owner', 'key', 'name')),
    constraint a_limit_is_of_a_known_kind check (kind in ('concurrency', 'bucket', 'window')),
    constraint a_limit_allows_something check (most >= 0 and most < 'infinity'),
    constraint slots_are_whole check (kind <> 'concurrency' or most = floor(most)),
    constraint a_rate_has_a_period check ((kind = 'concurrency') = (period is null) and period > interval '0'),
    constraint a_token_bucket_has_a_burst check ((kind = 'bucket') = (burst is not null) and burst > 0)
);

-- One for each queue, type, owner or key that a limit has met. Whoever decides by it holds its row.
create table holdfast.limit_buckets (
    bucket_id bigint generated always as identity primary key,
    limit_id bigint not null references holdfast.usage_limits on delete cascade,
    value text collate "C" not null,
    -- Of a token bucket: what was in it, and when.
    tokens float8,
    filled_at timestamptz,
    -- Of a rate with tasks behind it: when the first of them may start, and whose claims let it.
    open_at timestamptz,
    open_queue text collate "C",
    constraint one_bucket_per_limit_and_value unique (limit_id, value)
) with (fillfactor = 70);

create index buckets_that_open on holdfast.limit_buckets (open_queue, open_at) where open_at is not null;

-- What a sliding window has let start, by slices of its period.
create table holdfast.limit_spent (
    bucket_id bigint not null references holdfast.limit_buckets on delete cascade,
    slice timestamptz not null,
    spent float8 not null,
    constraint one_sum_per_slice primary key (bucket_id, slice)
) with (fillfactor = 70);

-- Tasks that could be claimed, but for a limit, or for the share of their owner: in line behind one bucket, or in their
-- share's line. They return to `ready` when there is room.
create table holdfast.gated (
    job_id bigint not null,
    task_index int not null,
    queue text collate "C" not null,
    urgency int not null,
    eligible_at timestamptz not null,
    unschedulable_at timestamptz,
    avoid text,
    bucket_id bigint,
    share_id bigint,
    slots int not null default 1,
    gated_at timestamptz not null,
    constraint a_task_is_gated_once primary key (job_id, task_index),
    constraint a_task_is_gated_by_one_thing check (num_nonnulls(bucket_id, share_id) = 1)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_analyze_threshold = 20000);
create index gated_by_a_bucket on holdfast.gated (bucket_id, urgency, eligible_at, job_id, task_index)
    where bucket_id is not null;
-- Who takes several slots is not passed by those that come after him.
create index gated_with_several_slots on holdfast.gated (bucket_id, urgency, eligible_at, job_id, task_index)
    where bucket_id is not null and slots > 1;
create index gated_by_a_share on holdfast.gated (share_id, urgency, eligible_at, job_id, task_index)
    where share_id is not null;
create index gated_with_a_deadline on holdfast.gated (unschedulable_at) where unschedulable_at is not null;

-- The buckets whose slots an attempt holds, four at most, and how many of each.
alter table holdfast.leases add column held bigint[];
alter table holdfast.leases add column slots int;

-- Both say more now than they did, and are made anew.
do $$
declare
    changed text;
begin
    for changed in select oid::regprocedure from pg_proc
                    where pronamespace = 'holdfast'::regnamespace and proname in ('turn', 'succeed_attempts') loop
        execute format('drop function %s', changed);
    end loop;
end $$;
