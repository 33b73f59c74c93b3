-- The functions that workers have announced, with the options of their jobs; the latest word counts.

create table holdfast.functions (
    path text collate "C" primary key,
    options jsonb not null,
    parameters jsonb not null,
    doc text,
    announced_by text not null,
    changed_at timestamptz not null,
    last_seen_at timestamptz not null
);
create index functions_by_last_seen on holdfast.functions (last_seen_at);

-- Counts the changes of options: with the changes of policies, every submission looks here whether what it was
-- completed with still holds. Both only grow, so their sum is another one when either has changed.
alter table holdfast.policy_clock add column functions_version bigint not null default 0;
