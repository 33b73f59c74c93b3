"""The decorator that makes a function one that can be submitted."""

import copy
import inspect
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from functools import update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

import msgspec

from holdfast.client.functions.batches import BatchParameters, check_batched, read_batch_size
from holdfast.client.functions.kinds import Kind
from holdfast.client.functions.parameters import Parameters, Shape
from holdfast.errors import Invalid
from holdfast.model.shapes import as_invalid
from holdfast.model.submitting import spec as specs
from holdfast.model.submitting.order import Condition, Output
from holdfast.model.submitting.queue_names import check_queue_name
from holdfast.model.submitting.schedules import Schedule
from holdfast.model.submitting.spec import Backoff, KeyOfInput, OnExhausted, OnFailure, OnTimeout
from holdfast.model.submitting.unique import Unique
from holdfast.model.workers.resources import Constraint, Coscheduling, Resources

if TYPE_CHECKING:
    from holdfast.client.client import Client, Submits
    from holdfast.client.job import Job

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Isolation = Literal["auto", "process"]
CONTEXT_PARAMETER = "ctx"
_REMEDIES = {
    "delay": "use seconds or a timedelta, such as timedelta(minutes=5)",
    "expires": "use seconds or a timedelta, or a datetime",
    "expires_at": "use a datetime, or seconds since 1970",
    "at": "use a datetime, or seconds since 1970",
}


class Dependency(NamedTuple):
    """A job to wait for, and how it has to end; `failed` means any other end than SUCCEEDED."""

    job: "Job[Any] | str | int"
    condition: Condition = "succeeded"


class TaskOptions(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """How the jobs of a function are run; None leaves the server's default.

    Without a queue the work is placed; so it is, unless one is named, where something is asked
    of its workers: resources, constraints, coscheduling, a bundle, requirements.
    """

    queue: str | msgspec.UnsetType | None = msgspec.UNSET
    name: str | None = None
    type: str | None = None
    owner: str | None = None
    retries: int | None = None
    preemption_retries: int | None = None
    backoff: Backoff | None = None
    timeout: float | None = None
    on_timeout: OnTimeout | None = None
    on_exhausted: OnExhausted | None = None
    max_task_failures: int | None = None
    lease: float | None = None
    grace: float | None = None
    priority: int | None = None
    # By what limits per key count it, and how many slots of each limit it takes.
    concurrency_key: str | KeyOfInput | None = None
    slots: int | None = None
    # When it may start: so long after its submission and what it waits for, or at a time.
    delay: timedelta | float | None = None
    at: datetime | float | None = None
    not_before: float | None = None
    scheduling_timeout: float | None = None
    # What nobody has started by then is not run: so long after its submission, or a time.
    expires: timedelta | float | None = None
    expires_at: datetime | float | None = None
    labels: dict[str, str] | None = None
    environment: dict[str, str] | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    replicas: int | None = None
    resources: Resources | None = None
    constraints: list[Constraint] | None = None
    coscheduling: Coscheduling | None = None
    bundle: str | None = None
    requirements: list[str] | None = None
    outputs: list[Output] | None = None
    verbose_events: bool | None = None
    # Submits it again and again: a cron expression in a time zone, an interval, or a Schedule.
    schedule: Any = None
    tz: str | None = None
    # Of calls that are alike, one is there at a time; True compares all arguments.
    unique: Unique | bool | None = None
    chain: str | None = None
    on_failure: OnFailure | None = None
    # Jobs, their ids, or Dependencies.
    depends_on: list[Any] | None = None
    # A task function, one with arguments, or a command: what undoes the job's effects.
    compensation: Any = None
    pickled: bool = False
    isolation: Isolation = "auto"
    # One call for so many tasks, or for those that have come within so many seconds.
    batch: int | None = None
    within: float | None = None


class GivenOptions(TypedDict, total=False):
    """The same options as keywords, for type checkers and editors."""

    queue: str | None
    name: str | None
    type: str | None
    owner: str | None
    retries: int | None
    preemption_retries: int | None
    backoff: Backoff | None
    timeout: float | None
    on_timeout: OnTimeout | None
    on_exhausted: OnExhausted | None
    max_task_failures: int | None
    lease: float | None
    grace: float | None
    priority: int | None
    concurrency_key: str | KeyOfInput | None
    slots: int | None
    delay: timedelta | float | None
    at: datetime | float | None
    not_before: float | None
    scheduling_timeout: float | None
    expires: datetime | timedelta | float | None
    expires_at: datetime | float | None
    labels: dict[str, str] | None
    environment: dict[str, str] | None
    idempotency_key: str | None
    correlation_id: str | None
    replicas: int | None
    resources: Resources | None
    constraints: list[Constraint] | None
    coscheduling: Coscheduling | None
    bundle: str | None
    requirements: list[str] | None
    outputs: list[Output] | None
    verbose_events: bool | None
    schedule: str | timedelta | Schedule | None
    tz: str | None
    unique: Unique | bool | None
    chain: str | None
    on_failure: OnFailure | None
    depends_on: "Sequence[Job[Any] | str | int | Dependency] | None"
    compensation: "TaskFunction[Any, Any] | TaskCall | Sequence[str] | str | None"
    pickled: bool
    isolation: Isolation
    batch: int | None
    within: float | None


class TaskFunction(Generic[Given, Answer]):
    """A function that can be called here, or submitted to run on a worker."""

    __name__: str

    def __init__(self, function: Callable[Given, Any], options: TaskOptions) -> None:
        signature = _read_signature(function)
        update_wrapper(self, function)
        self.function = function
        self.options = options
        self.batch = read_batch_size(options.batch, options.within)
        self.parameters = Parameters(function, signature)
        if self.batch is not None:
            check_batched(self.path, signature)
            self.parameters = BatchParameters(function, signature)
        self.wants_context = CONTEXT_PARAMETER in signature.parameters

    def __repr__(self) -> str:
        return f"<task {self.path}>"

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Any:
        """Call the function right here, without Holdfast."""
        return self.function(*args, **kwargs)

    def with_options(self, **changes: Unpack[GivenOptions]) -> "TaskFunction[Given, Answer]":
        """Make the same function with other options, for one call or many."""
        if named := {"batch", "within"} & changes.keys():
            problem = "belongs to the function itself; give it to its decorator"
            raise Invalid(min(named), problem)
        changed = copy.copy(self)
        changed.options = change_options(self.options, changes)
        return changed

    def with_arguments(self, *args: Any, **kwargs: Any) -> "TaskCall":
        """Describe a call without making it; what a compensation is told comes before these."""
        return TaskCall(self, args, kwargs)

    @property
    def submit(self) -> "Outgoing[Answer]":
        """Submit one call as a job of one task; `await fn.submit.aio(...)` in async code."""
        return Outgoing(self, lambda client: client.submit)

    @property
    def map(self) -> "Outgoing[Answer]":
        """Submit one job with one task per input, which comes first among the arguments."""
        return Outgoing(self, lambda client: client.map)

    def check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shape:
        """Refuse arguments that the function cannot take; returns the parameters they are for."""
        names = tuple(kwargs)
        if self.wants_context:
            if CONTEXT_PARAMETER in kwargs:
                raise Invalid(CONTEXT_PARAMETER, "is given by the worker; leave it out")
            names += (CONTEXT_PARAMETER,)
        try:
            return self.parameters.shape(len(args), names)
        except TypeError as error:
            raise Invalid("args", f"{self.path} cannot be called so: {error}") from error

    def check_schedule(self) -> None:
        """Refuse a schedule of a function that cannot be called without arguments."""
        if self.options.schedule is not None:
            try:
                self.check_arguments((), {})
            except Invalid as error:
                problem = f"submits it without arguments, which need defaults: {error.problem}"
                raise Invalid("schedule", problem) from error

    def spec(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Describe one call as the spec of a job, in plain JSON: for the API, a file, or SQL."""
        from holdfast.client.request import describe_call

        spec: dict[str, Any] = msgspec.json.decode(
            msgspec.json.encode(describe_call(self, args, kwargs))
        )
        return spec

    @property
    def is_importable(self) -> bool:
        """Whether a worker can find it by its path."""
        return self.function.__module__ != "__main__" and "<" not in self.path

    @property
    def returns(self) -> Kind:
        """What its jobs give as results; what is pickled comes back as it is."""
        return Kind() if self.options.pickled else self.parameters.returns

    @property
    def path(self) -> str:
        """The import path under which a worker finds the function."""
        return f"{self.function.__module__}:{self.function.__qualname__}"


class TaskCall(NamedTuple):
    """A task function and what it is to be called with."""

    function: TaskFunction[Any, Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Outgoing(Generic[Answer]):
    """A call that goes to the client in use: it blocks, and its `.aio` is awaited."""

    __slots__ = ("_choose", "_function")

    def __init__(
        self,
        function: TaskFunction[Any, Answer],
        choose: Callable[["Client"], "Submits"],
    ) -> None:
        self._function = function
        self._choose = choose

    def __call__(self, *args: Any, **kwargs: Any) -> "Job[Answer]":
        """Submit it and wait until the server has taken it in."""
        return self._bound()(self._function, *args, **kwargs)

    async def aio(self, *args: Any, **kwargs: Any) -> "Job[Answer]":
        """Submit it and await that the server has taken it in."""
        return await self._bound().aio(self._function, *args, **kwargs)

    def _bound(self) -> "Submits":
        from holdfast.client.client import find_client

        return self._choose(find_client())


# Every function that was decorated in this process, by its path: what a worker announces.
decorated: dict[str, TaskFunction[Any, Any]] = {}


class Decorator(Protocol):
    """Makes a task of a function; what a coroutine function returns is what it is awaited for."""

    @overload
    def __call__(
        self, function: Callable[Given, Coroutine[Any, Any, Answer]], /
    ) -> TaskFunction[Given, Answer]: ...
    @overload
    def __call__(self, function: Callable[Given, Answer], /) -> TaskFunction[Given, Answer]: ...


@overload
def task(
    function: Callable[Given, Coroutine[Any, Any, Answer]], /
) -> TaskFunction[Given, Answer]: ...
@overload
def task(function: Callable[Given, Answer], /) -> TaskFunction[Given, Answer]: ...
@overload
def task(**options: Unpack[GivenOptions]) -> Decorator: ...
def task(function: Any = None, /, **options: Unpack[GivenOptions]) -> Any:
    """Make a function one that can be submitted: `@task`, or `@task(queue="emails", retries=3)`."""
    chosen = change_options(TaskOptions(), options)

    def decorate(function: Any) -> Any:
        made: TaskFunction[Any, Any] = TaskFunction(function, chosen)
        made.check_schedule()
        decorated[made.path] = made
        return made

    return decorate if function is None else decorate(function)


def change_options(options: TaskOptions, changes: GivenOptions) -> TaskOptions:
    """Change some options; an unknown one is an error that lists those there are."""
    if unknown := sorted(changes.keys() - set(TaskOptions.__struct_fields__)):
        known = ", ".join(TaskOptions.__struct_fields__)
        raise Invalid(unknown[0], f"is not an option of a task; there are {known}")
    backoff: Any = changes.get("backoff")
    if isinstance(backoff, int | float):
        remedy = f"write it like holdfast.Backoff(base={backoff}), for the first wait in seconds"
        raise Invalid("backoff", f"is the number {backoff}; {remedy}")
    chosen = {**msgspec.structs.asdict(options), **changes}
    if isinstance(chosen["expires"], datetime):
        chosen |= {"expires": None, "expires_at": chosen["expires"]}
    elif changes.get("expires") is not None and changes.get("expires_at") is None:
        chosen["expires_at"] = None
    given = {name: value for name, value in chosen.items() if value is not msgspec.UNSET}
    try:
        made = msgspec.convert(given, TaskOptions)
    except msgspec.ValidationError as error:
        refused = as_invalid(error, "options")
        if refused.field in _REMEDIES:
            problem = f"is {given[refused.field]!r}; {_REMEDIES[refused.field]}"
            raise Invalid(refused.field, problem) from error
        raise refused from error
    if isinstance(made.queue, str):
        check_queue_name(made.queue)
    _check_delay(made.delay)
    if read_batch_size(made.batch, made.within) is not None and made.isolation == "process":
        raise Invalid("batch", "is gathered within the worker; leave isolation out")
    return msgspec.structs.replace(made, schedule=_read_schedule(made), tz=None)


def _read_schedule(options: TaskOptions) -> Schedule | None:
    """Take what stands for a schedule as one."""
    given, tz = options.schedule, options.tz
    if tz is not None and not isinstance(given, str):
        raise Invalid(
            "tz", "goes with a schedule that is a cron expression; a Schedule has its own"
        )
    if given is None or isinstance(given, Schedule):
        return given
    if isinstance(given, str):
        return Schedule(cron=given, tz=tz or "UTC")
    if isinstance(given, timedelta):
        return Schedule(every=given.total_seconds())
    problem = f"is {given!r}; use a cron expression, a timedelta, or a holdfast.Schedule"
    raise Invalid("schedule", problem)


def _check_delay(delay: timedelta | float | None) -> None:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if seconds is not None and not 0 <= seconds <= specs.YEAR_SECONDS:
        raise Invalid("delay", f"is {seconds:g} seconds; use 0 or more, and a year at most")


def _read_signature(function: Any) -> inspect.Signature:
    if not (inspect.isroutine(function) and hasattr(function, "__qualname__")):
        raise Invalid("function", f"{function!r} is not a function; write one with def")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise Invalid("function", f"{function.__qualname__} yields; return a list instead")
    try:
        return inspect.signature(function)
    except ValueError as error:
        raise Invalid("function", f"{error}; wrap it in a function of your own") from error
