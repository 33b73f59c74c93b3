"""What workers are told of a job, claimed or placed."""

from holdfast.store.specs import StoredSpec
from holdfast.wire.answers import ClaimedJob


def describe_job(job_id: int, stored: StoredSpec) -> ClaimedJob:
    """Take from a job's spec what a worker needs to run its tasks."""
    spec, terms = stored.spec, stored.terms
    return ClaimedJob(
        str(job_id),
        stored.name,
        terms.type,
        spec.entrypoint,
        stored.num_tasks,
        terms.lease,
        terms.grace,
        stored.correlation_id,
        terms.queue,
        terms.timeout,
        spec.environment,
        stored.trace_id,
        spec.replicas is None,
        None if stored.compensates_job_id is None else str(stored.compensates_job_id),
        stored.trace_parent,
        spec.outputs,
        spec.resources,
    )
