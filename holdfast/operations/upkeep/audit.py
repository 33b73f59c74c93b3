"""Replay the events of the whole ledger against its tables, and report every broken invariant.

Everything is read from one snapshot, in a few passes that the database makes; what comes back is
damage alone, through a cursor. Only the state of jobs is derived here, by the rule that all writers
use. Nobody waits for an audit, and an audit waits for nobody.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from holdfast.model.work.outcomes import NOT_RETRYABLE
from holdfast.model.work.states import ENDED_STATES, JobState, TaskState
from holdfast.rules.job_state import job_state
from holdfast.rules.lifecycle import EVENT_TYPES, LEGAL_JOB_MOVES, RANK, successors_mask
from holdfast.rules.placement.scheduler import UNSTARTED_MAX
from holdfast.store.audit import (
    AuditedJob,
    AuditRules,
    begin_audit,
    find_damage,
    read_job_counts,
)
from holdfast.store.database import Database

_TASK_KINDS = {kind: int(state) for state, kind in EVENT_TYPES.items()} | {
    "placed": int(TaskState.ASSIGNED)
}
_JOB_KINDS: dict[str, int | None] = {
    "submitted": int(JobState.PENDING),
    "started": int(JobState.RUNNING),
    **{EVENT_TYPES[state]: int(state) for state in LEGAL_JOB_MOVES[JobState.RUNNING]},
    # Events that are not moves.
    "cancel_requested": None,
    "replayed": None,
    "compensated": None,
}
# The rules of a job's end in their order. A job that ended early keeps its state, and an attempt
# that ends afterwards may complete the condition of a rule before the one that ended the job.
_EARLY_ENDS = (
    JobState.FAILED,
    JobState.DEAD_LETTERED,
    JobState.UNSCHEDULABLE,
    JobState.KILLED,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken invariant: its name, the job, task, attempt or worker, and what was seen."""

    invariant: str
    subject: str
    detail: str


async def audit(database: Database) -> AsyncIterator[Finding]:
    """Report every broken invariant of the ledger as it stands at this moment."""
    async with database.snapshot() as tx:
        await begin_audit(tx)
        async for damage in find_damage(tx, list_rules()):
            yield Finding(damage.invariant, _subject(*damage[1:4]), damage.detail)
        async for job in read_job_counts(tx):
            finding = _check_job_state(job)
            if finding is not None:
                yield finding


def list_rules() -> AuditRules:
    """Say what the rules have to say in the passes of an audit."""
    return AuditRules(
        task_events=_TASK_KINDS,
        job_events=_JOB_KINDS,
        task_successors=_by_state({state: successors_mask(state) for state in TaskState}),
        task_ranks=_by_state(dict(RANK)),
        job_successors=_by_state(
            {state: sum(1 << to for to in ends) for state, ends in LEGAL_JOB_MOVES.items()}
        ),
        not_retryable=sorted(NOT_RETRYABLE),
        unstarted_max=UNSTARTED_MAX,
    )


def _by_state(numbers: dict[TaskState, int]) -> list[int]:
    """Put one number per state where SQL finds it: at the state's own number, from 0."""
    known = {int(state): number for state, number in numbers.items()}
    return [known.get(state, 0) for state in range(max(TaskState) + 1)]


def _subject(*parts: int | str | None) -> str:
    return ".".join(str(part) for part in parts if part is not None)


def _check_job_state(job: AuditedJob) -> Finding | None:
    """Compare a job's state with what its counts say, as far as they can still say it."""
    state, cancel = job.state, job.cancel_mode
    derived = job_state(
        job.counts,
        fan_out=job.fan_out,
        max_task_failures=job.max_task_failures,
        cancel=cancel,
        has_started=job.has_started,
    )
    waited_for_all = cancel == "soft" or (job.fan_out and job.max_task_failures is None)
    if derived == state:
        return None
    if state in _EARLY_ENDS and not waited_for_all:
        if derived in _EARLY_ENDS[: _EARLY_ENDS.index(JobState(state))]:
            return None
    elif state not in ENDED_STATES and cancel == "hard" and job.sweeping:
        # A hard cancel ends some jobs by the counts they had before; the sweep is about to do so.
        return None
    return Finding(
        "job_state_differs_from_its_counts",
        str(job.job_id),
        f"the job is in state {state}; its counts make it {derived.name}",
    )
