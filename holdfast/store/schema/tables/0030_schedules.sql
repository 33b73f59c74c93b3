-- compatible with 23
-- Schedules: which job is submitted when, each firing, and what was missed.

create table holdfast.schedules (
    schedule_id bigint generated always as identity primary key,
    name text collate "C" not null unique,
    spec jsonb not null,
    inputs json,
    placed boolean not null default false,
    -- When it fires, as ScheduleTerms in model/submitting/schedules.py has it.
    terms jsonb not null,
    -- The function whose decorator declares it; null where somebody has set it.
    declared_by text collate "C",
    created_at timestamptz not null,
    created_by text not null,
    changed_at timestamptz not null,
    changed_by text not null,
    version bigint not null default 1,
    paused_at timestamptz,
    paused_by text,
    -- Since when code that declared it declares it no more.
    retired_at timestamptz,
    -- The instant that is next, and when it is looked at: later by its jitter, or if it was put off.
    next_at timestamptz,
    due_at timestamptz,
    problem text,
    constraint a_schedule_that_rests_is_not_due check (due_at is null or (paused_at is null and retired_at is null)),
    constraint what_is_due_has_an_instant check ((next_at is null) = (due_at is null)),
    constraint only_declared_schedules_retire check (retired_at is null or declared_by is not null),
    constraint a_pause_has_its_author check ((paused_at is null) = (paused_by is null))
);
create index schedules_by_due on holdfast.schedules (due_at) where due_at is not null;
create index declared_schedules on holdfast.schedules (declared_by) where declared_by is not null;

create table holdfast.schedule_firings (
    schedule_id bigint not null,
    instant timestamptz not null,
    kind text not null,
    outcome text not null,
    job_id bigint,
    problem text,
    fired_at timestamptz not null,
    -- Whether its job has not ended, as far as the last firing knew.
    is_open boolean not null default false,
    constraint an_instant_fires_once primary key (schedule_id, instant),
    constraint firings_are_of_a_kind check (kind in ('scheduled', 'caught_up', 'manual', 'backfill')),
    constraint firings_have_an_outcome check (outcome in ('fired', 'skipped', 'refused')),
    constraint what_was_fired_has_a_job check ((outcome = 'fired') = (job_id is not null)),
    constraint what_was_not_fired_says_why check ((outcome = 'fired') = (problem is null)),
    constraint only_jobs_are_open check (not is_open or job_id is not null)
);
create unique index a_job_is_of_one_firing on holdfast.schedule_firings (job_id) where job_id is not null;
create index open_firings on holdfast.schedule_firings (schedule_id, instant) where is_open;
create index firings_by_age on holdfast.schedule_firings (fired_at);

-- Instants that passed without anybody looking, the first to the last of them.
create table holdfast.schedule_misses (
    schedule_id bigint not null,
    first_instant timestamptz not null,
    last_instant timestamptz not null,
    instants bigint not null,
    noted_at timestamptz not null,
    constraint an_instant_is_missed_once primary key (schedule_id, first_instant),
    constraint misses_have_an_order check (first_instant <= last_instant and instants > 0)
);
create index misses_by_age on holdfast.schedule_misses (noted_at);
