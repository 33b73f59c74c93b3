-- Datasets: numbered versions of what jobs write. Entries are committed with the success of a task, in its
-- transaction; a cut-over seals a version and makes it the one that readers get.

create table holdfast.datasets (
    name text collate "C" not null,
    created_at timestamptz not null,
    created_by text not null,
    metadata jsonb not null default '{}',
    current_version int,
    constraint a_dataset_has_a_name_of_its_own primary key (name),
    constraint a_dataset_is_named_plainly check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$')
);

create table holdfast.dataset_versions (
    dataset text collate "C" not null,
    version int not null,
    state text not null default 'open',
    created_at timestamptz not null,
    created_by text not null,
    based_on int,
    opened_by_job bigint,
    -- Some job that was bound to it replaces: from then on its entries may be fewer than were committed.
    may_be_replaced boolean not null default false,
    -- The first cut-over, which has sealed it; what it held then is what it holds.
    cut_over_at timestamptz,
    entries bigint,
    size_bytes bigint,
    dropped_at timestamptz,
    dropped_by text,
    -- A version is dropped at once; its entries go afterwards, until this is set.
    swept_at timestamptz,
    constraint a_version_has_a_number_of_its_own primary key (dataset, version),
    constraint a_version_belongs_to_a_dataset foreign key (dataset) references holdfast.datasets (name),
    constraint versions_count_from_one check (version > 0),
    constraint a_version_is_open_sealed_or_dropped check (state in ('open', 'sealed', 'dropped')),
    constraint a_cut_over_seals_a_version check (state = 'dropped' or (state = 'sealed') = (cut_over_at is not null)),
    constraint a_sealed_version_has_been_counted check (
        (cut_over_at is null) = (entries is null) and (entries is null) = (size_bytes is null)),
    constraint a_dropped_version_says_when_and_by_whom check (
        (state = 'dropped') = (dropped_at is not null) and (dropped_at is null) = (dropped_by is null)),
    constraint only_a_dropped_version_is_swept check (swept_at is null or state = 'dropped')
);
create index open_versions on holdfast.dataset_versions (dataset, version) where state = 'open';
create index versions_to_sweep on holdfast.dataset_versions (dropped_at) where state = 'dropped' and swept_at is null;
create index versions_opened_by_a_job on holdfast.dataset_versions (opened_by_job) where opened_by_job is not null;

-- Every cut-over in order: from the version before to this one.
create table holdfast.cut_overs (
    dataset text collate "C" not null,
    number int not null,
    version int not null,
    previous int,
    at timestamptz not null,
    actor text not null,
    reason text,
    forced boolean not null,
    constraint cut_overs_of_a_dataset_are_counted primary key (dataset, number),
    constraint cut_overs_count_from_one check (number > 0),
    constraint a_cut_over_leads_elsewhere check (previous is distinct from version),
    constraint a_cut_over_leads_to_a_version foreign key (dataset, version)
        references holdfast.dataset_versions (dataset, version)
);

-- Which version the tasks of a job commit to, and how.
create table holdfast.job_outputs (
    job_id bigint not null,
    dataset text collate "C" not null,
    version int not null,
    mode text not null,
    -- How the user chose the version, unless by its number: a replay may have to choose again.
    declared text,
    constraint a_version_is_declared_new_or_newest check (declared in ('new', 'newest')),
    constraint a_job_writes_one_version_of_a_dataset primary key (job_id, dataset),
    constraint a_job_appends_or_replaces check (mode in ('append', 'replace'))
);
create index jobs_bound_to_a_version on holdfast.job_outputs (dataset, version, job_id);

-- What a task has committed, by the attempt that succeeded: how many entries it has written.
create table holdfast.commits (
    job_id bigint not null,
    task_index int not null,
    attempt int not null,
    entries int not null,
    committed_at timestamptz not null,
    constraint a_task_commits_once primary key (job_id, task_index),
    constraint a_commit_counts_its_entries check (entries >= 0)
);

create table holdfast.dataset_entries (
    dataset text collate "C" not null,
    version int not null,
    key text collate "C" not null,
    partition_key text collate "C" not null,
    uri text not null,
    size_bytes bigint,
    checksum text,
    metadata jsonb,
    job_id bigint not null,
    task_index int not null,
    attempt int not null,
    committed_at timestamptz not null,
    -- The version that this one was based on, if the entry came from there.
    copied_from int,
    constraint a_version_has_a_key_once primary key (dataset, version, key),
    constraint a_size_is_not_negative check (size_bytes >= 0)
);
create index entries_of_a_partition on holdfast.dataset_entries (dataset, version, partition_key);
-- What a job has committed, for whoever undoes it.
create index entries_of_a_task on holdfast.dataset_entries (job_id, task_index) where copied_from is null;

-- Jobs that a cut-over starts, once per trigger and version.
create table holdfast.dataset_triggers (
    dataset text collate "C" not null,
    name text collate "C" not null,
    spec jsonb not null,
    inputs json,
    created_at timestamptz not null,
    created_by text not null,
    changed_at timestamptz not null,
    constraint a_trigger_has_a_name_of_its_own primary key (dataset, name),
    constraint a_trigger_belongs_to_a_dataset foreign key (dataset) references holdfast.datasets (name),
    constraint a_trigger_is_named_plainly check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$')
);

create table holdfast.trigger_runs (
    dataset text collate "C" not null,
    trigger text collate "C" not null,
    version int not null,
    requested_at timestamptz not null,
    job_id bigint,
    started_at timestamptz,
    -- Why it could not be started, and when that is tried again.
    problem text,
    due_at timestamptz not null,
    constraint a_trigger_runs_once_per_version primary key (dataset, trigger, version),
    constraint a_run_that_started_has_a_job check ((job_id is null) = (started_at is null))
);
create index runs_that_have_not_started on holdfast.trigger_runs (due_at) where job_id is null;
