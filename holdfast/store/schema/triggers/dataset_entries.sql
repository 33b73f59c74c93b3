-- The guards of what jobs write into datasets: bindings, commits, entries.

create or replace trigger a_job_stays_bound_to_its_version before update on holdfast.job_outputs for each row
    execute function holdfast.refuse();

create or replace trigger a_commit_never_changes before update on holdfast.commits for each row
    execute function holdfast.refuse();

create or replace function holdfast.refuse_commit_without_success() returns trigger
    language plpgsql as $$
begin
    if not exists (select from holdfast.tasks
                    where job_id = new.job_id and task_index = new.task_index
                      and attempt = new.attempt and state = {SUCCEEDED}) then
        raise exception using
            errcode = 'integrity_constraint_violation',
            constraint = tg_name,
            message = format('attempt %s of task %s.%s has not succeeded', new.attempt, new.job_id, new.task_index);
    end if;
    return null;
end $$;
drop trigger if exists a_commit_goes_with_a_success on holdfast.commits;
create constraint trigger a_commit_goes_with_a_success after insert on holdfast.commits
    deferrable initially deferred for each row execute function holdfast.refuse_commit_without_success();

-- The versions are held, so that none is sealed between this look and the commit, whoever the writer is.
create or replace function holdfast.refuse_entries_of_unopen_versions() returns trigger
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
create or replace trigger entries_go_into_open_versions after insert on holdfast.dataset_entries
    referencing new table as added for each statement execute function holdfast.refuse_entries_of_unopen_versions();

create or replace function holdfast.refuse_entries_without_commit() returns trigger
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
create or replace trigger entries_are_written_by_commits after insert on holdfast.dataset_entries
    referencing new table as added for each statement execute function holdfast.refuse_entries_without_commit();

create or replace trigger an_entry_never_changes before update on holdfast.dataset_entries for each row
    execute function holdfast.refuse();

create or replace function holdfast.refuse_removal_from_sealed_versions() returns trigger
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
create or replace trigger a_sealed_version_keeps_its_entries after delete on holdfast.dataset_entries
    referencing old table as removed for each statement execute function holdfast.refuse_removal_from_sealed_versions();
