"""What a user submits: the job spec, and the limits that every submission is held to.

A `JobSpec` arrives with holes where the default depends on the rest;
`rules/submitting/submission.py` checks it and fills the holes. What is stored is complete, so that
no reader has to know the defaults.
"""

from datetime import timedelta
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.model.submitting.order import Declared, Dependency, Output, ResultPosition
from holdfast.model.submitting.unique import Unique
from holdfast.model.workers.resources import Constraint, Coscheduling, Resources

OnExhausted = Literal["fail", "dead_letter"]
OnTimeout = Literal["kill", "fail"]
# What a chain does after a job of it that has failed: it goes on, or stands still.
OnFailure = Literal["pass", "block"]
YEAR_SECONDS = 366 * 86_400.0


class Limits(msgspec.Struct, frozen=True):
    """The sizes and ranges that submissions and reports are held to."""

    input_bytes_max: int = 1 << 20
    result_bytes_max: int = 1 << 20
    spec_bytes_max: int = 1 << 20
    text_length_max: int = 256
    error_length_max: int = 64 << 10
    tasks_max: int = 10_000_000
    batch_tasks_max: int = 10_000
    lease_seconds_min: float = 30.0
    lease_seconds_max: float = 120.0
    # Placed work is renewed once in a tick of its leader: a shorter lease would run out in between.
    placed_lease_seconds_min: float = 0.0
    retries_max: int = 10_000
    gang_tasks_max: int = 1024
    dependencies_max: int = 100_000
    graph_jobs_max: int = 10_000


class Entrypoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to run: exactly one of the four forms."""

    command: list[str] | None = None
    shell: str | None = None
    function: str | None = None
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    pickle: str | None = None
    # Results of other jobs that stand among the arguments.
    results: list[ResultPosition] = []

    @property
    def is_function(self) -> bool:
        """Whether this is Python to be called, not a program to be run."""
        return self.command is None and self.shell is None


class Backoff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the wait before a retry grows, in seconds."""

    base: float = 0.5
    factor: float = 2.0
    ceiling: float = 60.0


class KeyOfInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key that each task has from its input: where it stands, like `customer.id` or `items.0`.

    An empty path is the input itself; null is no key, also if the function was announced with one.
    """

    input: str | None = ""


NO_KEY = KeyOfInput(None)


class JobSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One job as its user describes it; durations are seconds."""

    entrypoint: Entrypoint
    name: str | None = None
    type: str | None = None
    owner: str | None = None
    replicas: int | None = None
    queue: str | None = None
    environment: dict[str, str] = {}
    labels: dict[str, str] = {}
    max_attempts: int | None = None
    max_retries_failure: int | None = None
    max_retries_preemption: int | None = None
    backoff: Backoff | None = None
    max_task_failures: int | None = None
    on_exhausted: OnExhausted | None = None
    scheduling_timeout: float | None = None
    timeout: float | None = None
    on_timeout: OnTimeout | None = None
    lease: float | None = None
    grace: float | None = None
    not_before: float | None = None
    # From its submission, or from the end of what it waited for: how long until its first task
    # stands in line, and how many tasks come to stand there in a second.
    start_delay: float | None = None
    start_rate: float | None = None
    # Until when a task has to have been claimed: so many seconds from its submission on, or a time,
    # in seconds since 1970.
    expires: float | None = None
    expires_at: float | None = None
    priority: int | None = None
    # By what limits per key count its tasks, and how many slots of each limit a task takes.
    concurrency_key: str | KeyOfInput | None = None
    slots: int | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    trace_id: str | None = None
    resources: Resources | None = None
    constraints: list[Constraint] = []
    coscheduling: Coscheduling | None = None
    # The content hash of a workspace that was uploaded before, and what its Python code needs.
    bundle: str | None = None
    requirements: list[str] = []
    # Jobs to wait for: an id, a local name within a graph, or either with a condition.
    depends_on: list[str | Dependency] = []
    # Undoes what the job did, should it end unsuccessfully after it had started.
    compensation: Entrypoint | None = None
    outputs: list[Output] = []
    verbose_events: bool | None = None
    # Of jobs that are alike, one is there at a time.
    unique: Unique | None = None
    # Jobs of one owner and chain run one at a time, in the order of their submission.
    chain: str | None = None
    on_failure: OnFailure | None = None

    @property
    def starts_at_once(self) -> bool:
        """Tell whether a worker that is free has nothing to build before it runs this."""
        return self.entrypoint.is_function and self.bundle is None and not self.requirements


class ChainKey(NamedTuple):
    """A chain is known by its owner and its name."""

    owner: str
    key: str


class Submission(msgspec.Struct, frozen=True):
    """A spec, and the inputs if there is one task per input: each a JSON text of its own.

    The links to other jobs are set by the server, never by the user's spec; `local_name` is what
    other jobs of the same graph call this one.
    """

    spec: JobSpec
    inputs: tuple[str, ...] | None = None
    parent_job_id: int | None = None
    replay_of: int | None = None
    local_name: str | None = None
    compensates_job_id: int | None = None
    # What the spec would be without the policy of its type: by this a repeat is known.
    plain: JobSpec | None = None
    # The span that submits it, as `holdfast.model.traces` writes it; no part of what it asks for.
    trace_parent: str | None = None
    # By dataset: how the version of an output was chosen, unless by its number.
    declared: dict[str, Declared] | None = None
    # Whether a cut-over of a dataset has started it, and not a user.
    by_cut_over: bool = False
    # Placed, whatever queue its function was announced with.
    is_placed: bool = False
    # Who submits it, if he has shown a token; no part of what it asks for.
    actor: str | None = None
    # How many inputs there are if they are read while the job is stored; `inputs` is empty then.
    num_inputs: int | None = None

    @property
    def num_tasks(self) -> int:
        """Count the tasks this submission makes."""
        if self.num_inputs is not None:
            return self.num_inputs
        return len(self.inputs) if self.inputs is not None else self.spec.replicas or 1

    @property
    def chain(self) -> ChainKey | None:
        """Say at the end of which chain it waits; what is run again stands outside of it."""
        spec = self.spec
        if spec.chain is None or self.replay_of is not None or self.compensates_job_id is not None:
            return None
        return ChainKey(spec.owner or "", spec.chain)


class TaskTerms(msgspec.Struct, frozen=True):
    """What the ledger needs of a complete spec to decide a task's fate."""

    queue: str | None
    priority: int
    max_retries_failure: int
    max_retries_preemption: int
    backoff: Backoff
    on_exhausted: OnExhausted
    scheduling_timeout: float | None
    timeout: float | None
    on_timeout: OnTimeout
    lease: float
    grace: float
    type: str
    coscheduling: Coscheduling | None = None
    # Of a compensation: whatever ends it for good makes a dead letter of its own kind.
    is_compensation: bool = False

    @property
    def lease_duration(self) -> timedelta:
        """Give for how long a lease holds unless it is renewed."""
        return timedelta(seconds=self.lease)

    @property
    def run_timeout(self) -> timedelta | None:
        """Give for how long an attempt may run, if that is limited."""
        return None if self.timeout is None else timedelta(seconds=self.timeout)

    @property
    def placed(self) -> bool:
        """Tell placed work (the scheduler finds a worker) from claimed work."""
        return self.queue is None

    @property
    def is_gang(self) -> bool:
        """Tell tasks that start, fail and restart together from those that stand alone."""
        return self.coscheduling is not None
