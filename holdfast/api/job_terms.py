"""The terms under which a job was submitted, as they are shown, and as `explain` tells them."""

import msgspec

from holdfast.api.convert import ms, say_time, to_ms
from holdfast.model.submitting.unique import Unique
from holdfast.model.work.states import TaskState
from holdfast.store.reads.work.jobs import JobRow
from holdfast.store.reads.work.tasks import TaskRow
from holdfast.store.reads.work.terms import TermsRow
from holdfast.wire.terms import JobFiring, JobTerms, JobUnique

_KINDS = {"caught_up": ", caught up", "manual": ", by hand", "backfill": ", by a backfill"}


class _Rule(msgspec.Struct, frozen=True):
    """What a spec says of uniqueness."""

    unique: Unique | None = None


def show_terms(job: JobRow, row: TermsRow, *, shows_key: bool) -> JobTerms | None:
    """Show the terms of a job that comes with its spec; None if it has none."""
    assert job.spec is not None, "terms stand in the spec"
    rule = msgspec.json.decode(job.spec, type=_Rule).unique
    firing = unique = None
    if row.schedule is not None and row.instant is not None and row.kind is not None:
        firing = JobFiring(schedule=row.schedule, instant_ms=to_ms(row.instant), kind=row.kind)
    if rule is not None:
        unique = JobUnique(
            by=_tell_compared(rule),
            states=list(rule.states or ()),
            on_conflict=rule.on_conflict,
            holds_key=row.unique_key is not None,
            key=row.unique_key if shows_key else None,
        )
    expires_at = row.expires_at if job.pending and job.cancel_mode is None else None
    terms = JobTerms(expires_at_ms=ms(expires_at), unique=unique, firing=firing)
    return None if terms == JobTerms() else terms


def _tell_compared(rule: Unique) -> str:
    """Name what two jobs have in common, without its value."""
    compared = "all that it is called with"
    if rule.values is not None:
        compared = "values that were given"
    elif rule.arguments is not None:
        compared = ", ".join(rule.arguments) or "its type"
    if rule.owner:
        compared += ", for its owner"
    if rule.period is not None:
        compared += f", once in {rule.period:g} s"
    return compared


def describe_terms(terms: JobTerms | None, row: TermsRow, task: TaskRow) -> list[str]:
    """Tell people by when a task has to start, how its job is unique, and of which schedule."""
    lines: list[str] = []
    if terms is None:
        return lines
    is_untried = task.state == TaskState.PENDING and task.attempt == 0
    if row.expires_at is not None and terms.expires_at_ms is not None and is_untried:
        lines.append(f"It expires if nobody has started it by {say_time(row.expires_at)}.")
    if terms.unique is not None:
        lines.append(_describe_unique(terms.unique))
    if terms.firing is not None and row.instant is not None:
        how = _KINDS.get(terms.firing.kind, "")
        due = say_time(row.instant)
        lines.append(f"Its job is that of schedule {terms.firing.schedule} for {due}{how}.")
    return lines


def _describe_unique(unique: JobUnique) -> str:
    states = " or ".join(state.replace("_", " ") for state in unique.states)
    rule = f"Its job is unique by {unique.by}: while it is {states}, there is no other like it"
    if not unique.holds_key:
        return f"{rule}. It has let go of its key."
    return f"{rule}. It holds key {unique.key}." if unique.key else f"{rule}; it holds its key."
