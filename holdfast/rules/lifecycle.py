"""The one table of legal moves.

The schema's guard, the diagram in the docs and the audit are all made from, or compared with, it.
"""

from types import MappingProxyType

from holdfast.model.work.states import TaskState

PENDING, BUILDING, RUNNING = TaskState.PENDING, TaskState.BUILDING, TaskState.RUNNING
SUCCEEDED, FAILED, KILLED = TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED
WORKER_FAILED, UNSCHEDULABLE = TaskState.WORKER_FAILED, TaskState.UNSCHEDULABLE
ASSIGNED, DEAD_LETTERED = TaskState.ASSIGNED, TaskState.DEAD_LETTERED

# A task whose `finished_at` is set never moves again, whatever this table says.
LEGAL_MOVES = MappingProxyType(
    {
        PENDING: frozenset({ASSIGNED, KILLED, UNSCHEDULABLE, DEAD_LETTERED}),
        ASSIGNED: frozenset({BUILDING, RUNNING, FAILED, KILLED, WORKER_FAILED}),
        BUILDING: frozenset({RUNNING, FAILED, KILLED, WORKER_FAILED}),
        RUNNING: frozenset({SUCCEEDED, FAILED, KILLED, WORKER_FAILED}),
        FAILED: frozenset({PENDING, DEAD_LETTERED}),
        WORKER_FAILED: frozenset({PENDING, DEAD_LETTERED}),
        KILLED: frozenset({DEAD_LETTERED}),
        SUCCEEDED: frozenset[TaskState](),
        UNSCHEDULABLE: frozenset[TaskState](),
        DEAD_LETTERED: frozenset[TaskState](),
    }
)

LEGAL_JOB_MOVES = MappingProxyType(
    {
        PENDING: frozenset(
            {RUNNING, SUCCEEDED, FAILED, KILLED, WORKER_FAILED, UNSCHEDULABLE, DEAD_LETTERED}
        ),
        RUNNING: frozenset(
            {SUCCEEDED, FAILED, KILLED, WORKER_FAILED, UNSCHEDULABLE, DEAD_LETTERED}
        ),
    }
)

RANK = MappingProxyType(
    {
        PENDING: 0,
        ASSIGNED: 1,
        BUILDING: 2,
        RUNNING: 3,
        SUCCEEDED: 4,
        FAILED: 4,
        KILLED: 4,
        WORKER_FAILED: 4,
        DEAD_LETTERED: 5,
        UNSCHEDULABLE: 5,
    }
)

EVENT_TYPES = MappingProxyType(
    {
        PENDING: "retried",
        ASSIGNED: "claimed",  # "placed" where the scheduler chose the worker
        BUILDING: "building",
        RUNNING: "started",
        SUCCEEDED: "succeeded",
        FAILED: "failed",
        KILLED: "killed",
        WORKER_FAILED: "worker_failed",
        UNSCHEDULABLE: "unschedulable",
        DEAD_LETTERED: "dead_lettered",
    }
)


def successors_mask(state: TaskState) -> int:
    """Write a state's successors as bits, the way the schema's guard holds them."""
    return sum(1 << to for to in LEGAL_MOVES[state])


def is_ahead(reported: TaskState, recorded: TaskState) -> bool:
    """Tell whether a worker's report of an open attempt brings news."""
    return RANK[reported] > RANK[recorded]


def mermaid() -> str:
    """Draw the table as a Mermaid state diagram, for the docs."""
    lines = ["stateDiagram-v2", "    [*] --> PENDING"]
    for state, successors in LEGAL_MOVES.items():
        lines += [f"    {state.name} --> {to.name}" for to in sorted(successors)]
    ends = [state for state in LEGAL_MOVES if RANK[state] >= RANK[SUCCEEDED]]
    lines += [f"    {state.name} --> [*]" for state in sorted(ends)]
    return "\n".join(lines)
