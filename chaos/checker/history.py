"""What is known of a run once it is over: the work's record, what callers saw, and the tables.

Times are of the machine's monotonic clock but for those of events, which are the database's.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Any, NamedTuple


class State(IntEnum):
    """The states of tasks and jobs, as the specification numbers them."""

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


class Mark(NamedTuple):
    """A sign of life: `start`, `beat` or `end`."""

    task: str
    attempt: int
    kind: str
    at: float
    worker: str
    key: str | None = None


class Write(NamedTuple):
    """A guarded write that was let in; numbers are in the order in which that happened."""

    number: int
    task: str
    attempt: int


class Submitted(NamedTuple):
    """A job whose submission was acknowledged, and how it may end."""

    job_id: int
    kind: str
    at: float
    may_end: frozenset[State] = frozenset({State.SUCCEEDED})
    # What each task has to return, if it succeeds; empty where that is not known before.
    results: tuple[Any, ...] = ()
    # Jobs that have to have succeeded before any of its tasks begins.
    after: tuple[int, ...] = ()


class Seen(NamedTuple):
    """What a caller was told of a task, and between which instants he asked.

    A task that waits is in the attempt that comes next.
    """

    task: str
    attempt: int
    state: State
    invoked: float
    returned: float
    is_finished: bool = False


class Told(NamedTuple):
    """A result that a caller was given."""

    task: str
    result: Any


class Ended(NamedTuple):
    """The end of a job that a caller was told."""

    job_id: int
    state: State


class Event(NamedTuple):
    """A row of the ledger's events; `task_index` is -1 in the stream of a job."""

    job_id: int
    task_index: int
    seq: int
    attempt: int
    type: str
    id: int = 0
    txid: int = 0
    ts: datetime | None = None
    cause: str | None = None


class TaskRow(NamedTuple):
    """A row of the ledger's tasks."""

    job_id: int
    task_index: int
    state: State
    attempt: int
    is_finished: bool
    result: Any = None
    # Why it has not ended, in the words for people.
    reason: str = ""

    @property
    def name(self) -> str:
        """Its id."""
        return f"{self.job_id}.{self.task_index}"


class JobRow(NamedTuple):
    """A row of the ledger's jobs."""

    job_id: int
    state: State
    num_tasks: int
    is_finished: bool
    counts: dict[State, int]
    key: str | None = None
    compensates: int | None = None
    # Of the work, not of the class: the name of the function.
    type: str = ""


class AttemptRow(NamedTuple):
    """A row of the ledger's attempts, which have ended."""

    job_id: int
    task_index: int
    attempt: int
    state: State
    is_released: bool
    # By its name, which outlives its incarnations.
    worker: str = ""
    error_class: str | None = None


class LeaseRow(NamedTuple):
    """A row of the ledger's leases: an attempt that is not released."""

    job_id: int
    task_index: int
    attempt: int
    worker: str


class Excuse(NamedTuple):
    """When something broke that no lease can stand: all processes of a host stopped, say."""

    why: str
    began: float
    ended: float
    # Whose executions it excuses; None for those of all.
    worker: str | None = None


class Hit(NamedTuple):
    """A fault, when it was, and how many tasks it found in which state.

    One that has missed found nothing to break: a process that had just ended, say.
    """

    fault: str
    target: str
    began: float
    ended: float
    states: dict[str, int]
    has_missed: bool = False


class Firing(NamedTuple):
    """An instant of a schedule, and the job that it has come to."""

    schedule: str
    instant: datetime
    job_id: int | None


class Entry(NamedTuple):
    """A part of a version of a dataset."""

    dataset: str
    version: int
    key: str
    task: str


@dataclass
class History:
    """All of it."""

    began_at: float = 0.0
    healed_at: float = 0.0
    ended_at: float = 0.0
    marks: list[Mark] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    effects: list[tuple[str, int]] = field(default_factory=list)
    submitted: list[Submitted] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)
    # Jobs whose cancel was acknowledged, and when.
    cancels: list[tuple[int, float]] = field(default_factory=list)
    has_schedule: bool = False
    events: list[Event] = field(default_factory=list)
    tasks: list[TaskRow] = field(default_factory=list)
    jobs: list[JobRow] = field(default_factory=list)
    attempts: list[AttemptRow] = field(default_factory=list)
    leases: list[LeaseRow] = field(default_factory=list)
    firings: list[Firing] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    # Rows of tables that hold nothing when nothing is left to do, by table.
    left: dict[str, int] = field(default_factory=dict)
    # By key, how many executions there may be at once.
    most: dict[str, int] = field(default_factory=dict)
    # What was sampled of slots held, by key: the most that was ever seen.
    held: dict[str, int] = field(default_factory=dict)
    excuses: list[Excuse] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)


class Finding(NamedTuple):
    """Something that must never be."""

    check: str
    subject: str
    text: str
