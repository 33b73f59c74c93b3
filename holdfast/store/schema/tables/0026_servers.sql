-- compatible with 23
-- The servers on this database, each by what it last said of itself; and by which version workers have registered.
create table holdfast.servers (
    server_id uuid primary key,
    host text not null collate "C",
    version text not null collate "C",
    migration int not null,
    started_at timestamptz not null,
    seen_at timestamptz not null,
    clock_skew_seconds float8 not null,
    report jsonb not null
);
alter table holdfast.workers
    add column version text collate "C",
    add column clock_skew_seconds float8;
