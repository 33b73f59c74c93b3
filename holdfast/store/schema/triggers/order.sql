-- The guards of dependencies.

create or replace trigger a_dependency_is_closed_once before update on holdfast.dependencies for each row
    when (old.closed_at is not null
          or (old.job_id, old.depends_on, old.condition)
             is distinct from (new.job_id, new.depends_on, new.condition))
    execute function holdfast.refuse();
