-- compatible with 23
-- For which gang a bucket is being kept: the place of its last member in line, how many slots it takes in all, and
-- until when. A gang that does not get all its slots stays in line; meanwhile nobody who comes after it takes them.
alter table holdfast.limit_buckets
    add column gang_urgency int,
    add column gang_eligible_at timestamptz,
    add column gang_job_id bigint,
    add column gang_task_index int,
    add column gang_slots int,
    add column gang_until timestamptz;
