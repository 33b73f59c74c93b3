"""Replay the events of the whole ledger against its tables, and report every broken invariant.

Everything is read from one snapshot, in a few passes that the database makes; what comes back is
damage alone, through a cursor. Only the state of jobs is derived here, by the rule that all writers
use. Nobody waits for an audit, and an audit waits for nobody.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from holdfast.model.states import ENDED_STATES, JobState, TaskState
from holdfast.rules.job_state import JobCounts, job_state
from holdfast.rules.lifecycle import EVENT_TYPES, LEGAL_JOB_MOVES, RANK, successors_mask
from holdfast.rules.placement import UNSTARTED_MAX
from holdfast.rules.retry import NOT_RETRYABLE
from holdfast.store.database import Database, Transaction
from holdfast.store.statements import Statement, load_statements

_AUDIT = load_statements("audit")
_JOBS = load_statements("audit_jobs")
_CLUSTER = load_statements("audit_cluster")
_POLICIES = load_statements("policies")
_DATASETS = load_statements("audit_datasets")
_ORDER = load_statements("audit_order")
_UNDO = load_statements("audit_undo")

ROWS_AHEAD_MAX = 1000
PASS_SECONDS_MAX = 24 * 3600.0

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
        await tx.fetch(_AUDIT["hold_ledger"])
        await tx.fetch(_AUDIT["prepare_passes"])
        for statement, values in _passes():
            async for row in _stream(tx, statement, values):
                yield Finding(row[0], _subject(*row[1:4]), row[4])
        async for row in _stream(tx, _JOBS["read_job_counts"], {}):
            finding = _check_job_state(row)
            if finding is not None:
                yield finding


def _passes() -> list[tuple[Statement, dict[str, Any]]]:
    """List the statements that find damage, with what the rules have to say in each."""
    task_kinds = {"types": list(_TASK_KINDS), "states": list(_TASK_KINDS.values())}
    job_kinds = {"types": list(_JOB_KINDS), "states": list(_JOB_KINDS.values())}
    task_moves = {
        "successors": _by_state({state: successors_mask(state) for state in TaskState}),
        "ranks": _by_state(dict(RANK)),
    }
    job_moves = {
        "successors": _by_state(
            {state: sum(1 << to for to in ends) for state, ends in LEGAL_JOB_MOVES.items()}
        )
    }
    return [
        (_AUDIT["replay_task_events"], task_kinds | task_moves),
        (_AUDIT["compare_events_with_tasks"], {}),
        (_AUDIT["compare_tasks_with_events"], task_kinds),
        (_AUDIT["compare_attempts_with_events"], task_kinds),
        (_AUDIT["check_budgets"], {"not_retryable": sorted(NOT_RETRYABLE)}),
        (_AUDIT["check_leases"], {}),
        (_AUDIT["check_dead_letters"], {}),
        (_AUDIT["check_ready"], {}),
        (_AUDIT["check_waiting"], {}),
        (_AUDIT["check_lines"], {}),
        (_AUDIT["check_sweeps"], {}),
        (_JOBS["replay_job_events"], job_kinds | job_moves),
        (_JOBS["compare_jobs_with_events"], job_kinds),
        (_JOBS["compare_counts_with_tasks"], {}),
        (_JOBS["check_children"], {}),
        (_JOBS["check_outbox"], {}),
        (_JOBS["compare_jobs_with_their_lists"], {}),
        (_CLUSTER["check_capacity"], {"unstarted_max": UNSTARTED_MAX}),
        (_CLUSTER["check_placed_leases"], {}),
        (_CLUSTER["check_ports"], {}),
        (_CLUSTER["check_accounts"], {}),
        (_CLUSTER["check_gangs"], {}),
        (_POLICIES["check_policies"], {}),
        (_DATASETS["check_entries"], {}),
        (_DATASETS["check_commits"], {}),
        (_DATASETS["check_versions"], {}),
        (_DATASETS["check_current_versions"], {}),
        (_DATASETS["check_cut_overs"], {}),
        (_DATASETS["check_trigger_runs"], {}),
        (_ORDER["check_dependencies"], {}),
        (_ORDER["check_dependents"], {}),
        (_ORDER["check_order_of_starts"], {}),
        (_ORDER["check_held_lines"], {}),
        (_UNDO["check_undos"], {}),
        (_UNDO["check_compensations"], {}),
        (_UNDO["check_order_of_undos"], {}),
    ]


def _by_state(numbers: dict[TaskState, int]) -> list[int]:
    """Put one number per state where SQL finds it: at the state's own number, from 0."""
    known = {int(state): number for state, number in numbers.items()}
    return [known.get(state, 0) for state in range(max(TaskState) + 1)]


def _stream(tx: Transaction, statement: Statement, values: dict[str, Any]) -> AsyncIterator[Any]:
    return tx.stream(statement, rows_ahead=ROWS_AHEAD_MAX, seconds_max=PASS_SECONDS_MAX, **values)


def _subject(*parts: int | str | None) -> str:
    return ".".join(str(part) for part in parts if part is not None)


def _check_job_state(row: Any) -> Finding | None:
    """Compare a job's state with what its counts say, as far as they can still say it."""
    job_id, state, cancel, fan_out, max_task_failures, has_started, sweeping, *counts = row
    derived = job_state(
        JobCounts(*counts),
        fan_out=fan_out,
        max_task_failures=max_task_failures,
        cancel=cancel,
        has_started=has_started,
    )
    waited_for_all = cancel == "soft" or (fan_out and max_task_failures is None)
    if derived == state:
        return None
    if state in _EARLY_ENDS and not waited_for_all:
        if derived in _EARLY_ENDS[: _EARLY_ENDS.index(state)]:
            return None
    elif state not in ENDED_STATES and cancel == "hard" and sweeping:
        # A hard cancel ends some jobs by the counts they had before; the sweep is about to do so.
        return None
    return Finding(
        "job_state_differs_from_its_counts",
        str(job_id),
        f"the job is in state {state}; its counts make it {derived.name}",
    )
