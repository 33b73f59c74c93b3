"""Find a task's function, and put together the arguments that it is called with."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from holdfast import errors
from holdfast.client.codec import (
    PASSING,
    PayloadCodec,
    decode_entrypoint,
    decode_value,
    has_payloads,
)
from holdfast.client.context import Context
from holdfast.client.functions.batches import BatchParameters, BatchSize
from holdfast.client.functions.parameters import DoesNotFit, Parameters
from holdfast.client.pickles import unpickle
from holdfast.client.task import CONTEXT_PARAMETER, TaskFunction
from holdfast.client.undo import read_undo
from holdfast.model.submitting.payloads import find_codec_name
from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.work.outcomes import Stage
from holdfast.model.work.undo import UndoRecord
from holdfast.wire.answers import ClaimedJob
from holdfast.wire.requests import Progress
from holdfast.worker.allowing import CallLimit
from holdfast.worker.running.attempt_outcome import Outcome, failure, storable

MESSAGE_LENGTH_MAX = 256
Opened = TypeVar("Opened")
_decode = msgspec.json.Decoder().decode


class TaskStopped(BaseException):
    """Raised within user code that has been asked to stop and does not ask itself."""


class Callee(NamedTuple):
    """A function that has been found, and what its worker has to know about it."""

    function: Callable[..., Any]
    parameters: Parameters | None  # none of some builtins
    is_async: bool
    wants_context: bool
    isolation: str
    args: list[Any]
    kwargs: dict[str, Any]
    pickled: bool
    limit: CallLimit | None = None
    # It is called once for many tasks, with a list of what each of them brings.
    batch: BatchSize | None = None
    codec: PayloadCodec | None = None


class BadCall(Exception):
    """The attempt failed before its function ran."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


def find_function(
    entrypoint: Entrypoint, limit: CallLimit | None = None, codec: PayloadCodec | None = None
) -> Callee:
    """Import or unpickle what an entrypoint names, within a limit. Raises BadCall."""
    if limit is not None and entrypoint.pickle is not None:
        raise BadCall(limit.refuse_pickles())
    entrypoint = decoded(entrypoint, codec)
    steps: list[Any] = []
    try:
        if entrypoint.pickle is not None:
            found, args, kwargs = unpickle(entrypoint.pickle)
        else:
            assert entrypoint.function is not None, "a command is not a function"
            steps = _import(entrypoint.function)
            found = steps[-1]
            args, kwargs = entrypoint.args, entrypoint.kwargs
    except (Exception, SystemExit) as error:
        if entrypoint.pickle is not None:
            raise unopened(error, "fetch") from error
        raise BadCall(failure(error, "fetch")) from error
    if limit is not None and entrypoint.function is not None:
        refusal = limit.find_refusal(entrypoint.function, steps)
        if refusal is not None:
            raise BadCall(refusal)
    isolation, batch = "auto", None
    if isinstance(found, TaskFunction):
        isolation, batch = found.options.isolation, found.batch
        found = found.function
    if not callable(found):
        what = entrypoint.function or "what was pickled"
        problem = errors.PermanentError(f"{what} is not a function")
        raise BadCall(failure(problem, "fetch"))
    signature = _signature_of(found)
    read = Parameters if batch is None else BatchParameters
    return Callee(
        found,
        None if signature is None else read(found, signature),
        _is_async(found),
        signature is not None and CONTEXT_PARAMETER in signature.parameters,
        isolation,
        args,
        kwargs,
        entrypoint.pickle is not None,
        limit,
        batch,
        codec,
    )


class Functions:
    """The functions that were found lately; each is imported and looked at once."""

    def __init__(
        self,
        limit_of: Callable[[Entrypoint], CallLimit | None] = lambda _: None,
        *,
        codec: PayloadCodec | None = None,
        functions_max: int = 1000,
    ) -> None:
        self._limit_of = limit_of
        self.codec = codec
        self._functions_max = functions_max
        self._found: dict[str, Callee] = {}

    def find(self, entrypoint: Entrypoint) -> Callee:
        """Find a function with the arguments of its job, in any thread. Raises BadCall."""
        path = entrypoint.function
        if path is None:
            return find_function(entrypoint, self._limit_of(entrypoint), self.codec)
        callee = self._found.get(path)
        if callee is None:
            if len(self._found) >= self._functions_max:
                self._found.clear()
            # Without the arguments of this one job, which may be large.
            bare = Entrypoint(function=path)
            callee = self._found[path] = find_function(bare, self._limit_of(bare), self.codec)
        return _with_arguments(callee, decoded(entrypoint, self.codec))

    def find_known(self, job: ClaimedJob) -> Callee | None:
        """Find a function that can be called without running user code first; None if it cannot."""
        entrypoint = job.entrypoint
        callee = self._found.get(entrypoint.function or "")
        if callee is None or entrypoint.results or job.compensates_job_id is not None:
            return None
        if has_payloads(entrypoint):
            return None
        return _with_arguments(callee, entrypoint)


def _with_arguments(callee: Callee, entrypoint: Entrypoint) -> Callee:
    if not entrypoint.args and not entrypoint.kwargs:
        return callee
    return callee._replace(args=entrypoint.args, kwargs=entrypoint.kwargs)


def arguments_of(
    callee: Callee, text: msgspec.Raw, *, fan_out: bool, undoes: bool = False, context: Context
) -> tuple[list[Any], dict[str, Any]]:
    """Put the arguments of a call together: the input first, where there are inputs.

    What came as JSON becomes what the annotations say. Raises BadCall.
    """
    args, kwargs = list(callee.args), dict(callee.kwargs)
    try:
        if undoes:
            record = msgspec.json.decode(text, type=UndoRecord)
            if callee.limit is not None and (record.is_pickled or record.pickle is not None):
                raise BadCall(callee.limit.refuse_pickles())
            args.insert(0, open_encoded(lambda: read_undo(record, callee.codec)))
        elif fan_out:
            value = _decode(text)
            if find_codec_name(value) is not None:
                encoded = value
                value = open_encoded(lambda: decode_value(callee.codec, encoded))
            args.insert(0, unpickle(value) if callee.pickled else value)
    except BadCall:
        raise
    except Exception as error:
        raise unopened(error, "input") from error
    if callee.wants_context:
        kwargs[CONTEXT_PARAMETER] = context
    parameters = callee.parameters
    if parameters is None:
        return args, kwargs
    try:
        if callee.pickled:
            parameters.signature.bind(*args, **kwargs)
            return args, kwargs
        return parameters.read(args, kwargs, since=1 if undoes else 0)
    except (TypeError, DoesNotFit) as error:
        raise BadCall(failure(errors.ValidationError(str(error)), "input")) from error
    except Exception as error:  # by code of the user's that makes an object of it
        raise unreadable(error) from error


def decoded(entrypoint: Entrypoint, codec: PayloadCodec | None) -> Entrypoint:
    """Give an entrypoint whose arguments can be read. Raises BadCall."""
    return open_encoded(lambda: decode_entrypoint(codec, entrypoint))


def open_encoded(read: Callable[[], Opened]) -> Opened:
    """Read what may be encoded. Raises BadCall: for good, unless the codec says otherwise."""
    try:
        return read()
    except errors.Invalid as error:
        raise BadCall(failure(errors.ValidationError(str(error)), "input")) from error
    except PASSING as error:
        raise BadCall(failure(error, "input")) from error


def unreadable(error: BaseException) -> BadCall:
    """Describe an argument that cannot be read."""
    return BadCall(msgspec.structs.replace(failure(error, "input"), error_class="ParseError"))


def unopened(error: BaseException, stage: Stage) -> BadCall:
    """Describe a pickle that cannot be opened: a function, an input, a result of another job.

    Another worker may have the code that this one lacks; what is broken is broken for all of them.
    """
    if isinstance(error, ImportError | AttributeError):
        return BadCall(failure(error, stage))
    return unreadable(error)


def describe_progress(fraction: float, message: object | None) -> Progress:
    """Say how far a task has got in words that can be kept: a long message loses its end."""
    return Progress(
        fraction, None if message is None else storable(str(message), MESSAGE_LENGTH_MAX)
    )


def _import(path: str) -> list[Any]:
    """Import a module, and find what is named in it; gives each step from there on."""
    module_name, _, attribute = path.partition(":")
    found: Any = importlib.import_module(module_name)
    return [found := getattr(found, name) for name in attribute.split(".")]


def _is_async(function: Any) -> bool:
    """Tell whether a call gives a coroutine: of a function, or of an object that can be called."""
    call = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _signature_of(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # built in, without a signature
        return None
