"""Errors as HTTP answers: a code, a text, and the parts of which the client makes it again."""

import logging

import msgspec

from holdfast import errors
from holdfast.wire.answers import ErrorAnswer, ErrorBody

log = logging.getLogger("holdfast.api")


class UnsupportedMediaType(errors.Invalid):
    """The body is not declared to be what the route takes."""

    code = "unsupported_media_type"

    def __init__(self, kind: str, wanted: str = "application/json") -> None:
        super().__init__("Content-Type", f"is {kind}; send {wanted}")


class ForeignOrigin(errors.Invalid):
    """A page of another site has made a browser send this request."""

    code = "forbidden"

    def __init__(self, origin: str) -> None:
        super().__init__("Origin", f"{origin} is not this server; no other site may call it")


class ForeignHost(errors.Invalid):
    """The request was meant for a host that this server is not known to be."""

    code = "forbidden"

    def __init__(self, host: str) -> None:
        super().__init__(
            "Host",
            f"{host} is not known to be this server; if it is, start it with --allowed-host "
            "(HOLDFAST_ALLOWED_HOSTS) and that name",
        )


_STATUSES = {
    "invalid": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_allowed": 403,
    "not_found": 404,
    "key_reused": 409,
    "not_unique": 409,
    "illegal_move": 409,
    "lease_conflict": 409,
    "refused": 409,
    "too_large": 413,
    "unsupported_media_type": 415,
    "overloaded": 429,
    "limit_reached": 429,
    "internal": 500,
    "stopping": 503,
    "busy": 503,
    "unavailable": 503,
}
RETRY_AFTER_SECONDS = 1
RETRY_AFTER_STATUSES = (429, 503)
INTERNAL = ErrorBody("internal", "the server failed; its log says why")
_encode = msgspec.json.Encoder().encode


def status_of(error: errors.HoldfastError) -> int:
    """Choose the HTTP status for an error."""
    return _STATUSES[error.code]


def body_of(error: errors.HoldfastError) -> ErrorBody:
    """Describe an error for programs and people."""
    parts = {name: getattr(error, name) for name in error.parts}
    field = parts.pop("field", None)
    return ErrorBody(error.code, str(error), field, parts or None)


def encode_error(body: ErrorBody) -> bytes:
    """Write an error as every answer that is not a success is written."""
    return _encode(ErrorAnswer(body))


def describe(problem: Exception) -> ErrorBody:
    """Describe what went wrong with one of many; of what is not ours only the log knows more."""
    if isinstance(problem, errors.HoldfastError):
        return body_of(problem)
    log.error("one of many failed", exc_info=problem)
    return INTERNAL
