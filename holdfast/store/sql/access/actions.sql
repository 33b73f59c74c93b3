-- name: record_actions
insert into holdfast.actions (at, actor, action, subject_kind, subject, reason, facts, token_id)
select holdfast.now(), mine.actor, mine.action, mine.subject_kind, mine.subject, mine.reason, mine.facts::jsonb,
       mine.token_id
  from unnest($actors::text[], $actions::text[], $subject_kinds::text[], $subjects::text[], $reasons::text[],
              $facts::text[], $token_ids::text[])
         as mine(actor, action, subject_kind, subject, reason, facts, token_id);

-- name: prune_actions
-- Ids grow with time, or nearly so: the oldest are the first.
delete from holdfast.actions where action_id = any (array(
    select action_id from (select action_id, at from holdfast.actions order by action_id limit $batch_max) as oldest
     where at < holdfast.now() - $older_than::interval))
returning 1;
