-- The guards of dependencies.

-- Programs of before migration 35 do not know chains, and would have one go on that stands still after a failure, or
-- behind a job that was cancelled before its turn, while those before that one still run. What they close then stays
-- open; of the second, a server that knows more takes care a second later.
create or replace function holdfast.keep_chain_waiting() returns trigger language plpgsql as $$
begin
    if new.on_failure = 'block' and exists (
           select from holdfast.jobs
            where jobs.job_id = old.depends_on and jobs.state <> {SUCCEEDED} and jobs.cancel_mode is null) then
        return null;
    end if;
    if exists (select from holdfast.dependencies as earlier
                where earlier.job_id = old.depends_on and earlier.closed_at is null and earlier.on_failure is not null
                  and not exists (select from holdfast.dependencies as known
                                   where known.job_id = old.job_id and known.depends_on = earlier.depends_on
                                     and known.on_failure is not null)) then
        insert into holdfast.outbox (kind, job_id, created_at, due_at)
        values ('release', old.depends_on, holdfast.now(), holdfast.now() + interval '1 second');
        return null;
    end if;
    return new;
end $$;
create or replace trigger a_chain_waits_for_all_before before update of closed_at on holdfast.dependencies
    for each row when (old.on_failure is not null and old.closed_at is null and new.closed_at is not null)
    execute function holdfast.keep_chain_waiting();

create or replace trigger a_dependency_is_closed_once before update on holdfast.dependencies for each row
    when (old.closed_at is not null
          or (old.job_id, old.condition) is distinct from (new.job_id, new.condition)
          -- A chain that stands still goes on when somebody has let it pass.
          or old.on_failure is distinct from new.on_failure
             and not (old.on_failure = 'block' and new.on_failure = 'pass')
          -- In a chain, one that was cancelled is cut out: who waited for it waits for an earlier one.
          or old.depends_on <> new.depends_on
             and (old.on_failure is null or new.closed_at is not null
                  or new.depends_on > old.depends_on))
    execute function holdfast.refuse();
