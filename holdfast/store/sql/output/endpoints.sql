-- name: hold_publisher
-- While this is held, the attempt can neither end nor publish anything beside this.
select 1 from holdfast.leases
 where job_id = $job_id and task_index = $task_index and attempt = $attempt and lease_token = $token
   and not ending
   for no key update;

-- name: count_endpoints
select count(*) from holdfast.endpoints
 where job_id = $job_id and task_index = $task_index and attempt = $attempt and lease_token = $token
   and name <> $name;

-- name: lock_endpoint
-- Whoever comes second waits here for the first, and is then told whom he has met: that one's lease is looked
-- for by a statement of its own, which sees what has been committed meanwhile.
insert into holdfast.endpoints (name, address, job_id, task_index, attempt, lease_token, registered_at)
values ($name, '', $job_id, $task_index, $attempt, $token, holdfast.now())
on conflict (name) do update set name = endpoints.name
returning job_id, task_index, attempt, lease_token;

-- name: put_endpoint
update holdfast.endpoints
   set address = $address, metadata = $metadata::text::jsonb, job_id = $job_id, task_index = $task_index,
       attempt = $attempt, lease_token = $token, registered_at = holdfast.now()
 where name = $name
returning name, address, job_id, task_index, attempt, registered_at, metadata::text;

-- name: remove_endpoint
delete from holdfast.endpoints
 where name = $name and job_id = $job_id and task_index = $task_index and attempt = $attempt
   and lease_token = $token
returning 1;

-- name: walk_endpoints
-- No name has a tilde in it, and all that names may hold stands before the tilde.
select name from holdfast.endpoints
 where name > $after and name >= $prefix and name < $prefix || '~'
 order by name limit $count_max;

-- name: read_endpoints
-- An address that its attempt has outlived is as good as gone; the row itself goes later.
select endpoints.name, endpoints.address, endpoints.job_id, endpoints.task_index, endpoints.attempt,
       endpoints.registered_at, endpoints.metadata::text
  from unnest($names::text[]) as wanted(name)
  join holdfast.endpoints using (name)
  join holdfast.leases using (job_id, task_index, attempt, lease_token)
 where not leases.ending
 order by endpoints.name limit $count_max;

-- name: prune_endpoints
-- By the token too: a name that has been taken over since it was looked at is not deleted.
delete from holdfast.endpoints
 using (select name, lease_token from holdfast.endpoints as found
         where not exists (select from holdfast.leases
                            where leases.job_id = found.job_id and leases.task_index = found.task_index
                              and leases.attempt = found.attempt and leases.lease_token = found.lease_token
                              and not leases.ending)
         limit $batch_max) as stale
 where endpoints.name = stale.name and endpoints.lease_token = stale.lease_token
returning 1;
