"""What an audit reads: passes over the whole ledger, made by the database, that find damage."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.model.work.outcomes import CancelMode
from holdfast.rules.job_state import JobCounts
from holdfast.store.database import Transaction
from holdfast.store.statements import Statement, load_statements
from holdfast.store.tables.upkeep.partitions import list_retired_partitions

_AUDIT = load_statements("audit/ledger")
_JOBS = load_statements("audit/jobs")
_CLUSTER = load_statements("audit/cluster")
_POLICIES = load_statements("submitting/policies")
_DATASETS = load_statements("audit/datasets")
_ORDER = load_statements("audit/order")
_UNDO = load_statements("audit/undo")
_SCHEDULES = load_statements("audit/schedules")
_SIGNALS = load_statements("audit/signals")
_UNIQUE = load_statements("submitting/unique")
_LIMITS = load_statements("audit/limits")
_EXPIRIES = load_statements("submitting/expiries")

ROWS_AHEAD_MAX = 1000
PASS_SECONDS_MAX = 24 * 3600.0


class AuditRules(NamedTuple):
    """What the rules say; numbers by state stand at the state's own number, from 0."""

    # The state that an event of a task, or of a job, leads to.
    task_events: Mapping[str, int]
    job_events: Mapping[str, int | None]
    task_successors: Sequence[int]
    task_ranks: Sequence[int]
    job_successors: Sequence[int]
    not_retryable: Sequence[str]
    unstarted_max: int


class Damage(NamedTuple):
    """One broken invariant: its name, the job or worker, task and attempt, and what was seen."""

    invariant: str
    owner: int | str | None
    task_index: int | None
    attempt: int | None
    detail: str


class AuditedJob(NamedTuple):
    """A job's state, and what it should follow from."""

    job_id: int
    state: int
    cancel_mode: CancelMode | None
    fan_out: bool
    max_task_failures: int | None
    has_started: bool
    sweeping: bool
    counts: JobCounts


async def begin_audit(tx: Transaction) -> None:
    """Keep retention from dropping anything meanwhile, and get ready for long passes."""
    await tx.fetch(_AUDIT["hold_ledger"])
    await tx.fetch(_AUDIT["prepare_passes"])


async def find_damage(tx: Transaction, rules: AuditRules) -> AsyncIterator[Damage]:
    """Make every pass and yield what it finds; jobs that are being pruned may be there in part."""
    pruned = await list_retired_partitions(tx)
    for statement, values in _passes(rules):
        async for row in _stream(tx, statement, values):
            damage = Damage._make(row)
            if not any(damage.owner in range(*partition) for partition in pruned):
                yield damage


async def read_job_counts(tx: Transaction) -> AsyncIterator[AuditedJob]:
    """Yield every job with its counts."""
    async for row in _stream(tx, _JOBS["read_job_counts"], {}):
        job_id, state, cancel, fan_out, tolerated, has_started, sweeping, *counts = row
        yield AuditedJob(
            job_id,
            state,
            cancel,
            fan_out,
            tolerated,
            has_started,
            sweeping,
            JobCounts._make(counts),
        )


def _passes(rules: AuditRules) -> list[tuple[Statement, dict[str, Any]]]:
    task_events = {
        "types": list(rules.task_events),
        "states": list(rules.task_events.values()),
    }
    job_events = {"types": list(rules.job_events), "states": list(rules.job_events.values())}
    task_moves = {"successors": rules.task_successors, "ranks": rules.task_ranks}
    job_moves = {"successors": rules.job_successors}
    return [
        (_AUDIT["replay_task_events"], task_events | task_moves),
        (_AUDIT["compare_events_with_tasks"], {}),
        (_AUDIT["compare_tasks_with_events"], task_events),
        (_AUDIT["compare_attempts_with_events"], task_events),
        (_AUDIT["check_budgets"], {"not_retryable": rules.not_retryable}),
        (_AUDIT["check_leases"], {}),
        (_AUDIT["check_dead_letters"], {}),
        (_AUDIT["check_ready"], {}),
        (_SIGNALS["check_waiting"], {}),
        (_AUDIT["check_lines"], {}),
        (_AUDIT["check_sweeps"], {}),
        (_JOBS["replay_job_events"], job_events | job_moves),
        (_JOBS["compare_jobs_with_events"], job_events),
        (_JOBS["compare_counts_with_tasks"], {}),
        (_JOBS["check_children"], {}),
        (_JOBS["check_continuations"], {}),
        (_JOBS["check_outbox"], {}),
        (_JOBS["check_actors"], {}),
        (_JOBS["check_notes"], {}),
        (_JOBS["compare_jobs_with_their_lists"], {}),
        (_CLUSTER["check_capacity"], {"unstarted_max": rules.unstarted_max}),
        (_CLUSTER["check_placed_leases"], {}),
        (_CLUSTER["check_ports"], {}),
        (_CLUSTER["check_devices"], {}),
        (_CLUSTER["check_accounts"], {}),
        (_CLUSTER["check_gangs"], {}),
        (_POLICIES["check_policies"], {}),
        (_UNIQUE["check_unique_keys"], {}),
        (_EXPIRIES["check_expiries"], {}),
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
        (_ORDER["check_chains"], {}),
        (_LIMITS["check_limits"], {}),
        (_LIMITS["check_held_slots"], {}),
        (_LIMITS["check_gated"], {}),
        (_UNDO["check_undos"], {}),
        (_UNDO["check_compensations"], {}),
        (_UNDO["check_order_of_undos"], {}),
        (_SCHEDULES["check_firings"], {}),
        (_SCHEDULES["check_misses"], {}),
        (_SIGNALS["check_signals"], {}),
        (_SIGNALS["check_parked"], {}),
    ]


def _stream(tx: Transaction, statement: Statement, values: dict[str, Any]) -> AsyncIterator[Any]:
    return tx.stream(statement, rows_ahead=ROWS_AHEAD_MAX, seconds_max=PASS_SECONDS_MAX, **values)
