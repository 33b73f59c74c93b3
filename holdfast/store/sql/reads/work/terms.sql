-- What people read of the terms under which a job was submitted.

-- name: find_terms
select expiries.expires_at, left(encode(unique_jobs.digest, 'hex'), 16), schedules.name, firings.instant, firings.kind
  from holdfast.jobs
  left join holdfast.expiries using (job_id)
  left join holdfast.unique_jobs using (job_id)
  left join holdfast.schedule_firings as firings using (job_id)
  left join holdfast.schedules using (schedule_id)
 where jobs.job_id = $job_id;
