"""Lock order as a model: each operation as its sequence of locks; a cycle is a counterexample.

A sequence names what a transaction locks, in its order, and holds to its end. What it passes when
somebody holds it (SKIP LOCKED, a row of its own making) is marked by `~`: it is held like the rest,
but nobody waits there, so it is no way into a cycle. Rows of one table are locked by their keys.

`tests/protocol/test_locks.py` has each operation run in a real database and compares what it waits
for, and what it holds meanwhile, with what stands here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# docs/architecture.md, "Locks": everybody locks in this order.
ORDER = (
    "schedules", "leadership", "workers", "chains", "outbox", "dead_letters", "limits lock",
    "dependencies", "tasks", "waiting", "usage_limits", "leases", "limit_buckets", "expiries",
    "share_rules", "shares", "datasets", "dataset_versions", "attempts", "signal_waits", "undos",
    "jobs", "job_states",
)  # fmt: skip

# Rows of these are not locked by their keys, and why nobody waits in a circle for all that.
UNORDERED = {
    "shares": "who moves the turns of shares holds their rule; others hold them with KEY SHARE",
}

# These cannot be in order: which jobs they lock they only find out while they hold others. A circle
# needs three of them at once, or a claim of two of the jobs; it is undone after 250 ms.
OUT_OF_ORDER = {
    "resume": "holds what its new jobs wait for, then what they run again, which may be earlier",
    "replace_unique": "takes key after key, and for each the job that gives way for it",
}

OPERATIONS: Mapping[str, str] = {
    # claimed work
    "submit": "",
    "claim": "limits lock, ~ready, ~tasks, jobs",
    "claim_by_id": "limits lock, ~ready, tasks, jobs",
    "turn": "limits lock, tasks, leases, ~ready, jobs",
    "turn_with_failure": "tasks, leases, jobs",
    "report": "tasks, jobs",
    "renew": "",
    "complete": "tasks, leases, jobs, job_states",
    "complete_failed": "tasks, leases, jobs",
    "cancel_job": "jobs",
    "cancel_task": "tasks, leases, jobs",
    "cancel_pending_task": "~ready, tasks, jobs",
    "dead_letter": "tasks, leases, jobs",
    "register": "workers",
    "complete_by_sql": "tasks, leases, jobs",
    "publish": "leases",
    "follow_up": "~outbox, ~ready, ~tasks, leases, jobs, job_states",
    "requeue": "",
    "reap": "~leases, ~tasks, attempts, jobs",
    "expire": "~ready, tasks, expiries, jobs, job_states",
    "give_up": "~ready, ~tasks, jobs, job_states",
    "claim_sized": "limits lock, ~ready, tasks, jobs, job_states",
    # limits
    "claim_limited": "limits lock, ~ready, ~tasks, usage_limits, jobs, job_states",
    "claim_limited_again": "limits lock, ~ready, ~tasks, limit_buckets, jobs",
    "complete_limited": "tasks, leases, ~gated, jobs",
    "fail_limited": "tasks, leases, ~gated, jobs",
    "cancel_gated": "~ready, tasks, jobs",
    "put_limit": "limits lock, usage_limits, leases",
    "delete_limit": "limits lock, usage_limits, leases, limit_buckets",
    "keep_for_gang": "limits lock, limit_buckets",
    "follow_clock": "limits lock",
    "clear_gated": "",
    # shares
    "share": "",
    "sort_shares": "",
    "submit_shared": "shares",
    "claim_shared": "limits lock, share_rules, ~gated, ~tasks, shares, jobs, job_states",
    "complete_shared": "tasks, leases, jobs",
    # order
    "submit_dependent": "limits lock, jobs",
    "submit_released": "limits lock, jobs",
    "submit_child": "limits lock, jobs",
    "submit_chained": "chains, limits lock, jobs",
    "submit_chained_by_sql": "chains, limits lock, jobs",
    "let_pass": "limits lock, dependencies, jobs",
    "complete_awaited": "tasks, leases, jobs, job_states",
    "compensate": "outbox, limits lock, undos",
    "end_undo": "~outbox, undos, jobs",
    # again
    "discard": "dead_letters",
    "replay": "dead_letters, limits lock, jobs",
    "rerun": "limits lock, jobs",
    # signals
    "wait_for_signal": "tasks",
    "park": "tasks, leases, signal_waits, jobs",
    "send_signal": "tasks, waiting",
    "send_signal_by_sql": "tasks, waiting",
    "follow_up_end": "~outbox, limits lock, dependencies, jobs",
    "release_dependents": "~outbox, limits lock, dependencies, jobs",
    # datasets
    "submit_output": "limits lock, dataset_versions",
    "submit_output_anew": "limits lock, datasets",
    "complete_output": "tasks, leases, dataset_versions, jobs, job_states",
    "cut_over": "datasets, dataset_versions",
    "drop_version": "datasets, dataset_versions",
    "open_version": "datasets",
    # schedules
    "fire": "~schedules, limits lock",
    "set_schedule": "schedules",
    # placed work
    "place": "leadership, workers, limits lock, ~ready, ~tasks, jobs, job_states",
    "end_undelivered": "leadership, tasks, leases, jobs",
    "store_answers": "leadership, workers",
    "count_failures": "leadership, workers",
    "fail_gang": "tasks, leases, jobs, job_states",
    "lose_worker": "tasks, leases, jobs",
    "adopt": "leases",
}

# One rule broken each: what the check has to find.
BROKEN: Mapping[str, Mapping[str, str]] = {
    "JOB_BEFORE_ITS_TASKS": {"complete": "jobs, tasks, leases"},
    "LEASE_BEFORE_TASK": {"complete": "leases, tasks, jobs"},
    "LIMITS_AFTER_TASKS": {"claim_by_id": "tasks, ~ready, limits lock, jobs"},
    "SLOTS_BEFORE_THE_LIMIT": {"delete_limit": "limits lock, leases, usage_limits, limit_buckets"},
    "LIMITS_AFTER_JOBS": {"release_dependents": "dependencies, jobs, limits lock"},
    "CHAIN_AFTER_LIMITS": {"submit_chained_by_sql": "limits lock, chains, jobs"},
    "CANCEL_WAITS_FOR_READY": {"cancel_pending_task": "tasks, ready, jobs"},
    "VERSION_BEFORE_DATASET": {"cut_over": "dataset_versions, datasets"},
    "CHORE_WAITS_FOR_TASKS": {"follow_up": "outbox, jobs, tasks"},
}


@dataclass(frozen=True, slots=True)
class Lock:
    """One lock of a sequence; `waits` says that the transaction waits for whoever holds it."""

    name: str
    waits: bool = True


@dataclass(frozen=True, slots=True)
class Edge:
    """An operation holds one lock while it waits for another."""

    operation: str
    held: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.operation} holds {self.held} and waits for {self.wanted}"


def parse(text: str) -> list[Lock]:
    """Read a sequence."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [Lock(name.removeprefix("~"), not name.startswith("~")) for name in names]


def list_edges(operations: Mapping[str, str]) -> list[Edge]:
    """List who may wait for what while holding what."""
    edges = []
    for operation, text in operations.items():
        locks = parse(text)
        for place, wanted in enumerate(locks):
            if wanted.waits:
                edges += [Edge(operation, held.name, wanted.name) for held in locks[:place]]
    return edges


def find_cycle(operations: Mapping[str, str]) -> list[Edge]:
    """Find a shortest circle of transactions, each of which waits for the next; empty if none."""
    leaving: dict[str, list[Edge]] = {}
    for edge in list_edges(operations):
        leaving.setdefault(edge.held, []).append(edge)
    found = [cycle for start in sorted(leaving) if (cycle := _find_way_back(start, leaving))]
    return min(found, key=len, default=[])


def _find_way_back(start: str, leaving: Mapping[str, list[Edge]]) -> list[Edge]:
    ways: list[list[Edge]] = [[edge] for edge in leaving[start]]
    seen: set[str] = set()
    for way in ways:  # grows as it is walked: breadth first
        last = way[-1].wanted
        if last == start:
            return way
        if last not in seen:
            seen.add(last)
            ways += [[*way, edge] for edge in leaving.get(last, [])]
    return []


def list_disorder(operations: Mapping[str, str]) -> Iterator[str]:
    """Say which operations do not wait for locks in the order of all."""
    places = {name: place for place, name in enumerate(ORDER)}
    for operation, text in operations.items():
        names = [lock.name for lock in parse(text) if lock.waits]
        if names != sorted(names, key=places.__getitem__):
            yield f"{operation} locks {', '.join(names)}, which is not the order of all"


def break_rule(variant: str) -> dict[str, str]:
    """Give the operations with one of them broken."""
    return {**OPERATIONS, **BROKEN[variant]}
