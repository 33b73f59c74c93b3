"""Admit accepted submissions: each gets its id for good, and its names."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from holdfast.errors import Invalid
from holdfast.ledger.ledger import Ledger
from holdfast.model.access.actors import proven
from holdfast.model.submitting.spec import JobSpec, Submission
from holdfast.model.traces import name_trace
from holdfast.operations.upkeep.partitions import ensure_partitions
from holdfast.rules.submitting.submission import terms_of
from holdfast.store.specs import StoredSpec
from holdfast.store.tables.submitting.new_jobs import allocate_job_ids
from holdfast.store.tables.submitting.policies import PolicyBook, load_policies
from holdfast.store.tables.work.jobs import JobNames, Key, read_names

_NOBODY = JobNames(0, None, None)


@dataclass(frozen=True, slots=True)
class Admitted:
    """An accepted submission with the id that its job will have."""

    job_id: int
    submission: Submission
    # What the spec said, before a policy, a graph or a dataset changed it: a repeat says the same.
    asked: JobSpec
    correlation_id: str
    trace_id: str
    admitted_at: datetime
    num_tasks: int
    # Who has submitted it, if that is known; else its owner is said to have.
    actor: str | None = None
    graph_id: int | None = None
    # Those of its dependencies that are stored along with it, in the same transaction.
    siblings: frozenset[int] = frozenset()

    @property
    def spec(self) -> JobSpec:
        """Give the submission's spec."""
        return self.submission.spec

    @property
    def key(self) -> Key:
        """Give its owner and idempotency key."""
        return self.spec.owner, self.spec.idempotency_key

    def stored(self) -> StoredSpec:
        """Describe the job as the cache of specs keeps it: its first claim comes at once."""
        spec = self.spec
        return StoredSpec(
            spec,
            terms_of(spec, is_compensation=self.submission.compensates_job_id is not None),
            spec.name or "",
            self.num_tasks,
            self.correlation_id,
            self.trace_id,
            {},
            self.submission.compensates_job_id,
            self.submission.trace_parent,
        )

    @property
    def is_paced(self) -> bool:
        """Tell whether its tasks come to stand in line later, or one after the other."""
        spec = self.submission.spec
        return spec.start_rate is not None or spec.start_delay is not None

    def eligible_at(self, now: datetime) -> datetime:
        """Say when its tasks may first be claimed or placed."""
        if self.spec.not_before is None:
            return now
        return max(now, datetime.fromtimestamp(self.spec.not_before, UTC))


class PoliciesChanged(Exception):
    """Submissions were accepted under policies that no longer hold; the ledger has the new ones."""


async def admit(
    ledger: Ledger,
    submissions: Sequence[Submission],
    policies: PolicyBook | None = None,
    *,
    actor: str = "",
) -> list[Admitted]:
    """Give each submission an id, and make sure that a partition exists for it.

    Who submits again what was there before is named; of others the submission says it.
    Raises PoliciesChanged if they were accepted under policies that no longer hold.
    """
    if not submissions:
        raise Invalid("specs", "is empty; give at least one job")
    version = None if policies is None else policies.version
    allocated = await allocate_job_ids(ledger.database, len(submissions), version)
    if not allocated:
        ledger.policies = await load_policies(ledger.database)
        raise PoliciesChanged
    await ensure_partitions(ledger, allocated[-1].job_id)
    parents = await _find_parents(ledger, submissions)
    return [
        describe_admitted(
            submission,
            job_id,
            admitted_at,
            parent=parents.get(submission.parent_job_id, _NOBODY),
            actor=proven(actor),
        )
        for (job_id, admitted_at), submission in zip(allocated, submissions, strict=True)
    ]


def describe_admitted(
    submission: Submission,
    job_id: int,
    admitted_at: datetime,
    *,
    parent: JobNames = _NOBODY,
    actor: str | None = None,
) -> Admitted:
    """Give an accepted submission its id and its names."""
    spec = submission.spec
    return Admitted(
        job_id,
        submission,
        submission.plain or spec,
        spec.correlation_id or parent.correlation_id or str(uuid4()),
        name_trace(submission.trace_parent, spec.trace_id or parent.trace_id),
        admitted_at,
        submission.num_tasks,
        submission.actor or actor,
    )


async def _find_parents(
    ledger: Ledger, submissions: Sequence[Submission]
) -> dict[int | None, JobNames]:
    """Read what the parents of children are called: a child goes by the same names."""
    job_ids = {item.parent_job_id for item in submissions if item.parent_job_id is not None}
    if not job_ids:
        return {}
    async with ledger.database.transaction() as tx:
        return {names.job_id: names for names in await read_names(tx, job_ids)}
