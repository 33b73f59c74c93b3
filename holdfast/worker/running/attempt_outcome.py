"""How an attempt ended, in words that a server can keep."""

import base64
import signal
import traceback
from typing import Any

import msgspec

from holdfast import errors
from holdfast.client.codec import PayloadCodec
from holdfast.client.signals import is_waiting
from holdfast.model.datasets import OutputEntry
from holdfast.model.work.outcomes import PUT_OFF, PUT_OFF_MS_MAX, PutOff, Stage, Status
from holdfast.wire.raw import encode_json

RESULT_BYTES_MAX = 1 << 20
ERROR_LENGTH_MAX = 16_000
CLASS_LENGTH_MAX = 256
_CLASSES = (
    errors.ValidationError,
    errors.PermanentError,
    errors.DependencyUnavailable,
    errors.TransientError,
)


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How an attempt ended, as it is reported to the server; `result` is a JSON text."""

    status: Status
    exit_code: int | None = None
    error: str | None = None
    error_class: str | None = None
    stage: Stage | None = None
    result: str | None = None
    outputs: list[OutputEntry] = []
    put_off: PutOff | None = None


KILLED = Outcome("killed", error="stopped when asked to")
HANDED_BACK = Outcome("handed_back")
WAITING = Outcome("waiting")
STOPPED = Outcome("failed", None, KILLED.error, "TransientError", "exec")


def success(value: Any, *, pickled: bool, codec: PayloadCodec | None = None) -> Outcome:
    """Describe a function's return; a result that cannot be kept is a failure of its output."""
    if value is None:
        return Outcome("succeeded", 0)
    try:
        if pickled:
            import cloudpickle

            value = base64.b64encode(cloudpickle.dumps(value)).decode()
        content = encode_json(value)
        if codec is not None:
            content = bytes(codec.encode(content))
    except Exception as error:  # noqa: BLE001 - encoding and pickling run user code
        return _unfit(f"the result cannot be kept: {_say(error)}")
    if len(content) > RESULT_BYTES_MAX:
        return _unfit(f"the result is over {RESULT_BYTES_MAX} bytes; store it and return where")
    return Outcome("succeeded", 0, result=content.decode())


def failure(error: BaseException, stage: Stage = "exec") -> Outcome:
    """Describe what user code has raised: what it says first, and where it came from below.

    An attempt that has ended to wait for a signal, or to be put off, has not failed.
    """
    if is_waiting(error):
        return WAITING
    if isinstance(error, errors.RetryAfter):
        return _put_off(error)
    kind = next((known for known in _CLASSES if isinstance(error, known)), type(error))
    head = f"{type(error).__name__}: {_say(error)}".rstrip(": ")
    trace = "".join(traceback.format_exception(error))
    room = max(ERROR_LENGTH_MAX - len(head) - 2, 0)
    text = f"{head}\n\n{trace[-room:]}" if room else head
    return Outcome("failed", None, storable(text, ERROR_LENGTH_MAX), kind.__name__, stage)


def _put_off(error: errors.RetryAfter) -> Outcome:
    """Describe an end that user code has chosen: no traceback, since nothing went wrong."""
    after_ms = min(round(error.seconds * 1000), PUT_OFF_MS_MAX)
    reason = _say(error)
    text = f"{PUT_OFF}: put off for {after_ms / 1000:g} s{' at no cost' if error.free else ''}"
    text = storable(f"{text}: {reason}" if reason else text, ERROR_LENGTH_MAX)
    put_off = PutOff(after_ms, error.free)
    return Outcome("failed", None, text, PUT_OFF, "exec", put_off=put_off)


def name_signal(number: int) -> str:
    """Name a signal that has ended a process."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def storable(text: str, length_max: int) -> str:
    """Replace what Postgres cannot keep in a text, and cut it."""
    plain = text[:length_max].replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return plain[:length_max]


def _unfit(problem: str) -> Outcome:
    text = storable(problem, ERROR_LENGTH_MAX)
    return Outcome("failed", None, text, "PermanentError", "output")


def _say(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - user code, too
        return "(an error that cannot be put into words)"
