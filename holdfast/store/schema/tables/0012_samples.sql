-- What servers have counted, so that charts outlive them. Each server adds to rows of its own every few seconds, and
-- to a row of every length of step at once: a chart reads one length, and never more than a few hundred rows of it.

create table holdfast.samples (
    step_seconds int not null,
    at timestamptz not null,
    server_id text not null,
    -- When the server last added to it: of several servers, the newest knows the depth.
    seen_at timestamptz not null,
    submitted bigint not null,
    succeeded bigint not null,
    failed bigint not null,
    killed bigint not null,
    worker_failed bigint not null,
    unschedulable bigint not null,
    dead_lettered bigint not null,
    retried bigint not null,
    -- How many tasks waited up to each bound of rules/quantiles.py, and in the last range longer than all of them.
    waits bigint[] not null,
    depth bigint not null,
    running bigint not null,
    constraint one_sample_per_step_and_server primary key (step_seconds, at, server_id),
    constraint a_step_has_a_length check (step_seconds > 0),
    constraint a_sample_stands_where_its_step_begins check (extract(epoch from at) % step_seconds = 0),
    constraint a_wait_falls_into_one_of_seventeen_ranges check (cardinality(waits) = 17),
    constraint samples_are_not_negative check (
        least(submitted, succeeded, failed, killed, worker_failed, unschedulable, dead_lettered, retried,
              depth, running) >= 0 and 0 <= all (waits))
) with (fillfactor = 50);

create table holdfast.type_samples (
    at timestamptz not null,
    server_id text not null,
    type text collate "C" not null,
    attempts bigint not null,
    failures bigint not null,
    -- How long they waited and ran, as above.
    waits bigint[] not null,
    runs bigint[] not null,
    constraint one_sample_per_minute_server_and_type primary key (at, server_id, type),
    constraint a_type_is_sampled_by_the_minute check (extract(epoch from at) % 60 = 0),
    constraint an_attempt_fails_once check (0 <= failures and failures <= attempts),
    constraint a_time_falls_into_one_of_seventeen_ranges check (cardinality(waits) = 17 and cardinality(runs) = 17)
) with (fillfactor = 50);
