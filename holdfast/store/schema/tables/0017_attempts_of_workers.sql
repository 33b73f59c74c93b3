-- What has ended on a worker: its attempts by time, and how many of each outcome, as servers have counted them.

-- By a hash of the id, so that a long one does not make the index large; it is written once, when an attempt ends.
create index attempts_of_a_worker on holdfast.attempts (hashtextextended(worker_id, 0), finished_at);

create table holdfast.worker_samples (
    at timestamptz not null,
    server_id text not null,
    worker_id text collate "C" not null,
    succeeded bigint not null,
    failed bigint not null,
    worker_failed bigint not null,
    killed bigint not null,
    constraint one_sample_per_step_server_and_worker primary key (at, server_id, worker_id),
    constraint a_worker_is_sampled_by_five_minutes check (extract(epoch from at) % 300 = 0),
    constraint ended_attempts_are_not_negative check (least(succeeded, failed, worker_failed, killed) >= 0)
) with (fillfactor = 50);
