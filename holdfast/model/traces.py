"""Trace contexts as text, as W3C has it, and ids that follow from others.

Within Holdfast one text carries both: the traceparent, and behind a space the tracestate if there
is one. What cannot be read is no context; it is never an error.
"""

import re
from hashlib import sha256
from typing import Literal, NamedTuple, Self
from uuid import uuid4

STATE_LENGTH_MAX = 512
SAMPLED = 1
_PARENT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_STATE = re.compile(r"[\x20-\x7e]+")
# Spans whose ids need no storing: everybody can work them out.
Step = Literal["place", "run"]


class TraceContext(NamedTuple):
    """A span, wherever it is; the ids are hexadecimal, 32 and 16 digits."""

    trace_id: str
    span_id: str
    flags: int = SAMPLED
    state: str = ""

    @classmethod
    def read(cls, text: str | None) -> Self | None:
        """Read a context from the text that carries it."""
        if text is None:
            return None
        parent, _, state = text.partition(" ")
        found = _PARENT.fullmatch(parent)
        if found is None:
            return None
        version, trace_id, span_id, flags, rest = found.groups()
        is_zero = int(trace_id, 16) == 0 or int(span_id, 16) == 0
        if is_zero or (rest and version == "00"):
            return None
        state = state.strip()
        is_fit = len(state) <= STATE_LENGTH_MAX and _STATE.fullmatch(state) is not None
        return cls(trace_id, span_id, int(flags, 16), state if is_fit else "")

    @property
    def parent(self) -> str:
        """The traceparent."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"

    def __str__(self) -> str:
        return f"{self.parent} {self.state}" if self.state else self.parent


def make_trace_id() -> str:
    """Make the id of a new trace."""
    return uuid4().hex


def as_trace_id(text: str) -> str:
    """Make an id that fits a trace of whatever a user calls his: the same one each time."""
    if _TRACE_ID.fullmatch(text) and int(text, 16):
        return text
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def name_trace(trace_parent: str | None, wanted: str | None) -> str:
    """Choose what a job's trace is called: as its context says, or its spec, or by a new id."""
    context = TraceContext.read(trace_parent)
    if context is None:
        return wanted or make_trace_id()
    is_same = wanted is not None and as_trace_id(wanted) == context.trace_id
    return wanted if wanted is not None and is_same else context.trace_id


def span_id_of(step: Step, trace_id: str, *, task_id: str, attempt: int) -> str:
    """Work out the id of a span that other processes refer to without having heard of it."""
    return sha256(f"{step} {trace_id} {task_id} {attempt}".encode()).hexdigest()[:16]


def find_run(
    trace_parent: str | None, trace_id: str | None, *, task_id: str, attempt: int
) -> TraceContext | None:
    """Find the context of a run: the one it was given, or its own within its job's trace."""
    context = TraceContext.read(trace_parent)
    if context is not None or trace_id is None:
        return context
    ours = as_trace_id(trace_id)
    return TraceContext(ours, span_id_of("run", ours, task_id=task_id, attempt=attempt))
