"""The decorator that makes a function one that can be submitted."""

import inspect
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, overload

import msgspec

from holdfast.errors import Invalid
from holdfast.model.spec import Backoff

if TYPE_CHECKING:
    from holdfast.client.job import Job

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Isolation = Literal["auto", "process"]
CONTEXT_PARAMETER = "ctx"


class TaskOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the jobs of a function are run; None leaves the server's default."""

    queue: str = "default"
    name: str | None = None
    type: str | None = None
    owner: str | None = None
    retries: int | None = None
    preemption_retries: int | None = None
    backoff: Backoff | None = None
    timeout: float | None = None
    on_timeout: Literal["kill", "fail"] | None = None
    on_exhausted: Literal["fail", "dead_letter"] | None = None
    max_task_failures: int | None = None
    lease: float | None = None
    grace: float | None = None
    priority: int | None = None
    not_before: float | None = None
    scheduling_timeout: float | None = None
    labels: dict[str, str] | None = None
    environment: dict[str, str] | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    pickled: bool = False
    isolation: Isolation = "auto"


class TaskFunction(Generic[Given, Answer]):
    """A function that can be called here, or submitted to run on a worker."""

    def __init__(self, function: Callable[Given, Any], options: TaskOptions) -> None:
        update_wrapper(self, function)
        self.function = function
        self.options = options
        self.signature = inspect.signature(function)
        self.wants_context = CONTEXT_PARAMETER in self.signature.parameters

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Any:
        """Call the function right here, without Holdfast."""
        return self.function(*args, **kwargs)

    def with_options(self, **changes: Any) -> "TaskFunction[Given, Answer]":
        """Make the same function with other options, for one call or many."""
        return TaskFunction(self.function, change_options(self.options, changes))

    def submit(self, *args: Any, **kwargs: Any) -> "Job[Answer]":
        """Submit one call as a job of one task."""
        from holdfast.client.client import find_client

        return find_client().submit(self, *args, **kwargs)

    def map(self, inputs: Iterable[Any], *args: Any, **kwargs: Any) -> "Job[Answer]":
        """Submit one job with one task per input, which comes first among the arguments."""
        from holdfast.client.client import find_client

        return find_client().map(self, inputs, *args, **kwargs)

    def check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse arguments that the function cannot take, before anything is submitted."""
        given = {**kwargs, CONTEXT_PARAMETER: None} if self.wants_context else kwargs
        try:
            self.signature.bind(*args, **given)
        except TypeError as error:
            raise Invalid("args", f"{self.path} cannot be called so: {error}") from error

    @property
    def path(self) -> str:
        """The import path under which a worker finds the function."""
        return f"{self.function.__module__}:{self.function.__qualname__}"


@overload
def task(function: Callable[Given, Answer], /) -> TaskFunction[Given, Answer]: ...
@overload
def task(
    **options: Any,
) -> Callable[[Callable[Given, Answer]], TaskFunction[Given, Answer]]: ...
def task(function: Any = None, /, **options: Any) -> Any:
    """Make a function one that can be submitted: `@task`, or `@task(queue="emails", retries=3)`."""
    chosen = change_options(TaskOptions(), options)
    if function is not None:
        return TaskFunction(function, chosen)

    def decorate(function: Any) -> Any:
        return TaskFunction(function, chosen)

    return decorate


def change_options(options: TaskOptions, changes: dict[str, Any]) -> TaskOptions:
    """Change some options; an unknown one is an error that lists those there are."""
    unknown = changes.keys() - set(TaskOptions.__struct_fields__)
    if unknown:
        known = ", ".join(TaskOptions.__struct_fields__)
        raise Invalid(sorted(unknown)[0], f"is not an option of a task; there are {known}")
    return msgspec.structs.replace(options, **changes)
