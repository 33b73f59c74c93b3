-- The guards of events: written by the triggers of tasks and jobs, and never changed.

create or replace trigger events_are_written_by_moves_alone before insert on holdfast.events for each statement
    when (pg_trigger_depth() = 0) execute function holdfast.refuse();

create or replace trigger an_event_never_changes before update or delete on holdfast.events for each row
    execute function holdfast.refuse();

create or replace trigger events_are_never_truncated before truncate on holdfast.events for each statement
    execute function holdfast.refuse();
