"""The states of tasks and jobs, with the names and numbers of the specification."""

from enum import IntEnum

from holdfast.errors import Invalid


class TaskState(IntEnum):
    """Where a task or an attempt stands; job states carry the same names and numbers."""

    PENDING = 1
    BUILDING = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    KILLED = 6
    WORKER_FAILED = 7
    UNSCHEDULABLE = 8
    ASSIGNED = 9
    DEAD_LETTERED = 10


JobState = TaskState

OPEN_STATES = frozenset({TaskState.ASSIGNED, TaskState.BUILDING, TaskState.RUNNING})
LIVE_STATES = OPEN_STATES | {TaskState.PENDING}
ENDED_STATES = frozenset(TaskState) - LIVE_STATES
# Those in which an attempt can end.
OUTCOME_STATES = frozenset(
    {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED, TaskState.WORKER_FAILED}
)

# Every end but the good one: also KILLED, in which a job ends that ran out of time.
UNSUCCESSFUL_STATES = ENDED_STATES - {TaskState.SUCCEEDED}
_SETS = {"UNSUCCESSFUL": UNSUCCESSFUL_STATES}

_ALIASES = {
    "QUEUED": "PENDING",
    "COMPLETED": "SUCCEEDED",
    "CANCELED": "KILLED",
    "CANCELLED": "KILLED",
}


def read_state_name(text: str) -> str:
    """Read a name of a state in either case, bare or with its prefix, or that of other systems."""
    name = text.upper().removeprefix("TASK_STATE_").removeprefix("JOB_STATE_")
    return _ALIASES.get(name, name)


def parse_state(text: str, field: str = "state") -> TaskState:
    """Read a state's name: bare or with its TASK_STATE_ or JOB_STATE_ prefix, in either case."""
    name = read_state_name(text)
    if name in TaskState.__members__:
        return TaskState[name]
    known = ", ".join(state.name for state in TaskState)
    raise Invalid(field, f"{text!r} is not a state; use one of {known}")


def parse_states(text: str, field: str = "state") -> frozenset[TaskState]:
    """Read names of states with commas between them; `unsuccessful` is all ends but SUCCEEDED."""
    states: set[TaskState] = set()
    for name in text.split(","):
        known = _SETS.get(name.strip().upper())
        if known is not None:
            states |= known
            continue
        try:
            states.add(parse_state(name.strip(), field))
        except Invalid as error:
            raise Invalid(field, f"{error.problem}, or unsuccessful") from error
    return frozenset(states)
