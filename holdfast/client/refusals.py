"""Errors of the server as exceptions again: the other side of its table of codes."""

import msgspec

from holdfast import errors
from holdfast.wire.answers import ErrorAnswer, ErrorBody

SAID_MAX = 200
_MAY_PASS = (408, 425, 429, 502, 503, 504)
_decode = msgspec.json.Decoder(ErrorAnswer).decode


class ServerFailed(errors.Unavailable):
    """The server stumbled over this very request; trying again seldom helps."""

    code = "internal"


_KINDS: dict[str, type[errors.HoldfastError]] = {
    kind.code: kind
    for kind in (
        errors.Invalid,
        errors.TooLarge,
        errors.Unauthenticated,
        errors.NotAllowed,
        errors.NotFound,
        errors.KeyReused,
        errors.NotUnique,
        errors.IllegalMove,
        errors.LeaseConflict,
        errors.Overloaded,
        errors.LimitReached,
        errors.Stopping,
        errors.Unavailable,
        ServerFailed,
    )
}
# What a server has words of its own for. `forbidden` is not among them: the server, not the
# request, is the wrong one, so it stays a plain refusal, which workers ask again about.
_KINDS |= {
    "unsupported_media_type": errors.Invalid,
    "busy": errors.Unavailable,
}


def read_error(
    status: int, content: bytes, retry_after: float | None = None
) -> errors.HoldfastError:
    """Rebuild the exception that an answer describes.

    When to ask again counts if the server has too much to do, or is not ours. One of ours that
    stops or misses Postgres says it to strangers: another may stand behind the same address.
    """
    error: errors.HoldfastError
    try:
        error = as_exception(_decode(content).error)
        is_asked_to_wait = isinstance(error, errors.Overloaded)
    except (msgspec.DecodeError, UnicodeDecodeError):
        error = not_holdfast(status, content)
        is_asked_to_wait = isinstance(error, errors.Unavailable)
    if is_asked_to_wait and isinstance(error, errors.Unavailable) and retry_after is not None:
        error.retry_after = retry_after
    return error


def not_holdfast(status: int, content: bytes) -> errors.HoldfastError:
    """Say that something between us and the server, or instead of it, has answered."""
    said = content[:SAID_MAX].decode(errors="replace")
    text = f"HTTP {status} from something that is not Holdfast; check the server's URL: {said}"
    if status in _MAY_PASS:
        return errors.Unavailable(text)
    return ServerFailed(text) if status >= 500 else errors.Refused(text)


def as_exception(body: ErrorBody) -> errors.HoldfastError:
    """Rebuild the exception that an error describes, with the text that the server gave it."""
    kind = _KINDS.get(body.code, errors.Refused)
    return kind.rebuild(body.message, {"field": body.field, **(body.details or {})})
