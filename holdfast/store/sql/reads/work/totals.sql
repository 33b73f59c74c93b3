-- name: read_totals
-- Usage is a worker's own word: of a value that has another shape, nothing is counted.
with counted as materialized (
    select coalesce(sum(failure_count), 0)::bigint as failure_count,
           coalesce(sum(preemption_count), 0)::bigint as preemption_count,
           max(result::text) filter (where $has_one_task::boolean and state = {SUCCEEDED}) as result
      from holdfast.tasks where job_id = $job_id
),
told as materialized (
    select jsonb_path_query_first(usage, 'strict $.cpu_seconds ? (@ >= 0 && @ < 1e15)', silent => true) as cpu_seconds,
           jsonb_path_query_first(usage, 'strict $.memory_peak_bytes ? (@ >= 0 && @ < 1e18)', silent => true)
               as memory_peak_bytes,
           jsonb_path_query_first(usage, 'strict $.processes_max ? (@ >= 0 && @ < 1e9)', silent => true)
               as processes_max,
           jsonb_path_query_first(usage, 'strict $.limits ? (@ starts with "")', silent => true) #>> '{}' as limits,
           jsonb_path_query_first(build, 'strict $.fetch_ms ? (@ >= 0 && @ < 1e15)', silent => true) as fetch_ms,
           jsonb_path_query_first(build, 'strict $.unpack_ms ? (@ >= 0 && @ < 1e15)', silent => true) as unpack_ms,
           jsonb_path_query_first(build, 'strict $.bytes ? (@ >= 0 && @ < 1e15)', silent => true) as bytes,
           jsonb_path_query_first(build, 'strict $.environment_ms ? (@ >= 0 && @ < 1e15)', silent => true)
               as environment_ms,
           jsonb_path_query_first(build, 'strict $.bundle_cached ? (@ == true || @ == false)', silent => true)
               as bundle_cached,
           jsonb_path_query_first(build, 'strict $.environment_cached ? (@ == true || @ == false)', silent => true)
               as environment_cached
      from holdfast.attempt_usage where job_id = $job_id
),
used as materialized (
    select sum(cpu_seconds::float8) as cpu_seconds,
           trunc(max(memory_peak_bytes::numeric))::bigint as memory_peak_bytes,
           trunc(max(processes_max::numeric))::int as processes_max,
           case when min(limits) = max(limits) then min(limits) end as limits,
           sum(fetch_ms::float8) as fetch_ms, sum(unpack_ms::float8) as unpack_ms,
           trunc(sum(bytes::numeric))::bigint as bytes, bool_and(bundle_cached::boolean) as bundle_cached,
           sum(environment_ms::float8) as environment_ms,
           bool_and(environment_cached::boolean) as environment_cached
      from told
),
given as materialized (
    select coalesce(jsonb_object_agg(case when $has_one_task then name else task_index || '/' || name end, port), '{}')
               as ports
      from (select leases.task_index, each.key as name, each.value as port
              from holdfast.leases cross join lateral jsonb_each(leases.ports) as each
             where leases.job_id = $job_id and leases.placed and not leases.ending
             order by leases.task_index, each.key limit $ports_max) as held
)
select counted.failure_count, counted.preemption_count, used.*, given.ports::text, counted.result
  from counted, used, given;
