-- name: list_actions
select action_id, at, actor, action, subject_kind, subject, reason, facts::text, token_id
  from holdfast.actions
 where action_id < $before
   and ($actor::text is null or actor = $actor)
   and ($action::text is null or action = $action)
   and ($subject_kind::text is null or subject_kind = $subject_kind)
   and ($subject::text is null or subject = $subject)
   and ($since::timestamptz is null or at >= $since)
 order by action_id desc
 limit $count_max;
