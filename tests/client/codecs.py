"""Codecs with keys that everybody knows, and functions that are called by them."""

import base64
from hashlib import sha256
from typing import Any

from cryptography.fernet import Fernet, MultiFernet

import holdfast as hf

MARKER = "amber-heron-4711"
QUICK = hf.Backoff(base=0.01)


class FernetCodec:
    """Encrypts by the first of its keys, and decrypts by all of them."""

    name = "fernet"

    def __init__(self, *keys: str) -> None:
        self._fernet = MultiFernet(
            [Fernet(base64.urlsafe_b64encode(sha256(key.encode()).digest())) for key in keys]
        )

    def encode(self, content: bytes) -> bytes:
        """Encrypt."""
        return self._fernet.encrypt(content)

    def decode(self, content: bytes) -> bytes:
        """Decrypt."""
        return self._fernet.decrypt(content)


codec = FernetCodec("new", "old")
rotated_out = FernetCodec("old")
stranger = FernetCodec("another")


class Away:
    """A codec whose key service does not answer."""

    name = "away"

    def encode(self, content: bytes) -> bytes:
        """Do without the service."""
        return content

    def decode(self, content: bytes) -> bytes:
        """Ask the service."""
        raise ConnectionRefusedError("the key service is away")


away = Away()


@hf.task(queue="codec")
def join(left: str, *, right: str = "") -> str:
    """Join two texts, in a thread."""
    return left + right


@hf.task(queue="codec")
async def join_later(left: str, *, right: str = "") -> str:
    """Join two texts, in a coroutine."""
    return left + right


@hf.task(queue="codec", isolation="process")
def join_apart(left: str, *, right: str = "") -> str:
    """Join two texts, in a process."""
    return left + right


@hf.task(queue="codec", pickled=True)
def join_pickled(left: str, *, right: str = "") -> set[str]:
    """Join two texts into what JSON has no word for."""
    return {left + right}


@hf.task(queue="codec", batch=2, within=0.05)
def join_batch(lefts: list[str]) -> Any:
    """Join texts with themselves, several tasks at a time."""
    return [left + left for left in lefts]


@hf.task(queue="codec")
def count_letters(texts: dict[str, list[str]]) -> int:
    """Count the letters of texts that others return."""
    return sum(len(text) for inner in texts.values() for text in inner)


@hf.task(queue="codec", retries=1, backoff=QUICK)
def resume(*, ctx: hf.Context) -> Any:
    """Leave something for the second attempt."""
    if ctx.attempt == 0:
        ctx.checkpoint.save({"reached": MARKER})
        raise hf.TransientError("again")
    return ctx.checkpoint.load()


@hf.task(queue="codec", retries=1, backoff=QUICK, isolation="process")
def resume_apart(*, ctx: hf.Context) -> Any:
    """Leave something for the second attempt, in a process."""
    return resume(ctx=ctx)


@hf.task(queue="codec")
def ask_child(text: str, *, ctx: hf.Context) -> str:
    """Submit a job in the name of this one, in two ways."""
    first = join.submit(text).result(timeout=30)
    return first + ctx.submit(join, text).result(timeout=30)


@hf.task(queue="codec", isolation="process")
def ask_child_apart(text: str) -> str:
    """Submit a job in the name of this one, from a process."""
    return join.submit(text, right="!").result(timeout=30)


@hf.task(queue="codec")
def undo(call: hf.Undo, why: str) -> list[Any]:
    """Tell what is to be undone."""
    return [call.input, call.args, call.kwargs, why]


@hf.task(queue="codec", on_exhausted="fail")
def fail(left: str, *, right: str = "") -> None:
    """Fail, and be undone."""
    raise hf.PermanentError("no")
