"""Store small jobs that refer to no other by one call of the database, ids and commit included.

What cannot be stored like this goes the long way: where a key was seen before, where policies have
changed, and where the ids have no partition yet.

A few tasks for a queue that somebody waits for are given to him by the same call
(`holdfast.ledger.lending`): that spares a commit, and the way there through a ring.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from holdfast.errors import Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.lending import Loan
from holdfast.ledger.news import News, StoredJob, after_commit
from holdfast.model.submitting.spec import Submission
from holdfast.operations.claiming.claim import read_claims
from holdfast.operations.claiming.turn import Claiming
from holdfast.operations.submitting.admit import describe_admitted
from holdfast.operations.submitting.store import (
    CHUNK_TASKS_MAX,
    Submitted,
    row_of,
    tasks_in_line,
)
from holdfast.store.database import LockTimeout
from holdfast.store.tables.submitting.new_jobs import (
    NewJob,
    StoredJobs,
    TasksInLine,
    store_jobs_at_once,
)
from holdfast.store.tables.submitting.policies import PolicyBook
from holdfast.store.tables.work.turns import TakenTurn, store_and_take

# Beyond that a ring is cheaper: the job would wait for all that is claimed.
GIVEN_TASKS_MAX = 10

# What the database gives out and says as it stores them.
_NO_ID, _NO_TIME = 0, datetime.fromtimestamp(0, UTC)


def can_be_at_once(submission: Submission) -> bool:
    """Tell whether a job can be stored by one call: it needs nothing that is there, or later."""
    spec = submission.spec
    refers = spec.depends_on or spec.outputs or spec.chain or submission.parent_job_id is not None
    is_paced = spec.start_rate is not None or spec.start_delay is not None
    return (
        not (refers or is_paced)
        and spec.not_before is None
        and spec.unique is None
        and submission.compensates_job_id is None
        and submission.num_tasks <= CHUNK_TASKS_MAX
    )


async def store_at_once(
    ledger: Ledger, submissions: Mapping[int, Submission], policies: PolicyBook
) -> dict[int, Submitted]:
    """Store jobs, at least one, by position; those that have to go the long way are left out."""
    if not ledger.partitions_end:
        return {}  # nobody has looked yet; ids would be given out for nothing
    jobs = [describe_admitted(each, _NO_ID, _NO_TIME) for each in submissions.values()]
    rows = [row_of(job)._replace(job_id=None) for job in jobs]
    num_tasks = sum(row.num_tasks for row in rows)
    with _borrow(ledger, rows, num_tasks) as loan:
        # No more than is stored: a token for each slot of a worker would be made for nothing.
        claiming = None if loan is None else Claiming(ledger, [loan.request], tasks_max=num_tasks)
        stored, taken = await _store(
            ledger, rows, tasks_in_line(jobs), version=policies.version, claiming=claiming
        )
        if not stored.job_ids:
            return {}
        given = _group_given(taken)
        news = News()
        answers: dict[int, Submitted] = {}
        for position, job, row, job_id in zip(submissions, jobs, rows, stored.job_ids, strict=True):
            if job_id is not None:
                mine = frozenset(given.get(job_id, ()))
                ready = job.num_tasks - len(mine)
                news.stored_jobs.append(StoredJob(job_id, job.num_tasks, ready, job.stored(), mine))
                row_with_id = row._replace(job_id=job_id)
                answers[position] = Submitted(
                    job_id, is_new=True, row=row_with_id, at=stored.stored_at
                )
        ledger.tell(news)
        if loan is not None and claiming is not None and taken is not None:
            with after_commit():
                [claims] = read_claims(await claiming.read(taken), 1)
                if claims:
                    loan.give(claims)
    return answers


def _group_given(taken: TakenTurn | None) -> dict[int, list[int]]:
    """Group the tasks that were given by their jobs, of which some may have been there before."""
    given: dict[int, list[int]] = defaultdict(list)
    if taken is not None:
        for job_id, index in zip(taken.job_ids or (), taken.task_indexes or (), strict=True):
            given[job_id].append(index)
    return given


@contextmanager
def _borrow(ledger: Ledger, rows: Sequence[NewJob], num_tasks: int) -> Iterator[Loan | None]:
    """Borrow the claim of somebody who waits for these jobs, if they are few and of one queue."""
    queue = rows[0].queue
    is_one = queue is not None and all(row.queue == queue for row in rows)
    if queue is None or not is_one or num_tasks > GIVEN_TASKS_MAX or queue in ledger.sized_queues:
        yield None
        return
    with ledger.lending.borrow(queue) as loan:
        yield loan


async def _store(
    ledger: Ledger,
    rows: Sequence[NewJob],
    tasks: TasksInLine,
    *,
    version: int,
    claiming: Claiming | None,
) -> tuple[StoredJobs, TakenTurn | None]:
    """Store jobs and answer a claim; if the claim is in the way, store the jobs alone."""
    under: dict[str, Any] = {"policies_version": version, "partitions_end": ledger.partitions_end}
    if claiming is not None:
        try:
            return await store_and_take(
                ledger.database, rows, tasks, asking=claiming.asking, **under, **claiming.terms
            )
        except Exception as error:
            # Of the claim nothing is lost: the poller asks by itself, and is told what is wrong.
            # What is wrong with the jobs is raised below, where they are stored alone.
            if isinstance(error, Unavailable) and not isinstance(error, LockTimeout):
                raise  # perhaps it is stored
    return await store_jobs_at_once(ledger.database, rows, tasks, **under), None
