-- The guards of datasets, their versions and cut-overs, and of what cut-overs start.

create or replace trigger a_version_is_filled_then_sealed_then_dropped
    before update on holdfast.dataset_versions for each row
    when (not (old.state = 'open' and (new.state <> 'open' or new.may_be_replaced)
               or (old.state = 'sealed' or old.swept_at is null) and new.state = 'dropped'
                  and (old.cut_over_at, old.entries, old.size_bytes)
                      is not distinct from (new.cut_over_at, new.entries, new.size_bytes))
          or (old.dataset, old.version, old.created_at, old.created_by, old.based_on, old.opened_by_job)
             is distinct from
             (new.dataset, new.version, new.created_at, new.created_by, new.based_on, new.opened_by_job))
    execute function holdfast.refuse();

-- One that a submission has opened goes with it, should that be refused; nothing else is forgotten.
create or replace function holdfast.refuse_delete_of_known_version() returns trigger
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
create or replace trigger a_version_is_remembered before delete on holdfast.dataset_versions for each row
    execute function holdfast.refuse_delete_of_known_version();

create or replace function holdfast.refuse_drop_of_current_version() returns trigger
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
create or replace trigger the_current_version_is_not_dropped before update on holdfast.dataset_versions for each row
    when (new.state = 'dropped') execute function holdfast.refuse_drop_of_current_version();

create or replace function holdfast.refuse_unsealed_current_version() returns trigger
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
create or replace trigger the_current_version_is_sealed before insert or update on holdfast.datasets for each row
    when (new.current_version is not null) execute function holdfast.refuse_unsealed_current_version();

create or replace trigger there_is_a_current_version_from_the_first_cut_over_on
    before update on holdfast.datasets for each row
    when (old.current_version is not null and new.current_version is null or old.name <> new.name)
    execute function holdfast.refuse();

create or replace trigger a_cut_over_is_history before update or delete on holdfast.cut_overs for each row
    execute function holdfast.refuse();

create or replace function holdfast.refuse_unrecorded_cut_over() returns trigger
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
drop trigger if exists every_cut_over_is_recorded on holdfast.datasets;
create constraint trigger every_cut_over_is_recorded after insert or update on holdfast.datasets
    deferrable initially deferred for each row
    when (new.current_version is not null) execute function holdfast.refuse_unrecorded_cut_over();

create or replace trigger a_run_starts_once before update on holdfast.trigger_runs for each row
    when (old.job_id is not null
          or (old.dataset, old.trigger, old.version) is distinct from (new.dataset, new.trigger, new.version))
    execute function holdfast.refuse();
