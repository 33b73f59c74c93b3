"""The names under which events can be asked for: their own, and those of other systems."""

from collections.abc import Sequence

from holdfast.errors import Invalid
from holdfast.model.work.events import USER, USER_PREFIX
from holdfast.rules.submitting.submission import check_text

KIND_LENGTH_MAX = 256

TYPES = (
    "submitted",
    "started",
    "claimed",
    "placed",
    "building",
    "succeeded",
    "failed",
    "killed",
    "worker_failed",
    "retried",
    "unschedulable",
    "dead_lettered",
    "cancel_requested",
    "replayed",
    "compensated",
)
# Notes beside the log: listed only where one asks for them by name, and never in a stream.
NOTES = ("lease_renewed", "heartbeat", "progress", USER)
ALIASES = {
    "job_claimed": ("claimed", "placed"),  # leased to a worker, whoever chose it
    "job_started": ("started",),
    "job_lease_renewed": ("lease_renewed",),
    "job_heartbeat": ("heartbeat",),
    "job_succeeded": ("succeeded",),
    "job_failed": ("failed",),
    "job_cancelled": ("killed",),
    "job_dead_lettered": ("dead_lettered",),
    "job_compensated": ("compensated",),
}
_KNOWN = {**{name: (name,) for name in (*TYPES, *NOTES)}, **ALIASES}


def parse_event_types(text: str | None, field: str = "type") -> tuple[str, ...] | None:
    """Read the type of event that is asked for, which may be several of ours; none means all."""
    if text is None:
        return None
    if text.startswith(USER_PREFIX) and text != USER_PREFIX:
        check_text(field, text, len(USER_PREFIX) + KIND_LENGTH_MAX)
        return (text,)
    types = _KNOWN.get(text.lower())
    if types is None:
        known = f"{', '.join(_KNOWN)}, or {USER_PREFIX}KIND"
        raise Invalid(field, f"{text!r} is not a type of event; use one of {known}")
    return types


def find_note(types: Sequence[str] | None) -> str | None:
    """Find the kind of note that is asked for, which stands beside the log; None for events."""
    kind = types[0] if types else ""
    return kind if kind in NOTES or kind.startswith(USER_PREFIX) else None


def parse_logged_types(text: str | None, field: str = "type") -> tuple[str, ...] | None:
    """Read the type of event that is followed, where there are no notes."""
    types = parse_event_types(text, field)
    if find_note(types) is not None:
        raise _per_job(field, text)
    return types


def parse_searched_types(text: str | None, field: str = "type") -> tuple[str, ...] | None:
    """Read the type of event that is searched for in all jobs: of notes, those of user code."""
    types = parse_event_types(text, field)
    note = find_note(types)
    if note is not None and note != USER and not note.startswith(USER_PREFIX):
        raise _per_job(field, text)
    return types


def _per_job(field: str, text: str | None) -> Invalid:
    return Invalid(field, f"{text} is kept with its job; list the events of one job by its id")
