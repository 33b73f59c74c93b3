"""Errors of the server as exceptions again: the other side of its table of codes."""

import ast
import re
from collections.abc import Callable

import msgspec

from holdfast import errors
from holdfast.wire.answers import ErrorAnswer, ErrorBody

SAID_MAX = 200
_MAY_PASS = (408, 425, 429, 502, 503, 504)
_NOT_FOUND = re.compile(r"there is no (.+) (\S+)")
_KEY = re.compile(r"idempotency_key: ('.*'|\".*\") was used for ", re.DOTALL)
_SUBJECT = re.compile(r"cannot .*?((?:job|task|dead letter|worker|endpoint) \S+): it is ")
_UNIT = re.compile(r"\d+ (\S+) is over the limit of ")
_decode = msgspec.json.Decoder(ErrorAnswer).decode


class ServerFailed(errors.Unavailable):
    """The server stumbled over this very request; trying again seldom helps."""


def read_error(status: int, content: bytes) -> errors.HoldfastError:
    """Rebuild the exception that an answer describes."""
    try:
        return as_exception(_decode(content).error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return not_holdfast(status, content)


def not_holdfast(status: int, content: bytes) -> errors.HoldfastError:
    """Say that something between us and the server, or in its place, has answered."""
    said = content[:SAID_MAX].decode(errors="replace")
    text = f"HTTP {status} from something that is not Holdfast; check the server's URL: {said}"
    if status in _MAY_PASS:
        return errors.Unavailable(text)
    return ServerFailed(text) if status >= 500 else errors.Refused(text)


def as_exception(body: ErrorBody) -> errors.HoldfastError:
    """Rebuild the exception that an error describes, with the text that the server gave it."""
    error = _BUILDERS.get(body.code, _refused)(body)
    error.args = (body.message,)
    return error


def _refused(body: ErrorBody) -> errors.HoldfastError:
    return errors.Refused(body.message)


def _invalid(body: ErrorBody) -> errors.HoldfastError:
    field = body.field or "request"
    return errors.Invalid(field, body.message.removeprefix(f"{field}: "))


def _too_large(body: ErrorBody) -> errors.HoldfastError:
    details = body.details or {}
    unit = _UNIT.search(body.message)
    return errors.TooLarge(
        body.field or "request",
        details.get("size", 0),
        details.get("limit", 0),
        unit=unit[1] if unit else "bytes",
    )


def _not_found(body: ErrorBody) -> errors.HoldfastError:
    named = _NOT_FOUND.fullmatch(body.message)
    return errors.NotFound(*named.groups()) if named else errors.NotFound("route", body.message)


def _key_reused(body: ErrorBody) -> errors.HoldfastError:
    quoted = _KEY.match(body.message)
    key = ast.literal_eval(quoted[1]) if quoted else ""
    details = body.details or {}
    job_id = details.get("job_id")
    return errors.KeyReused(
        key, None if job_id is None else int(job_id), request=details.get("request", "submit")
    )


def _illegal_move(body: ErrorBody) -> errors.HoldfastError:
    subject = _SUBJECT.match(body.message)
    state = (body.details or {}).get("state", "")
    return errors.IllegalMove(subject[1] if subject else "", state, "")


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
    "internal": lambda body: ServerFailed(body.message),
}
