"""Under which terms a job was submitted: until when, as the only one of its kind, by a schedule."""

from datetime import datetime
from typing import NamedTuple

from holdfast.model.submitting.schedules import FiringKind
from holdfast.store.database import Transaction
from holdfast.store.reads.work.jobs import JobRow
from holdfast.store.statements import load_statements

_TERMS = load_statements("reads/work/terms")
# Most specs have none of these, and nothing is looked up; what has one may still have no terms.
_SIGNS = ('"unique"', '"expires"', '"expires_at"', '"HOLDFAST_SCHEDULE"')


class TermsRow(NamedTuple):
    """When a job expires, the unique key that it holds, and which instant of a schedule it is."""

    expires_at: datetime | None = None
    unique_key: str | None = None
    schedule: str | None = None
    instant: datetime | None = None
    kind: FiringKind | None = None


async def find_terms(tx: Transaction, job: JobRow) -> TermsRow:
    """Read the terms of a job that comes with its spec."""
    assert job.spec is not None, "by its spec is known whether there are any"
    if not any(sign in job.spec for sign in _SIGNS):
        return TermsRow()
    row = await tx.fetch_one(_TERMS["find_terms"], job_id=job.job_id)
    return TermsRow() if row is None else TermsRow._make(row)
