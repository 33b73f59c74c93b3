-- What people have done: who cancelled, replayed, paused, cut over, and why. Each row is written in the transaction of
-- what it tells of. What they did it to may be gone long before it.

create table holdfast.actions (
    action_id bigint generated always as identity primary key,
    at timestamptz not null,
    actor text collate "C" not null,
    action text collate "C" not null,
    subject_kind text collate "C" not null,
    subject text collate "C" not null,
    reason text,
    facts jsonb
);
create index actions_of_an_actor on holdfast.actions (actor, action_id);
create index actions_of_a_kind on holdfast.actions (action, action_id);
create index actions_on_a_subject on holdfast.actions (subject_kind, subject, action_id);
