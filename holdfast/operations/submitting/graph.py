"""Take in a graph: jobs that may wait for each other by local names, all together or not at all."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from holdfast.errors import Invalid, Refused, TooLarge, Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.operations.submitting.accept import accept, under_policies
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.store import Submitted, store_jobs
from holdfast.rules.submitting.order import dependencies_of, is_local, resolve, sort_graph
from holdfast.store.database import Transaction
from holdfast.store.tables.submitting.policies import PolicyBook
from holdfast.store.tables.work.jobs import Key, find_by_key

GRAPH_TRIES_MAX = 5


class _Overtaken(Exception):
    """A job of this graph was submitted elsewhere while its names were being resolved."""


async def submit_batch(ledger: Ledger, submissions: Sequence[Submission]) -> list[Submitted]:
    """Take in jobs all together or not at all; limited to what fits into one transaction.

    They may wait for each other, by their local names: then they are a graph.
    """
    if len(submissions) > ledger.limits.graph_jobs_max:
        raise TooLarge("specs", len(submissions), ledger.limits.graph_jobs_max, unit="jobs")
    order = sort_graph(submissions)
    return await under_policies(partial(_submit, ledger, submissions, order))


async def _submit(
    ledger: Ledger, submissions: Sequence[Submission], order: list[int]
) -> list[Submitted]:
    found, policies = await accept(ledger, submissions, in_graph=True)
    accepted: list[Submission] = []
    for answer in found:
        if isinstance(answer, Refused):
            raise answer
        accepted.append(answer)
    _refuse_unique(submissions)
    total = sum(submission.num_tasks for submission in accepted)
    if total > ledger.limits.batch_tasks_max:
        raise TooLarge("specs", total, ledger.limits.batch_tasks_max, unit="tasks")
    # Stored in the order of the graph, so that a job's id is above those of what it waits for.
    ordered = [accepted[position] for position in order]
    async with ledger.quotas.room_for(ordered):
        answers = await _store_in_order(ledger, ordered, policies)
    by_position = dict(zip(order, answers, strict=True))
    return [by_position[position] for position in range(len(submissions))]


async def _store_in_order(
    ledger: Ledger, submissions: list[Submission], policies: PolicyBook
) -> list[Submitted]:
    for _ in range(GRAPH_TRIES_MAX):
        jobs = await admit(ledger, submissions, policies)
        try:
            return await ledger.write(_store, jobs)
        except _Overtaken:
            continue
    raise Unavailable("jobs of this graph keep being submitted elsewhere; try again")


async def _store(_: Ledger, tx: Transaction, jobs: list[Admitted]) -> list[Submitted]:
    jobs, expected = await _resolve_names(tx, jobs)
    submitted: list[Submitted] = []
    for answer in await store_jobs(tx, jobs):
        if isinstance(answer, Refused):
            raise answer
        submitted.append(answer)
    met = {
        job.job_id
        for job, answer in zip(jobs, submitted, strict=True)
        if job.spec.unique is not None and not answer.is_new
    }
    if {answer.job_id for answer in submitted if answer.is_new} != expected - met:
        raise _Overtaken
    return submitted


def _refuse_unique(submissions: Sequence[Submission]) -> None:
    """Refuse unique jobs in a graph: who waits for one would wait for whatever has its key."""
    if not any(is_local(d.job) for each in submissions for d in dependencies_of(each.spec)):
        return
    for index, submission in enumerate(submissions):
        if submission.spec.unique is not None:
            raise Invalid(
                f"specs[{index}].unique", "goes with jobs that stand alone; leave it out of a graph"
            )


async def _resolve_names(tx: Transaction, jobs: list[Admitted]) -> tuple[list[Admitted], set[int]]:
    """Replace local names by ids; says which jobs must turn out to be new.

    A job whose key was seen before, in this graph or earlier, is the job of that time, also for
    those that wait for it.
    """
    keys = [job.key for job in jobs if job.spec.idempotency_key]
    known: dict[Key, int] = await find_by_key(tx, keys) if keys else {}
    job_ids: dict[int, int] = {}
    for job in jobs:
        is_keyed = job.spec.idempotency_key is not None
        job_ids[job.job_id] = known.setdefault(job.key, job.job_id) if is_keyed else job.job_id
    expected = {job_id for new_id, job_id in job_ids.items() if job_id == new_id}
    names = {
        job.submission.local_name: job_ids[job.job_id] for job in jobs if job.submission.local_name
    }
    is_graph = any(is_local(d.job) for job in jobs for d in dependencies_of(job.spec))
    graph_id = min(expected) if is_graph and expected else None
    given = (job.spec.correlation_id for job in jobs if job.spec.correlation_id)
    shared = next(given, jobs[0].correlation_id)
    return [
        replace(
            job,
            correlation_id=job.spec.correlation_id or shared if is_graph else job.correlation_id,
            submission=resolve(job.submission, names),
            graph_id=graph_id,
            siblings=frozenset(names[d.job] for d in dependencies_of(job.spec) if is_local(d.job))
            & expected,
        )
        for job in jobs
    ], expected
