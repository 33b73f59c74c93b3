"""Errors as HTTP answers: one table from exception to status and code."""

import logging
from typing import Any

import msgspec

from holdfast import errors
from holdfast.store.database import LockTimeout
from holdfast.wire.answers import ErrorAnswer, ErrorBody

log = logging.getLogger("holdfast.api")


class UnsupportedMediaType(errors.HoldfastError):
    """The body is not declared to be what the route takes."""

    def __init__(self, kind: str, wanted: str = "application/json") -> None:
        super().__init__(f"Content-Type: is {kind}; send {wanted}")
        self.field = "Content-Type"


class ForeignOrigin(errors.HoldfastError):
    """A page of another site has made a browser send this request."""

    def __init__(self, origin: str) -> None:
        super().__init__(f"Origin: {origin} is not this server; no other site may call it")
        self.field = "Origin"


class ForeignHost(errors.HoldfastError):
    """The request was meant for a host that this server is not known to be."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"Host: {host} is not known to be this server; if it is, start it with --allowed-host "
            "(HOLDFAST_ALLOWED_HOSTS) and that name"
        )
        self.field = "Host"


# The first class that fits counts, so the special ones stand before the general.
_TABLE: tuple[tuple[type[errors.HoldfastError], int, str], ...] = (
    (ForeignOrigin, 403, "forbidden"),
    (ForeignHost, 403, "forbidden"),
    (UnsupportedMediaType, 415, "unsupported_media_type"),
    (errors.TooLarge, 413, "too_large"),
    (errors.Invalid, 400, "invalid"),
    (errors.NotFound, 404, "not_found"),
    (errors.KeyReused, 409, "key_reused"),
    (errors.IllegalMove, 409, "illegal_move"),
    (errors.LeaseConflict, 409, "lease_conflict"),
    (errors.Refused, 409, "refused"),
    (errors.Overloaded, 429, "overloaded"),
    (errors.Stopping, 503, "stopping"),
    (LockTimeout, 503, "busy"),
    (errors.Unavailable, 503, "unavailable"),
)
RETRY_AFTER_SECONDS = 1
RETRY_AFTER_STATUSES = (429, 503)
INTERNAL = ErrorBody("internal", "the server failed; its log says why")
_encode = msgspec.json.Encoder().encode


def status_of(error: errors.HoldfastError) -> int:
    """Choose the HTTP status for an error."""
    return next(status for kind, status, _ in _TABLE if isinstance(error, kind))


def body_of(error: errors.HoldfastError) -> ErrorBody:
    """Describe an error for programs and people."""
    code = next(code for kind, _, code in _TABLE if isinstance(error, kind))
    details: dict[str, Any] | None = None
    if isinstance(error, errors.LeaseConflict):
        details = {"reason": error.reason, "task_id": error.task_id}
    elif isinstance(error, errors.KeyReused):
        of_job = error.job_id is not None
        details = {"job_id": str(error.job_id)} if of_job else {"request": error.request}
    elif isinstance(error, errors.TooLarge):
        details = {"size": error.size, "limit": error.limit}
    elif isinstance(error, errors.IllegalMove):
        details = {"state": error.state}
    return ErrorBody(code, str(error), getattr(error, "field", None), details)


def encode_error(body: ErrorBody) -> bytes:
    """Write an error as every answer that is not a success is written."""
    return _encode(ErrorAnswer(body))


def tell(problem: Exception) -> ErrorBody:
    """Describe what went wrong with one of many; what is not ours is not told to strangers."""
    if isinstance(problem, errors.HoldfastError):
        return body_of(problem)
    log.error("one of many failed", exc_info=problem)
    return INTERNAL
