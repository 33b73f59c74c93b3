-- The audit of placed work: rows as in ledger.sql, but what is broken may be a worker, named first.

-- name: check_capacity
-- Every lease that has not been released is booked. One that is older than its worker's registration was
-- adopted: the worker that it was placed on may have had more to give. What a process claims from queues beside
-- placed work is taken by the book.
with booked as (
    select coalesce(leases.book, workers.book, worker_id) as book,
           count(*) filter (where leases.placed and tasks.state in ({ASSIGNED}, {BUILDING}) and not leases.ending)
               as unstarted,
           sum(coalesce((wanted.resources ->> 'cpu')::float8, 1)) as cpu,
           sum(coalesce((wanted.resources ->> 'memory')::numeric, 0)) as memory,
           sum(coalesce((wanted.resources ->> 'disk')::numeric, 0)) as disk,
           sum(coalesce((wanted.resources ->> 'gpu')::int, 0)) as gpu
      from holdfast.leases
      join holdfast.tasks using (job_id, task_index)
      join (select job_id, spec -> 'resources' as resources from holdfast.jobs) as wanted using (job_id)
      left join holdfast.workers using (worker_id)
     where (leases.placed and leases.created_at >= workers.registered_at) or leases.book is not null
     group by coalesce(leases.book, workers.book, worker_id)
),
checked as (
    select worker_id, booked.unstarted, booked.cpu, booked.memory, booked.disk, booked.gpu, workers.capacity,
           -- Sums of fractions are not exact.
           booked.cpu > coalesce((capacity ->> 'cpu')::float8, 0) + 0.000001
               or booked.memory > coalesce((capacity ->> 'memory')::numeric, 0)
               or booked.disk > coalesce((capacity ->> 'disk')::numeric, 0)
               or booked.gpu > coalesce((capacity ->> 'gpu')::int, 0) as capacity_exceeded,
           booked.unstarted > $unstarted_max::int as too_many_unstarted
      from booked join holdfast.workers on coalesce(workers.book, workers.worker_id) = booked.book
     where workers.capacity is not null
)
select checks.invariant, worker_id, null::int, null::int, checks.detail
  from checked
 cross join lateral (values
    ('capacity_exceeded', capacity_exceeded,
     format('cpu %s, memory %s, disk %s and gpu %s are booked of %s', cpu, memory, disk, gpu, capacity)),
    ('too_many_unstarted', too_many_unstarted,
     format('%s attempts on it have not started, more than %s', unstarted, $unstarted_max::int))
  ) as checks(invariant, broken, detail)
 where (capacity_exceeded or too_many_unstarted) and checks.broken;

-- name: check_placed_leases
select checks.invariant, job_id, task_index, leases.attempt, checks.detail
  from holdfast.leases
  left join holdfast.workers using (worker_id)
  left join (select job_id, queue, spec -> 'resources' -> 'ports' as ports,
                    coalesce((spec -> 'resources' ->> 'gpu')::int, 0) as gpu from holdfast.jobs) as jobs using (job_id)
 cross join lateral (values
    ('lease_placed_against_its_job', leases.placed <> (jobs.queue is null),
     format('the lease is placed: %s; the queue of its job is %s', leases.placed, coalesce(jobs.queue, 'none'))),
    ('placed_lease_of_a_worker_that_is_not_called', leases.placed and workers.address is null,
     format('nobody calls %s, so nobody will tell it what to run', worker_id)),
    ('ports_differ', leases.placed and (
        select coalesce(array_agg(port order by port), '{}') from jsonb_object_keys(leases.ports) as port)
        <> (select coalesce(array_agg(port order by port), '{}') from jsonb_array_elements_text(jobs.ports) as port),
     format('it was given %s; its job asks for %s', coalesce(leases.ports, '{}'), coalesce(jobs.ports, '[]'))),
    ('devices_differ',
     coalesce(jsonb_array_length(leases.devices), 0) <> case when leases.placed then jobs.gpu else 0 end,
     format('it was given the devices %s; its job asks for %s', coalesce(leases.devices, '[]'), jobs.gpu))
  ) as checks(invariant, broken, detail)
 where checks.broken;

-- name: check_ports
select 'port_given_twice', job_id, task_index, attempt,
       format('port %s of host %s is given to %s attempts', port, host, given)
  from (select job_id, task_index, attempt, host, port.value as port,
               count(*) over (partition by host, port.value) as given
          from holdfast.leases join holdfast.workers using (worker_id)
         cross join lateral jsonb_each_text(leases.ports) as port
         where leases.placed) as ports
 where given > 1;

-- name: check_devices
-- By the name of the worker on its host: incarnations of one worker have the same devices.
select 'device_given_twice', job_id, task_index, attempt,
       format('device %s of %s on host %s is given to %s attempts', device, name, host, given)
  from (select job_id, task_index, attempt, host, name, device.value as device,
               count(*) over (partition by host, name, device.value) as given
          from holdfast.leases join holdfast.workers using (worker_id)
         cross join lateral jsonb_array_elements_text(leases.devices) as device
         where leases.placed) as devices
 where given > 1;

-- name: check_accounts
select 'account_without_attempt', job_id, task_index, attempt,
       format('ports %s, devices %s, usage %s, build %s', attempt_usage.ports, attempt_usage.devices, usage, build)
  from holdfast.attempt_usage
  left join holdfast.attempts using (job_id, task_index, attempt)
  left join holdfast.leases using (job_id, task_index, attempt)
 where attempts.state is null and leases.lease_token is null;

-- name: check_gangs
-- Placed all at once, and ended together. A gang that has ended or is to be cancelled is left to the sweep.
select 'gang_not_whole', job_id, null::int, null::int,
       format('%s of %s members that have not succeeded run', assigned + building + running, num_tasks - succeeded)
  from holdfast.jobs
 where spec ? 'coscheduling' and finished_at is null and cancel_mode is null and submitted_at is not null
   and assigned + building + running not in (0, num_tasks - succeeded);
