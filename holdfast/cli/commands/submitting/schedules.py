"""`holdfast schedules`: jobs that are submitted again and again."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from holdfast.cli.app import EXIT_NO
from holdfast.cli.connect import open_client
from holdfast.cli.moments import parse_moment, parse_span, parse_time
from holdfast.cli.output.text import age, moment, span, state_name
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
from holdfast.cli.spec import (
    FUNCTION,
    NO_FLAGS,
    JobFlags,
    describe_call,
    describe_command,
    read_spec,
)
from holdfast.errors import Invalid

if TYPE_CHECKING:
    from holdfast.wire.requests import JobRequest
    from holdfast.wire.schedules import FiringStatus, ScheduleDetails, ScheduleStatus

SHOWN = 200
app = App(name="schedules", help="List schedules; set, pause, run and backfill one.")
Name = Annotated[str, Parameter(name="NAME", help="The schedule's name.")]
Limit = Annotated[int, Parameter(name=["--limit", "-n"], help="How many.")]
_COLUMNS = (
    Column("schedule"),
    Column("runs", flexible=True),
    Column("when"),
    Column("state"),
    Column("next"),
    Column("last"),
    Column("missed", right=True),
)
_FIRINGS = (
    Column("instant"),
    Column("kind"),
    Column("outcome"),
    Column("job"),
    Column("state"),
    Column("why", flexible=True),
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Times:
    """When a schedule fires, and what holds when it cannot."""

    cron: Annotated[str | None, Parameter(help="An expression, such as '0 3 * * *'.")] = None
    every: Annotated[str | None, Parameter(help="An interval, such as 90s, 5m or 1h30m.")] = None
    tz: Annotated[str, Parameter(help="The time zone of the expression.")] = "UTC"
    start: Annotated[str | None, Parameter(help="Not before this time.")] = None
    end: Annotated[str | None, Parameter(help="Not after this time.")] = None
    catch_up: Annotated[
        Literal["skip", "one", "all"], Parameter(help="What becomes of instants that are late.")
    ] = "skip"
    catch_up_max: Annotated[int, Parameter(help="Of all: how many, the newest.")] = 10
    late: Annotated[str, Parameter(help="From when on an instant is late.")] = "60s"
    overlap: Annotated[
        Literal["skip", "queue", "cancel", "allow"],
        Parameter(help="What a firing does while an earlier one runs."),
    ] = "skip"
    jitter: Annotated[str | None, Parameter(help="Spread the firings over so long.")] = None


_NO_TIMES = Times()


@app.default
def list_schedules(*, limit: Limit = SHOWN, server: Server = None, as_json: Json = False) -> int:
    """List schedules by name, with their next and last firings."""
    check_limit(limit)
    with open_client(server) as client:
        found = client.schedules.list(count_max=limit)
    if as_json:
        write_json(found)
        return 0
    if not found.schedules:
        remark("no schedules")
        return 0
    write_table(_COLUMNS, [_row(each) for each in found.schedules])
    if found.next_page_token is not None:
        remark(f"there may be more; --limit {limit * 2} shows more of them")
    return 0


app.command(list_schedules, name="list")


@app.command
def show(name: Name, /, *, server: Server = None, as_json: Json = False) -> int:
    """Show when a schedule fires, what it has fired, and what it missed."""
    with open_client(server) as client:
        found = client.schedules.get(name)
    if as_json:
        write_json(found)
        return 0
    write_title(f"Schedule {found.name}")
    write_fields(_fields(found))
    _write_firings(found.last_firings)
    return 0


@app.command
def firings(
    name: Name, /, *, limit: Limit = SHOWN, server: Server = None, as_json: Json = False
) -> int:
    """List what the instants of a schedule have come to, the newest first."""
    check_limit(limit)
    with open_client(server) as client:
        found = client.schedules.firings(name, count_max=limit)
    if as_json:
        write_json(found)
        return 0
    _write_firings(found.firings)
    return 0


@app.command(name="set")
def set_schedule(
    name: Name,
    /,
    *what: Annotated[
        str,
        Parameter(
            name="WHAT",
            help="A function, as package.module:name; or after -- a program and its words.",
        ),
    ],
    times: Times = _NO_TIMES,
    arg: Annotated[
        tuple[str, ...],
        Parameter(help="An argument, as JSON; repeat it.", negative="", allow_leading_hyphen=True),
    ] = (),
    kwarg: Annotated[
        tuple[str, ...], Parameter(help="A named argument, as k=JSON; repeat it.", negative="")
    ] = (),
    spec: Annotated[
        str | None,
        Parameter(help="A file with a whole job; - is stdin.", allow_leading_hyphen=True),
    ] = None,
    flags: JobFlags = NO_FLAGS,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Set all of a schedule: the job, and when it is submitted. What is left out is the default."""
    start, end = parse_time(times.start, "--start"), parse_time(times.end, "--end")
    job = _describe(what, spec, flags, args=arg, kwargs=kwarg)
    with open_client(server) as client:
        stored = client.schedules.set(
            name,
            job,
            cron=times.cron,
            every=parse_span(times.every, "--every"),
            start_at=_instant(start),
            end_at=_instant(end),
            jitter=parse_span(times.jitter, "--jitter") or 0.0,
            late_max=parse_span(times.late, "--late") or 0.0,
            tz=times.tz,
            catch_up=times.catch_up,
            catch_up_max=times.catch_up_max,
            overlap=times.overlap,
        )
    if as_json:
        write_json(stored)
        return 0
    write_line(f"schedule {name}", f"version {stored.version}", f"next {_next(stored)}")
    return 0


@app.command
def delete(name: Name, /, *, server: Server = None) -> int:
    """Delete a schedule; what it has submitted goes on. Exit code 1: there was none."""
    with open_client(server) as client:
        if not client.schedules.delete(name):
            remark(f"there is no schedule {name}")
            return EXIT_NO
    write_line(f"schedule {name} is deleted")
    return 0


@app.command
def pause(name: Name, /, *, server: Server = None) -> int:
    """Have a schedule fire no more; what passes meanwhile is not missed."""
    with open_client(server) as client:
        client.schedules.pause(name)
    write_line(f"schedule {name} is paused")
    return 0


@app.command
def resume(name: Name, /, *, server: Server = None) -> int:
    """Have a schedule fire again, from its next instant on."""
    with open_client(server) as client:
        client.schedules.resume(name)
    write_line(f"schedule {name} goes on")
    return 0


@app.command
def run(
    name: Name,
    /,
    *,
    key: Annotated[
        str | None, Parameter(help="An idempotency key: the same again is the same job.")
    ] = None,
    server: Server = None,
) -> int:
    """Fire a schedule at this moment, paused or not; writes the id of its job."""
    with open_client(server) as client:
        write_line(client.schedules.run_now(name, idempotency_key=key))
    return 0


@app.command
def backfill(
    name: Name,
    /,
    *,
    since: Annotated[str, Parameter(name="--from", help="The first time: 2026-11-16T12:00, 2d.")],
    until: Annotated[str, Parameter(help="The last time, such as 2026-11-17T12:00, or 1h.")],
    overlap: Annotated[
        Literal["queue", "allow"] | None,
        Parameter(help="One after another, or all at once. Default: as the schedule says."),
    ] = None,
    dry_run: Annotated[bool, Parameter(negative="", help="Say what would be fired.")] = False,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Fire the instants of a range that have passed and have no job; doing it twice is harmless."""
    first, last = parse_moment(since, "--from"), parse_moment(until, "--until")
    assert first is not None, "a range has a beginning"
    assert last is not None, "a range has an end"
    with open_client(server) as client:
        made = client.schedules.backfill(name, first, last, overlap=overlap, dry_run=dry_run)
    if as_json:
        write_json(made)
        return 0
    if dry_run:
        missing = made.instants - made.already
        write_line(f"{made.instants} instants, {missing} of them without a job")
        return 0
    for job_id in made.job_ids:
        write_line(job_id)
    if made.already:
        remark(f"{made.already} instants had their jobs before")
    return 0


def _describe(
    what: tuple[str, ...],
    spec: str | None,
    flags: JobFlags,
    *,
    args: tuple[str, ...],
    kwargs: tuple[str, ...],
) -> "JobRequest":
    if bool(what) == (spec is not None):
        raise Invalid("WHAT", "give a function, a command or --spec, one of them")
    if spec is not None:
        if args or kwargs or flags != NO_FLAGS:
            raise Invalid("spec", "says everything of the job; no other flag of it goes with it")
        return read_spec(spec)
    if len(what) == 1 and FUNCTION.fullmatch(what[0]):
        return describe_call(what[0], flags, args=args, kwargs=kwargs)
    if args or kwargs:
        raise Invalid("arg", "goes with a function; a command's words stand behind it")
    return describe_command(what, flags)


def _instant(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds).astimezone()


def _row(each: "ScheduleStatus") -> tuple[str, ...]:
    last = each.last_firings[0] if each.last_firings else None
    return (
        each.name,
        each.runs,
        _when(each),
        each.problem or each.state,
        age(each.next_firings_ms[0]) if each.next_firings_ms else "",
        "" if last is None else f"{_outcome(last)} {age(last.instant_ms)}",
        str(each.missed_instants or ""),
    )


def _when(each: "ScheduleStatus") -> str:
    if each.cron is None:
        return f"every {span(each.every or 0)}"
    return each.cron if each.tz == "UTC" else f"{each.cron} {each.tz}"


def _outcome(last: "FiringStatus") -> str:
    return last.outcome if last.job_state is None else state_name(last.job_state)


def _next(each: "ScheduleStatus") -> str:
    return moment(each.next_firings_ms[0]) if each.next_firings_ms else "never"


def _fields(found: "ScheduleDetails") -> dict[str, str]:
    catch_up = f"{found.catch_up}, up to {found.catch_up_max}"
    fields = {
        "runs": found.runs,
        "when": _when(found),
        "state": found.state,
        "problem": found.problem or "",
        "declared by": found.declared_by or "",
        "catch up": catch_up if found.catch_up == "all" else found.catch_up,
        "overlap": found.overlap,
        "jitter": span(found.jitter) if found.jitter else "",
        "from": moment(found.start_at_ms),
        "until": moment(found.end_at_ms),
        "paused": f"{moment(found.paused_at_ms)} by {found.paused_by}" if found.paused_by else "",
        "retired": moment(found.retired_at_ms),
        "version": str(found.version),
        "changed": f"{moment(found.changed_at_ms)} by {found.changed_by}",
        "next": ", ".join(map(moment, found.next_firings_ms)),
        "missed": str(found.missed_instants or ""),
    }
    for miss in found.last_misses[:3]:
        last = moment(miss.last_instant_ms)
        fields[f"missed {miss.instants}"] = f"{moment(miss.first_instant_ms)} to {last}"
    return {name: value for name, value in fields.items() if value}


def _write_firings(found: "Iterable[FiringStatus]") -> None:
    rows = [
        (
            moment(each.instant_ms),
            each.kind,
            each.outcome,
            each.job_id or "",
            "" if each.job_state is None else state_name(each.job_state),
            each.problem or "",
        )
        for each in found
    ]
    if rows:
        write_table(_FIRINGS, rows)
    else:
        remark("it has not fired yet")
