-- Events with what is the same for all events of a job.

create or replace view holdfast.event_log as
select events.id, events.job_id, events.task_index, events.attempt, events.seq, events.type, events.ts,
       events.actor, jobs.correlation_id, jobs.trace_id, events.cause, events.payload, 1 as version,
       events.txid
  from holdfast.events join holdfast.jobs using (job_id);
