"""Errors of the server as exceptions again: the other side of its table of codes."""

from collections.abc import Callable

import msgspec

from holdfast import errors
from holdfast.wire.answers import ErrorAnswer, ErrorBody

_decode = msgspec.json.Decoder(ErrorAnswer).decode


def read_error(status: int, content: bytes) -> errors.HoldfastError:
    """Rebuild the exception that an answer describes."""
    try:
        return as_exception(_decode(content).error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Not ours: something between us and the server has answered.
        said = content[:200].decode(errors="replace")
        return errors.Unavailable(f"HTTP {status} from something that is not Holdfast: {said}")


def as_exception(body: ErrorBody) -> errors.HoldfastError:
    """Rebuild the exception that an error describes."""
    build = _BUILDERS.get(body.code)
    return errors.Refused(body.message) if build is None else build(body)


def _invalid(body: ErrorBody) -> errors.HoldfastError:
    field = body.field or "request"
    return errors.Invalid(field, body.message.removeprefix(f"{field}: "))


def _too_large(body: ErrorBody) -> errors.HoldfastError:
    details = body.details or {}
    return errors.TooLarge(body.field or "request", details.get("size", 0), details.get("limit", 0))


def _not_found(body: ErrorBody) -> errors.HoldfastError:
    kind, _, name = body.message.removeprefix("there is no ").rpartition(" ")
    return errors.NotFound(kind, name)


def _key_reused(body: ErrorBody) -> errors.HoldfastError:
    job_id = int((body.details or {}).get("job_id", 0))
    return errors.KeyReused(body.message.partition("'")[2].partition("'")[0], job_id)


def _illegal_move(body: ErrorBody) -> errors.HoldfastError:
    request, _, subject = body.message.removeprefix("cannot ").partition(" ")
    state = (body.details or {}).get("state", "")
    return errors.IllegalMove(subject.partition(":")[0], state, request)


def _lease_conflict(body: ErrorBody) -> errors.HoldfastError:
    details = body.details or {}
    return errors.LeaseConflict(details.get("task_id"), details.get("reason", body.message))


_BUILDERS: dict[str, Callable[[ErrorBody], errors.HoldfastError]] = {
    "invalid": _invalid,
    "unsupported_media_type": _invalid,
    "too_large": _too_large,
    "not_found": _not_found,
    "key_reused": _key_reused,
    "illegal_move": _illegal_move,
    "lease_conflict": _lease_conflict,
    "overloaded": lambda body: errors.Overloaded(body.message),
    "stopping": lambda body: errors.Stopping(body.message),
    "busy": lambda body: errors.Unavailable(body.message),
    "unavailable": lambda body: errors.Unavailable(body.message),
    "internal": lambda body: errors.Unavailable(body.message),
}
