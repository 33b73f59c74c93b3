"""Every exception of Holdfast.

HoldfastError
├── Refused            the request cannot be done as asked; nothing was changed
│   ├── Invalid        a field holds a value that cannot be right
│   │   └── TooLarge   ... because it exceeds a limit
│   ├── Unauthenticated the caller shows no token, or none that is valid now
│   ├── NotAllowed     the caller's token is not for this
│   ├── NotFound       no such job, task, worker or dead letter
│   ├── KeyReused      the idempotency key belongs to a different request
│   ├── NotUnique      a job like this one is there already, and says to refuse others
│   ├── IllegalMove    the job or task stands where this cannot happen to it
│   └── LeaseConflict  the caller does not hold the lease it speaks for, or cannot get one
├── Unavailable        not now; the same request may go through later
│   ├── Overloaded     too much is waiting already
│   │   └── LimitReached ... by a limit of the server, which it names
│   ├── Stopping       this process is shutting down
│   └── SchemaMismatch the database's schema does not fit this program
├── TaskFailed         a task whose result was asked for has ended otherwise
└── TaskError          what user code raises to say what should follow
    ├── TransientError         try again: what any other exception means, too
    │   ├── DependencyUnavailable  ... because something else is away
    │   └── RetryAfter             ... at a time that it names
    └── PermanentError         do not try again
        ├── ValidationError        ... because the input is wrong
        └── SignalTimedOut         ... because a signal has not come in time
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Self, TypeVar

Raised = TypeVar("Raised", bound=Exception)


class HoldfastError(Exception):
    """Stand at the root of everything Holdfast raises on purpose."""

    # What it is called in an answer of a server, and the attributes that travel there with it.
    code: ClassVar[str] = "internal"
    parts: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def rebuild(cls, message: str, parts: Mapping[str, Any]) -> Self:
        """Make one that was raised elsewhere; a part that did not come along is None."""
        return _copy(cls, (message,), {name: parts.get(name) for name in cls.parts})

    def __str__(self) -> str:
        """Give the message in one line, whatever others have contributed to it."""
        return " ".join(line.strip() for line in Exception.__str__(self).splitlines())

    def __reduce__(self) -> tuple[Any, ...]:
        # Copied as it is: constructors build messages, and must not be given one to build on.
        return _copy, (type(self), self.args, self.__dict__)


def _copy(kind: type[Raised], args: tuple[Any, ...], attributes: dict[str, Any]) -> Raised:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class Refused(HoldfastError):
    """The request cannot be done as asked."""

    code = "refused"


class Unavailable(HoldfastError):
    """The request cannot be done now."""

    code = "unavailable"
    # Set where what is away has been logged already, which is once for all that fails meanwhile.
    is_logged = False
    # In how many seconds to ask again, where whoever is away or overloaded has said so.
    retry_after: float | None = None


class Invalid(Refused):
    """A field of a request holds a value that cannot be right."""

    code = "invalid"
    parts: ClassVar[tuple[str, ...]] = ("field", "problem")

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class TooLarge(Invalid):
    """A field of a request exceeds its limit."""

    code = "too_large"
    parts = ("field", "problem", "size", "limit", "unit")

    def __init__(self, field: str, size: int, limit: int, *, unit: str = "bytes") -> None:
        super().__init__(field, f"{size} {unit} is over the limit of {limit} {unit}")
        self.size = size
        self.limit = limit
        self.unit = unit


class Unauthenticated(Refused):
    """The caller shows no token, or none that is valid now."""

    code = "unauthenticated"


class NotAllowed(Refused):
    """The caller's token has not the role for this, or is for other owners or queues."""

    code = "not_allowed"
    parts = ("lacks",)

    def __init__(self, message: str, *, lacks: str) -> None:
        super().__init__(message)
        self.lacks = lacks


class NotFound(Refused):
    """No such thing."""

    code = "not_found"
    parts = ("kind", "name")

    def __init__(self, kind: str, name: object) -> None:
        super().__init__(f"there is no {kind} {name}")
        self.kind = kind
        self.name = str(name)


class KeyReused(Refused):
    """An idempotency key came back with a different request."""

    code = "key_reused"
    parts = ("field", "key", "job_id", "request")

    def __init__(self, key: str, job_id: object | None = None, *, request: str = "submit") -> None:
        if job_id is None:
            remedy = f"a different {request}; use a new key, or send the same request"
        else:
            remedy = f"job {job_id} with a different spec; use a new key, or submit the same spec"
        super().__init__(f"idempotency_key: {key!r} was used for {remedy}")
        self.field = "idempotency_key"
        self.key = key
        self.job_id = None if job_id is None else str(job_id)
        self.request = request


class NotUnique(Refused):
    """A job that is to be unique finds another one like it."""

    code = "not_unique"
    parts = ("field", "job_id")

    def __init__(self, job_id: object, *, has_started: bool = False) -> None:
        if has_started:
            problem = f"job {job_id}, which is alike, has started; try again when it has ended"
        else:
            problem = f"job {job_id} is alike; wait for it or cancel it, or use another on_conflict"
        super().__init__(f"unique: {problem}")
        self.field = "unique"
        self.job_id = str(job_id)


class IllegalMove(Refused):
    """A job or task stands where the request cannot happen to it."""

    code = "illegal_move"
    parts = ("subject", "state", "request")

    def __init__(self, subject: object, state: str, request: str) -> None:
        super().__init__(f"cannot {request} {subject}: it is {state}")
        self.subject = str(subject)
        self.state = state
        self.request = request


class LeaseConflict(Refused):
    """The caller does not hold the lease it speaks for, or the task cannot be leased to it."""

    code = "lease_conflict"
    parts = ("task_id", "reason")

    def __init__(self, task_id: object | None, reason: str | None = None) -> None:
        if reason is None:  # a text alone: user code says so, too
            task_id, reason = None, str(task_id)
        super().__init__(reason if task_id is None else f"task {task_id}: {reason}")
        self.task_id = None if task_id is None else str(task_id)
        self.reason = reason


class Overloaded(Unavailable):
    """Too many requests are waiting already."""

    code = "overloaded"


class LimitReached(Overloaded):
    """A limit of the server stands in the way; `retry_after` says when to ask again, in seconds."""

    code = "limit_reached"
    parts = ("limit", "maximum", "setting", "retry_after")

    def __init__(
        self, message: str, *, limit: str, maximum: float, setting: str, retry_after: float
    ) -> None:
        super().__init__(message)
        self.limit = limit
        self.maximum = maximum
        self.setting = setting
        self.retry_after = retry_after


class Stopping(Unavailable):
    """This process is shutting down and takes no more requests."""

    code = "stopping"


class SchemaMismatch(Unavailable):
    """The database's schema is newer, older or other than this program's."""


class TaskError(HoldfastError):
    """User code says how its failure is to be taken."""

    def __str__(self) -> str:
        """Give what user code has said, as it was said."""
        return Exception.__str__(self)


class TransientError(TaskError):
    """Trying again may help."""


class DependencyUnavailable(TransientError):
    """Something that the task needs is away; trying again may help."""


class RetryAfter(TransientError):
    """Not now: try again in so many seconds, after a timedelta, or at an instant with a time zone.

    It costs a retry like any failure, unless it is `free`; of these, a task has 1,000.
    """

    def __init__(
        self, after: float | timedelta | datetime, reason: str = "", *, free: bool = False
    ) -> None:
        super().__init__(reason)
        self.seconds = _seconds_until(after)
        self.free = free


def _seconds_until(after: float | timedelta | datetime) -> float:
    if isinstance(after, datetime):
        if after.tzinfo is None:
            raise ValueError("RetryAfter: a datetime needs a time zone, such as datetime.UTC")
        return max((after - datetime.now(UTC)).total_seconds(), 0.0)
    seconds = after.total_seconds() if isinstance(after, timedelta) else after
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        kind = type(seconds).__name__
        raise TypeError(f"RetryAfter: give seconds, a timedelta or a datetime, not {kind}")
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"RetryAfter: {seconds} seconds are no time to wait; use 0 or more")
    return float(seconds)


class PermanentError(TaskError):
    """Trying again cannot help."""


class ValidationError(PermanentError):
    """The input is wrong, and will be wrong the next time."""


class SignalTimedOut(PermanentError):
    """The signal that a function waits for has not come in time; no attempt waits for it again."""


class TaskFailed(HoldfastError):
    """The task whose result was asked for did not succeed; `error` is all that it said.

    Of a built-in exception, or one of Holdfast's, it is of that class too.
    """

    def __init__(self, task_id: str, state: str, error: str | None) -> None:
        reason = next((line for line in (error or "").splitlines() if line.strip()), "")
        super().__init__(f"task {task_id} is {state}" + (f": {reason.strip()}" if reason else ""))
        self.task_id = task_id
        self.state = state
        self.error = error
        if error and error.strip() != reason.strip():  # its traceback, below ours
            self.add_note(error)
