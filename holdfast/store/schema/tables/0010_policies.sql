-- What submissions are held to: limits for all of them, and policies per type of job, with defaults that the server
-- fills in and limits that a job's own spec is held to.

-- The columns are named as in the Limits of model/spec.py: who changes the one changes the other. A table, since
-- a role that may only submit could change a setting of its session.
create table holdfast.limits (
    one boolean primary key default true,
    input_bytes_max int not null default 1048576,
    spec_bytes_max int not null default 1048576,
    text_length_max int not null default 256,
    error_length_max int not null default 65536,
    tasks_max int not null default 10000000,
    batch_tasks_max int not null default 10000,
    lease_seconds_min float8 not null default 30,
    lease_seconds_max float8 not null default 120,
    retries_max int not null default 10000,
    constraint there_is_one_row_of_limits check (one),
    constraint the_shortest_lease_is_not_longer_than_the_longest check (
        lease_seconds_min > 0 and lease_seconds_min <= lease_seconds_max and lease_seconds_max < 'infinity'),
    constraint limits_leave_room_for_something check (
        least(input_bytes_max, spec_bytes_max, text_length_max, error_length_max, tasks_max, batch_tasks_max) > 0)
);
insert into holdfast.limits default values;

create table holdfast.policies (
    type text collate "C" primary key,
    policy jsonb not null,
    version bigint not null,
    updated_at timestamptz not null,
    updated_by text not null
);

-- Every change there ever was, whole: the number is the same that the clock below shows then.
create table holdfast.policy_changes (
    version bigint primary key,
    type text collate "C" not null,
    before jsonb,
    after jsonb,
    actor text not null,
    changed_at timestamptz not null,
    constraint a_change_of_a_policy_changes_it check (before is distinct from after)
);
create index policy_changes_of_a_type on holdfast.policy_changes (type, version);

-- Counts the changes, one after another; every submission looks here whether the policies it knows still hold.
create table holdfast.policy_clock (
    one boolean primary key default true,
    version bigint not null default 0,
    constraint there_is_one_policy_clock check (one)
);
insert into holdfast.policy_clock default values;
