"""Payloads that the server cannot read: encoded here and by workers, and marked by their codec.

arguments ──► encode ──► {"$holdfast_codec": "fernet", ...} ──► server ──► decode ──► function
"""

import base64
import importlib
import os
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from holdfast.errors import DependencyUnavailable, Invalid, TransientError
from holdfast.model.submitting.payloads import CODEC_FIELD, find_codec_name
from holdfast.model.submitting.spec import Entrypoint, KeyOfInput
from holdfast.model.submitting.unique import Unique
from holdfast.wire.raw import encode_json
from holdfast.wire.requests import JobRequest

if TYPE_CHECKING:
    from holdfast.client.context import Context

VARIABLE = "HOLDFAST_CODEC"
VERSION = 1
# What says that it may be another time: the service that has the key is away.
PASSING = (TransientError, DependencyUnavailable, OSError)
_MARK = CODEC_FIELD.encode()
_Text = TypeVar("_Text", msgspec.Raw, bytes)


class Codec(Protocol):
    """What a user brings; called in any thread. Its `name`, or that of its class, is no secret."""

    def encode(self, content: bytes, /) -> bytes:
        """Make of a payload, JSON, what the server may keep."""

    def decode(self, content: bytes, /) -> bytes:
        """Make the payload of that again."""


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """An encoded payload, as it goes over the wire and stands in the database."""

    codec: str = msgspec.field(name=CODEC_FIELD)
    version: int = msgspec.field(name="v", default=VERSION)
    content: str = msgspec.field(name="data")


class PayloadCodec:
    """A codec with its name, as it is used here."""

    def __init__(self, codec: Codec) -> None:
        for method in ("encode", "decode"):
            if not callable(getattr(codec, method, None)):
                found = type(codec).__name__
                problem = f"is a {found} without {method}(); give encode and decode, bytes to bytes"
                raise Invalid("codec", problem)
        self.name = str(getattr(codec, "name", type(codec).__name__))
        self._codec = codec

    def encode(self, text: bytes) -> msgspec.Raw:
        """Encode a JSON text; one that is encoded stays as it is."""
        if _find_payload(text) is not None:
            return msgspec.Raw(text)
        try:
            content = base64.b64encode(self._codec.encode(text)).decode()
        except PASSING:
            raise
        except Exception as error:
            raise Invalid("codec", f"{self.name!r} cannot encode: {_say(error)}") from error
        return msgspec.Raw(msgspec.json.encode(Payload(codec=self.name, content=content)))

    def decode(self, payload: Payload) -> bytes:
        """Give the JSON text that a payload was made of."""
        try:
            content = self._codec.decode(base64.b64decode(payload.content, validate=True))
            msgspec.json.decode(content)
        except PASSING:
            raise
        except Exception as error:
            problem = (
                f"{self.name!r} cannot decode a payload of codec {payload.codec!r}: {_say(error)}; "
                "give it the key by which that was encoded"
            )
            raise Invalid("codec", problem) from error
        return bytes(content)


def read_codec(given: Codec | PayloadCodec | str | None) -> PayloadCodec | None:
    """Take what was given as a codec: an object, or where to import it from."""
    if given is None or isinstance(given, PayloadCodec):
        return given
    return load_codec(given) if isinstance(given, str) else PayloadCodec(given)


@cache
def load_codec(path: str) -> PayloadCodec:
    """Import a codec, `module:object`, once in a process."""
    module_name, _, names = path.partition(":")
    if not module_name or not names:
        raise Invalid("codec", f"{path!r} is no codec; write MODULE:OBJECT")
    try:
        found: Any = importlib.import_module(module_name)
        for name in names.split("."):
            found = getattr(found, name)
    except (Exception, SystemExit) as error:  # users' code raises what it likes
        raise Invalid("codec", f"{path!r} cannot be imported: {_say(error)}") from error
    return PayloadCodec(found)


def default_codec(context: "Context | None") -> PayloadCodec | None:
    """Choose the codec where none was named: within a task its worker's, else HOLDFAST_CODEC."""
    if context is not None:
        return context.codec
    return read_codec(os.environ.get(VARIABLE) or None)


def decode_value(codec: PayloadCodec | None, value: Any) -> Any:
    """Decode a value that came as JSON; a plain one is what it is. Raises Invalid."""
    if find_codec_name(value) is None:
        return value
    return msgspec.json.decode(_decode(codec, value))


def decode_text(codec: PayloadCodec | None, text: _Text) -> _Text:
    """Decode a JSON text; a plain one is what it is. Raises Invalid."""
    value = _find_payload(bytes(text))
    return text if value is None else type(text)(_decode(codec, value))


def encode_request(codec: PayloadCodec | None, request: JobRequest) -> JobRequest:
    """Encode what a job is called with; refuses what the server would have to read."""
    if codec is None:
        return request
    check_readable(codec, request.entrypoint, "command")
    if request.compensation is not None:
        check_readable(codec, request.compensation, "compensation")
    check_unique(codec, request.unique)
    check_key(codec, request.concurrency_key)
    if request.idempotency_key is not None:
        problem = (
            f"has a repeat compared with the first, and what codec {codec.name!r} encodes looks "
            "different each time; give unique=Unique(values=[...]) instead"
        )
        raise Invalid("idempotency_key", problem)
    changed: dict[str, Any] = {"entrypoint": _encode_call(codec, request.entrypoint)}
    if request.inputs is not None:
        changed["inputs"] = _encode_all(codec, request.inputs)
    if request.compensation is not None:
        changed["compensation"] = _encode_call(codec, request.compensation)
    return msgspec.structs.replace(request, **changed)


def check_readable(codec: PayloadCodec, entrypoint: Entrypoint, field: str) -> None:
    """Refuse a command: no program would know what to do with what is encoded."""
    if not entrypoint.is_function:
        problem = f"cannot read what codec {codec.name!r} encodes, nor is it encoded itself"
        raise Invalid(field, f"{problem}; use a function, or a Client(codec=None) for commands")


def check_unique(codec: PayloadCodec, unique: Unique | None) -> None:
    """Refuse to compare arguments: encoded ones look different each time."""
    if unique is not None and (unique.values is None or unique.arguments is not None):
        problem = f"compares arguments, which codec {codec.name!r} encodes"
        raise Invalid("unique", f"{problem}; give unique=Unique(values=[...]), which are readable")


def check_key(codec: PayloadCodec, key: str | KeyOfInput | None) -> None:
    """Refuse a key that is part of what is encoded, and would be known by it."""
    if isinstance(key, KeyOfInput) and key.input is not None:
        problem = f"reads the input, which codec {codec.name!r} encodes; give the key as a text"
        raise Invalid("concurrency_key", problem)


def decode_entrypoint(codec: PayloadCodec | None, entrypoint: Entrypoint) -> Entrypoint:
    """Decode what a function is called with; what is plain is not copied. Raises Invalid."""
    args, kwargs, pickle = entrypoint.args, entrypoint.kwargs, entrypoint.pickle
    if pickle is not None and pickle.startswith("{"):  # base64 never does
        pickle = msgspec.json.decode(decode_text(codec, pickle.encode()), type=str)
        return msgspec.structs.replace(entrypoint, pickle=pickle)
    if not has_payloads(entrypoint):
        return entrypoint
    return msgspec.structs.replace(
        entrypoint,
        args=[decode_value(codec, value) for value in args],
        kwargs={name: decode_value(codec, value) for name, value in kwargs.items()},
    )


def has_payloads(entrypoint: Entrypoint) -> bool:
    """Tell whether an argument was encoded."""
    for value in entrypoint.args:
        if find_codec_name(value) is not None:
            return True
    return any(find_codec_name(value) is not None for value in entrypoint.kwargs.values())


def _encode_call(codec: PayloadCodec, entrypoint: Entrypoint) -> Entrypoint:
    if entrypoint.pickle is not None:
        is_encoded = entrypoint.pickle.startswith("{")
        text = entrypoint.pickle.encode() if is_encoded else encode_json(entrypoint.pickle)
        return msgspec.structs.replace(entrypoint, pickle=bytes(codec.encode(text)).decode())
    names, values = entrypoint.kwargs.keys(), entrypoint.kwargs.values()
    return msgspec.structs.replace(
        entrypoint,
        args=_encode_all(codec, entrypoint.args),
        kwargs=dict(zip(names, _encode_all(codec, values), strict=True)),
    )


def _encode_all(codec: PayloadCodec, values: Iterable[Any]) -> list[msgspec.Raw]:
    return [
        codec.encode(bytes(value) if isinstance(value, msgspec.Raw) else encode_json(value))
        for value in values
    ]


def _find_payload(text: bytes) -> dict[str, Any] | None:
    """Read an encoded payload; most texts are none, and not read."""
    if not text.startswith(b"{") or _MARK not in text:
        return None
    value = msgspec.json.decode(text)
    return None if find_codec_name(value) is None else value


def _decode(codec: PayloadCodec | None, value: dict[str, Any]) -> bytes:
    name = value[CODEC_FIELD]
    if codec is None:
        problem = f"{name!r} has encoded this, and there is no codec here"
        remedy = "start the worker with --codec MODULE:OBJECT, or open hf.Client(codec=...)"
        raise Invalid("codec", f"{problem}; {remedy}")
    try:
        payload = msgspec.convert(value, Payload)
    except msgspec.ValidationError as error:
        raise Invalid("codec", f"{name!r} has encoded what cannot be read: {error}") from error
    if payload.version != VERSION:
        problem = f"{name!r} has encoded this in form {payload.version}; here {VERSION} is known"
        raise Invalid("codec", f"{problem}: update Holdfast here")
    return codec.decode(payload)


def _say(error: BaseException) -> str:
    said = str(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
