"""Functions as workers announce them: what they are called with, and how their jobs are to run."""

from typing import Any

import msgspec

from holdfast.model.submitting.order import Output
from holdfast.model.submitting.spec import Backoff, Entrypoint, KeyOfInput, OnExhausted, OnTimeout
from holdfast.model.workers.resources import Constraint, Coscheduling, Resources


class FunctionOptions(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What the decorator says of a function's jobs, in the words of a job's spec.

    Without a queue its jobs are placed work. With `only_in_queue` all of this counts for jobs that
    name this queue themselves; so it is where a token that is for queues has announced it.
    """

    queue: str | None = None
    only_in_queue: bool = False
    name: str | None = None
    type: str | None = None
    owner: str | None = None
    replicas: int | None = None
    environment: dict[str, str] = {}
    labels: dict[str, str] = {}
    max_retries_failure: int | None = None
    max_retries_preemption: int | None = None
    backoff: Backoff | None = None
    max_task_failures: int | None = None
    on_exhausted: OnExhausted | None = None
    scheduling_timeout: float | None = None
    expires: float | None = None
    timeout: float | None = None
    on_timeout: OnTimeout | None = None
    lease: float | None = None
    grace: float | None = None
    priority: int | None = None
    concurrency_key: str | KeyOfInput | None = None
    slots: int | None = None
    resources: Resources | None = None
    constraints: list[Constraint] = []
    coscheduling: Coscheduling | None = None
    bundle: str | None = None
    requirements: list[str] = []
    compensation: Entrypoint | None = None
    outputs: list[Output] = []
    verbose_events: bool | None = None


class FunctionParameter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One parameter; `schema` is a JSON schema, where its annotation has one."""

    name: str
    required: bool = False
    # One that takes all further arguments, by position or by name.
    is_rest: bool = False
    # It cannot be given by its name.
    positional_only: bool = False
    annotation: str | None = None
    # What it is if it is not given, as a JSON text, where that can be written.
    default: str | None = None
    schema: dict[str, Any] | None = None


class AnnouncedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function that a worker has; `path` is what an entrypoint calls it."""

    path: str
    options: FunctionOptions = FunctionOptions()
    parameters: list[FunctionParameter] = []
    # The first line of its docstring.
    doc: str | None = None
