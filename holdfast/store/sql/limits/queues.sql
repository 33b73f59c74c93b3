-- name: pause_queue
insert into holdfast.queues (queue, paused_at, paused_by) values ($queue, holdfast.now(), $actor)
on conflict (queue) do nothing
returning 1;

-- name: resume_queue
delete from holdfast.queues where queue = $queue returning 1;
