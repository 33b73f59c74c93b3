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

create trigger a_version_is_filled_then_sealed_then_dropped before update on holdfast.dataset_versions for each row
    when (not (old.state = 'open' and (new.state <> 'open' or new.may_be_replaced)
               or (old.state = 'sealed' or old.swept_at is null) and new.state = 'dropped'
                  and (old.cut_over_at, old.entries, old.size_bytes)
                      is not distinct from (new.cut_over_at, new.entries, new.size_bytes))
          or (old.dataset, old.version, old.created_at, old.created_by, old.based_on, old.opened_by_job)
             is distinct from
             (new.dataset, new.version, new.created_at, new.created_by, new.based_on, new.opened_by_job))
    execute function holdfast.refuse();

-- One that a submission has opened goes with it, should that be refused; nothing else is forgotten.
create function holdfast.refuse_delete_of_known_version() returns trigger
    language plpgsql as $$
begin
    if old.state <> 'open' or old.opened_by_job is null
       or exists (select from holdfast.dataset_entries where dataset = old.dataset and version = old.version) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('version %s of dataset %s is remembered', old.version, old.dataset);
    end if;
    return old;
end $$;
create trigger a_version_is_remembered before delete on holdfast.dataset_versions for each row
    execute function holdfast.refuse_delete_of_known_version();

create function holdfast.refuse_drop_of_current_version() returns trigger
    language plpgsql as $$
begin
    if exists (select from holdfast.datasets where name = new.dataset and current_version = new.version) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('version %s of dataset %s is the current one', new.version, new.dataset);
    end if;
    return new;
end $$;
create trigger the_current_version_is_not_dropped before update on holdfast.dataset_versions for each row
    when (new.state = 'dropped') execute function holdfast.refuse_drop_of_current_version();

create function holdfast.refuse_unsealed_current_version() returns trigger
    language plpgsql as $$
begin
    perform 1 from holdfast.dataset_versions
      where dataset = new.name and version = new.current_version and state = 'sealed' for share;
    if not found then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('version %s of dataset %s is not sealed', new.current_version, new.name);
    end if;
    return new;
end $$;
create trigger the_current_version_is_sealed before insert or update on holdfast.datasets for each row
    when (new.current_version is not null) execute function holdfast.refuse_unsealed_current_version();
create trigger there_is_a_current_version_from_the_first_cut_over_on before update on holdfast.datasets for each row
    when (old.current_version is not null and new.current_version is null or old.name <> new.name)
    execute function holdfast.refuse();

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
create trigger a_cut_over_is_history before update or delete on holdfast.cut_overs for each row
    execute function holdfast.refuse();

create function holdfast.refuse_unrecorded_cut_over() returns trigger
    language plpgsql as $$
begin
    if (select current_version from holdfast.datasets where name = new.name) is distinct from
       (select version from holdfast.cut_overs where dataset = new.name order by number desc limit 1) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('dataset %s was cut over without a record', new.name);
    end if;
    return null;
end $$;
create constraint trigger every_cut_over_is_recorded after insert or update on holdfast.datasets
    deferrable initially deferred for each row
    when (new.current_version is not null) execute function holdfast.refuse_unrecorded_cut_over();

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
create trigger a_job_stays_bound_to_its_version before update on holdfast.job_outputs for each row
    execute function holdfast.refuse();

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
create trigger a_commit_never_changes before update on holdfast.commits for each row
    execute function holdfast.refuse();

create function holdfast.refuse_commit_without_success() returns trigger
    language plpgsql as $$
begin
    if not exists (select from holdfast.tasks
                    where job_id = new.job_id and task_index = new.task_index
                      and attempt = new.attempt and state = 4) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('attempt %s of task %s.%s has not succeeded', new.attempt, new.job_id, new.task_index);
    end if;
    return null;
end $$;
create constraint trigger a_commit_goes_with_a_success after insert on holdfast.commits
    deferrable initially deferred for each row execute function holdfast.refuse_commit_without_success();

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

-- The versions are held, so that none is sealed between this look and the commit, whoever the writer is.
create function holdfast.refuse_entries_of_unopen_versions() returns trigger
    language plpgsql as $$
begin
    if (select count(*) from (select distinct dataset, version from added) as wanted) <>
       (select count(*) from (
           select 1 from holdfast.dataset_versions
            where (dataset, version) in (select distinct dataset, version from added) and state = 'open'
            order by dataset, version for share) as held) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = 'an entry was to go into a version that is not open';
    end if;
    return null;
end $$;
create trigger entries_go_into_open_versions after insert on holdfast.dataset_entries
    referencing new table as added for each statement execute function holdfast.refuse_entries_of_unopen_versions();

create function holdfast.refuse_entries_without_commit() returns trigger
    language plpgsql as $$
begin
    if exists (select from added
                where copied_from is null
                  and not exists (select from holdfast.commits
                                   where commits.job_id = added.job_id and commits.task_index = added.task_index
                                     and commits.attempt = added.attempt)) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = 'an entry was to be written without the commit of its task';
    end if;
    return null;
end $$;
create trigger entries_are_written_by_commits after insert on holdfast.dataset_entries
    referencing new table as added for each statement execute function holdfast.refuse_entries_without_commit();

create trigger an_entry_never_changes before update on holdfast.dataset_entries for each row
    execute function holdfast.refuse();

create function holdfast.refuse_removal_from_sealed_versions() returns trigger
    language plpgsql as $$
begin
    perform 1 from holdfast.dataset_versions
      where (dataset, version) in (select distinct dataset, version from removed) and state = 'sealed'
      order by dataset, version for share;
    if found then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = 'an entry was to be removed from a sealed version';
    end if;
    return null;
end $$;
create trigger a_sealed_version_keeps_its_entries after delete on holdfast.dataset_entries
    referencing old table as removed for each statement execute function holdfast.refuse_removal_from_sealed_versions();

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
create trigger a_run_starts_once before update on holdfast.trigger_runs for each row
    when (old.job_id is not null
          or (old.dataset, old.trigger, old.version) is distinct from (new.dataset, new.trigger, new.version))
    execute function holdfast.refuse();
