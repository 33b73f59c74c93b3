"""`holdfast types`: kinds of work, and what operators have decided for each."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from holdfast.cli.app import EXIT_NO
from holdfast.cli.connect import open_client
from holdfast.cli.output.text import moment, span
from holdfast.cli.output.write import (
    Column,
    remark,
    write_fields,
    write_json,
    write_line,
    write_table,
    write_title,
)
from holdfast.cli.settings import Json, Server, check_limit
from holdfast.errors import Invalid

if TYPE_CHECKING:
    from holdfast.wire.policies import PolicyContent, PolicyRequest, TypeStatus

TYPES_SHOWN = 200
CHANGES_SHOWN = 50
app = App(name="types", help="List types of jobs; show, set and unset their policies.")
TypeName = Annotated[str, Parameter(name="TYPE", help="A type of job.")]
Limit = Annotated[int, Parameter(name=["--limit", "-n"], help="How many.")]
_COLUMNS = (Column("type"), Column("defaults", flexible=True), Column("limits", flexible=True))
_CHANGES = (
    Column("version", right=True),
    Column("when"),
    Column("by"),
    Column("defaults", flexible=True),
    Column("limits", flexible=True),
)
# What the flags are called in a policy, where that is not the flag's own name.
_DEFAULTS = {"retries": "max_retries_failure", "preemption_retries": "max_retries_preemption"}
_LIMITS = {
    "min_lease": "lease_min",
    "max_lease": "lease_max",
    "max_retries": "max_retries_failure",
    "max_preemption_retries": "max_retries_preemption",
    "max_timeout": "timeout",
    "max_grace": "grace",
    "max_priority": "priority",
    "max_backoff": "backoff_ceiling",
    "max_tasks": "tasks",
    "max_age": "age",
    "only_on_exhausted": "on_exhausted",
    "only_on_timeout": "on_timeout",
}
_ATTEMPTS = {"attempts": "retries", "max_attempts": "max_retries"}
_BACKOFF = {"backoff_first": "base", "backoff_factor": "factor", "backoff_ceiling": "ceiling"}
OnExhausted = Literal["fail", "dead_letter"] | None
OnTimeout = Literal["kill", "fail"] | None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Flags:
    """What a policy says, one flag for each."""

    lease: Annotated[float | None, Parameter(help="Seconds of a lease.")] = None
    retries: Annotated[int | None, Parameter(help="Retries after a failure.")] = None
    attempts: Annotated[int | None, Parameter(help="The same, with the first attempt.")] = None
    preemption_retries: Annotated[int | None, Parameter(help="Retries after a lost worker.")] = None
    backoff_first: Annotated[
        float | None, Parameter(name="--backoff-base", help="Seconds before the first retry.")
    ] = None
    backoff_factor: Annotated[float | None, Parameter(help="How the wait grows.")] = None
    backoff_ceiling: Annotated[float | None, Parameter(help="Seconds it grows to.")] = None
    on_exhausted: Annotated[
        OnExhausted, Parameter(help="What becomes of a task without retries left.")
    ] = None
    timeout: Annotated[float | None, Parameter(help="Seconds of one attempt.")] = None
    on_timeout: Annotated[OnTimeout, Parameter(help="What a timeout means.")] = None
    grace: Annotated[float | None, Parameter(help="Seconds between SIGTERM and SIGKILL.")] = None
    priority: Annotated[int | None, Parameter(help="Higher runs first.")] = None
    verbose_events: Annotated[bool | None, Parameter(help="Note each renewal and heartbeat.")] = (
        None
    )
    min_lease: Annotated[float | None, Parameter(help="The shortest lease.")] = None
    max_lease: Annotated[float | None, Parameter(help="The longest lease.")] = None
    max_retries: Annotated[int | None, Parameter(help="The most retries after failures.")] = None
    max_attempts: Annotated[int | None, Parameter(help="The same, with the first attempt.")] = None
    max_preemption_retries: Annotated[
        int | None, Parameter(help="The most retries after lost workers.")
    ] = None
    max_timeout: Annotated[float | None, Parameter(help="The longest timeout.")] = None
    max_grace: Annotated[float | None, Parameter(help="The longest grace.")] = None
    max_priority: Annotated[int | None, Parameter(help="The highest priority.")] = None
    max_backoff: Annotated[float | None, Parameter(help="The highest ceiling of waits.")] = None
    max_tasks: Annotated[int | None, Parameter(help="The most tasks of a job.")] = None
    max_age: Annotated[
        float | None, Parameter(help="Seconds after which a job is dead-lettered.")
    ] = None
    only_on_exhausted: Annotated[OnExhausted, Parameter(help="No other is allowed.")] = None
    only_on_timeout: Annotated[OnTimeout, Parameter(help="No other is allowed.")] = None


_NOTHING = Flags()


@app.default
def list_types(*, limit: Limit = TYPES_SHOWN, server: Server = None, as_json: Json = False) -> int:
    """List types that jobs have, and those with a policy."""
    check_limit(limit)
    with open_client(server) as client:
        found = client.types.list(count_max=limit)
    if as_json:
        write_json(found)
        return 0
    if not found.types:
        remark("no types: no jobs and no policies")
        return 0
    write_table(
        _COLUMNS, [(each.type, _say(each.defaults), _say(each.limits)) for each in found.types]
    )
    if found.next_page_token is not None:
        remark(f"there may be more; --limit {limit * 2} shows more of them")
    return 0


app.command(list_types, name="list")


@app.command
def show(type_name: TypeName, /, *, server: Server = None, as_json: Json = False) -> int:
    """Show the policy of a type, and how long its attempts wait and run."""
    with open_client(server) as client:
        found = client.types.get(type_name)
    if as_json:
        write_json(found)
        return 0
    write_title(f"Type {found.type}")
    if not found.version:
        remark("it has no policy; the built-in defaults hold")
    write_fields((_fields(found) if found.version else {}) | _times(found))
    return 0


@app.command(name="set")
def set_policy(
    type_name: TypeName,
    /,
    *,
    flags: Flags = _NOTHING,
    fresh: Annotated[bool, Parameter(negative="", help="Forget what was set before.")] = False,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Set defaults and limits of a type, for jobs from now on; what is not named stays as it was.

    Exit code 1: somebody else has changed it at the same moment.
    """
    if flags == _NOTHING and not fresh:
        raise Invalid("TYPE", "give something to set, such as --retries 3")
    with open_client(server) as client:
        before = client.types.get(type_name)
        stored = client.types.set(type_name, _change(before, flags, fresh=fresh))
    if as_json:
        write_json(stored)
        return 0
    write_line(f"type {type_name}", f"version {stored.version}")
    return 0


@app.command
def unset(type_name: TypeName, /, *, server: Server = None) -> int:
    """Take the policy of a type back. Exit code 1: it has none."""
    with open_client(server) as client:
        if not client.types.unset(type_name):
            remark(f"type {type_name} has no policy")
            return EXIT_NO
    write_line(f"type {type_name} has no policy now")
    return 0


@app.command
def history(
    type_name: TypeName,
    /,
    *,
    limit: Limit = CHANGES_SHOWN,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """List who changed the policy of a type, and to what; the newest first."""
    check_limit(limit)
    with open_client(server) as client:
        found = client.types.history(type_name, count_max=limit)
    if as_json:
        write_json(found)
        return 0
    write_table(
        _CHANGES,
        [
            (str(c.version), moment(c.changed_at_ms), c.actor, *_say_content(c.after))
            for c in found.changes
        ],
    )
    return 0


def _change(before: "TypeStatus", flags: Flags, *, fresh: bool) -> "PolicyRequest":
    """Write what was set before with what the flags change."""
    import msgspec

    from holdfast.model.submitting.policies import PolicyDefaults, PolicyLimits
    from holdfast.wire.policies import PolicyRequest

    given = {each.name: getattr(flags, each.name) for each in fields(flags)}
    given = {name: value for name, value in given.items() if value is not None}
    for attempts, retries in _ATTEMPTS.items():
        if attempts in given:
            given[retries] = _count_retries(attempts, given.pop(attempts), given.get(retries))
    backoff = {_BACKOFF[name]: given.pop(name) for name in _BACKOFF if name in given}
    limits = {_LIMITS[name]: given.pop(name) for name in _LIMITS if name in given}
    defaults: dict[str, Any] = {_DEFAULTS.get(name, name): value for name, value in given.items()}
    if not fresh:
        known = msgspec.to_builtins(before.defaults)
        backoff = known.get("backoff", {}) | backoff
        defaults = known | defaults
        limits = msgspec.to_builtins(before.limits) | limits
    if backoff:
        defaults["backoff"] = backoff
    return PolicyRequest(
        msgspec.convert(defaults, PolicyDefaults),
        msgspec.convert(limits, PolicyLimits),
        before.version,
    )


def _count_retries(name: str, attempts: int, retries: int | None) -> int:
    """Say attempts as the retries that they mean."""
    field = name.replace("_", "-")
    if retries is not None:
        raise Invalid(field, "means the retries and one more; give one of the two")
    if attempts < 1:
        raise Invalid(field, f"is {attempts}; give at least 1")
    return attempts - 1


def _say(part: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in _words(part).items())


def _say_content(content: "PolicyContent | None") -> tuple[str, str]:
    return ("(none)", "") if content is None else (_say(content.defaults), _say(content.limits))


def _words(part: Any) -> Mapping[str, str]:
    import msgspec

    return {
        name: " ".join(f"{key}={inner:g}" for key, inner in value.items())
        if isinstance(value, dict)
        else _word(value)
        for name, value in msgspec.to_builtins(part).items()
    }


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _times(found: "TypeStatus") -> dict[str, str]:
    """Say what ran within the last hour; nothing if nothing did."""
    times = found.times
    if times is None:
        return {}
    return {
        "attempts": f"{times.attempts} within the last hour, {times.failures} failed",
        "waits": _quantiles(times.wait_p50_ms, times.wait_p95_ms),
        "runs": _quantiles(times.run_p50_ms, times.run_p95_ms),
    }


def _quantiles(half_ms: float | None, most_ms: float | None) -> str:
    if half_ms is None or most_ms is None:
        return ""
    return f"p50 {span(half_ms / 1000)}, p95 {span(most_ms / 1000)}"


def _fields(found: "TypeStatus") -> dict[str, str]:
    return {
        **{name.replace("_", " "): value for name, value in _words(found.defaults).items()},
        **{f"limit: {k.replace('_', ' ')}": v for k, v in _words(found.limits).items()},
        "version": str(found.version),
        "since": moment(found.updated_at_ms or 0),
        "by": found.updated_by or "",
    }
