-- The guards of attempts, open and ended.

-- A renewal names none of these columns, and so costs none of this.
create or replace trigger a_lease_keeps_its_identity
    after update of job_id, task_index, attempt, lease_token, created_at, ending on holdfast.leases for each row
    when (new.job_id <> old.job_id or new.task_index <> old.task_index
          or new.attempt <> old.attempt or new.lease_token <> old.lease_token
          or new.created_at <> old.created_at or (old.ending and not new.ending))
    execute function holdfast.refuse();

create or replace trigger an_ended_attempt_is_only_released before update on holdfast.attempts for each row
    when (old.released_at is not null or new.released_at is null
          or (old.job_id, old.task_index, old.attempt, old.worker_id, old.state, old.created_at,
              old.finished_at, old.lease_token, old.reported)
             is distinct from
             (new.job_id, new.task_index, new.attempt, new.worker_id, new.state, new.created_at,
              new.finished_at, new.lease_token, new.reported)
          or (old.started_at, old.exit_code, old.error, old.error_class, old.stage)
             is distinct from
             (new.started_at, new.exit_code, new.error, new.error_class, new.stage))
    execute function holdfast.refuse();

create or replace trigger an_attempt_is_never_deleted before delete on holdfast.attempts for each row
    execute function holdfast.refuse();

create or replace trigger attempts_are_never_truncated before truncate on holdfast.attempts for each statement
    execute function holdfast.refuse();
