"""`holdfast limits`: how much may run at once, or start in a time, while work goes on."""

from dataclasses import dataclass
from math import isclose
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from holdfast.cli.app import EXIT_NO
from holdfast.cli.connect import open_client
from holdfast.cli.output.text import decimal, moment, span
from holdfast.cli.output.write import Column, remark, write_json, write_line, write_table
from holdfast.cli.settings import Json, Server
from holdfast.client.client import Client
from holdfast.client.pages import COUNT_MAX
from holdfast.errors import Invalid, NotFound
from holdfast.wire.limits import LimitBucket, LimitStatus

app = App(name="limits", help="List limits on slots and rates; show, set and delete one.")
LimitName = Annotated[str, Parameter(name="NAME", help="The limit's name.")]
_COLUMNS = (
    Column("limit"),
    Column("allows"),
    Column("for", flexible=True),
    Column("held", right=True),
    Column("gated", right=True),
    Column("changed", spare=True),
)
_BUCKETS = (
    Column("of", flexible=True),
    Column("in use", right=True),
    Column("free", right=True),
    Column("gated", right=True),
    Column("next"),
    Column("held by", flexible=True),
)
HOLDERS_SHOWN = 3
# By which flag a field of a limit was said.
_FLAGS = {
    "scope": "--per",
    "most": "--slots",
    "rate": "--rate",
    "period": "--rate",
    "burst": "--burst",
    "only_for": "--only-for",
    "in_queue": "--queue",
    "queue": "--queue",
    "in_type": "--type",
}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Flags:
    """What a limit says, one flag for each."""

    per: Annotated[
        Literal["queue", "type", "owner", "key", "name"] | None,
        Parameter(help="Of what each has its own; name: for code that asks by the limit's name."),
    ] = None
    slots: Annotated[float | None, Parameter(help="So many slots at once.")] = None
    rate: Annotated[str | None, Parameter(help="So many starts in a time: 10/s, 100/minute.")] = (
        None
    )
    burst: Annotated[
        float | None, Parameter(help="So many at once after a pause. Default: a second's worth.")
    ] = None
    window: Annotated[
        bool, Parameter(negative="", help="A sliding window: never more within any such time.")
    ] = False
    only_for: Annotated[str | None, Parameter(help="Only for this queue, type, owner or key.")] = (
        None
    )
    in_queue: Annotated[
        str | None, Parameter(name="--queue", help="Only for tasks of this queue.")
    ] = None
    in_type: Annotated[
        str | None, Parameter(name="--type", help="Only for tasks of this type.")
    ] = None


_NOTHING = Flags()


@app.default
def list_limits(*, server: Server = None, as_json: Json = False) -> int:
    """List limits: what they allow, how many slots are held, and how many tasks wait for them."""
    with open_client(server) as client:
        found = client.limits.list(count_max=COUNT_MAX)
    if as_json:
        write_json(found)
    elif not found.limits:
        remark("no limits: set one with `holdfast limits set NAME --per queue --slots 5`")
    else:
        write_table(_COLUMNS, [_row(limit) for limit in found.limits])
    return 0


app.command(list_limits, name="list")


@app.command
def show(
    name: LimitName,
    /,
    *,
    value: Annotated[
        str | None, Parameter(help="Only the bucket of this queue, type, owner or key.")
    ] = None,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Show a limit with its buckets: what is free, who holds their slots, and what waits."""
    with open_client(server) as client:
        found = client.limits.get(name, value=value)
    if as_json:
        write_json(found)
        return 0
    write_table(_COLUMNS, [_row(found.limit)])
    if found.buckets:
        write_line("")
        write_table(_BUCKETS, [_bucket(bucket) for bucket in found.buckets])
    else:
        remark("it has met nothing yet")
    if found.next_page_token is not None:
        remark("there are more buckets; --value shows one of them, --json tells how to go on")
    return 0


@app.command(name="set")
def set_limit(
    name: LimitName,
    /,
    *,
    flags: Flags = _NOTHING,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Set a limit for all that starts from now on; of one that is there, what is named changes.

    Nothing that runs is ended: below what runs, nothing starts until it fits.
    """
    if flags.slots is not None and flags.rate is not None:
        raise Invalid("--rate", "goes without --slots; a limit is about one of the two")
    with open_client(server) as client:
        try:
            changed = client.limits.put(name, **_wanted(client, name, flags))
        except Invalid as error:
            field = _FLAGS.get(error.field, error.field)
            if error.field == "most" and flags.rate is not None:
                field = "--rate"
            raise Invalid(field, error.problem) from error
    if as_json:
        write_json(changed)
        return 0
    limit = changed.limit
    write_line(f"limit {name} allows {_allowed(limit)} {_subject(limit)}")
    if changed.note is not None:
        remark(changed.note)
    return 0


@app.command
def delete(name: LimitName, /, *, server: Server = None) -> int:
    """Delete a limit; what it held back is put in line again. Exit code 1: there is none."""
    with open_client(server) as client:
        if not client.limits.delete(name):
            remark(f"there is no limit {name}")
            return EXIT_NO
    write_line(f"limit {name} is deleted")
    return 0


def _wanted(client: Client, name: str, flags: Flags) -> dict[str, Any]:
    """Add to what is named what the limit says that is there."""
    wanted: dict[str, Any] = {
        "per": flags.per,
        "slots": flags.slots,
        "rate": flags.rate,
        "window": flags.window,
        "burst": flags.burst,
        "only_for": flags.only_for,
        "in_queue": flags.in_queue,
        "in_type": flags.in_type,
    }
    try:
        before = client.limits.get(name, page_size=1).limit
    except NotFound:
        if flags.per is None:
            problem = "is missing: the limit is new, so say of what each has its own"
            raise Invalid("--per", problem) from None
        if flags.slots is None and flags.rate is None:
            raise Invalid("--slots", "is missing: give it, or --rate 10/s") from None
        return wanted
    wanted["per"] = flags.per or before.scope
    for field in ("only_for", "in_queue", "in_type"):
        wanted[field] = wanted[field] or getattr(before, field)
    if flags.slots is None and flags.rate is None:
        if before.period is None:
            wanted["slots"] = int(before.most)
        else:
            wanted["rate"] = f"{before.most:f}/{before.period:f}s"
    wanted["window"] = flags.window or (before.kind == "window" and flags.slots is None)
    if flags.burst is None and flags.slots is None and not wanted["window"]:
        wanted["burst"] = _own_burst(before)
    return wanted


def _own_burst(limit: LimitStatus) -> float | None:
    """Find the burst that somebody has given; that of nobody follows from the rate."""
    if limit.burst is None or limit.period is None:
        return None
    return None if isclose(limit.burst, max(limit.most / limit.period, 1.0)) else limit.burst


def _row(limit: LimitStatus) -> tuple[str, ...]:
    held = f"{limit.held} ({limit.surplus} too many)" if limit.surplus else str(limit.held)
    return (
        limit.name,
        _allowed(limit),
        _subject(limit),
        held if limit.kind == "concurrency" else "",
        str(limit.gated),
        f"{moment(limit.updated_at_ms)} by {limit.updated_by}",
    )


def _allowed(limit: LimitStatus) -> str:
    if limit.period is None:
        return f"{limit.most:.0f} slot{'' if limit.most == 1 else 's'}"
    unit = {1.0: "s", 60.0: "minute", 3600.0: "hour", 86400.0: "day"}.get(limit.period)
    rate = f"{limit.most:g}/{unit or span(limit.period)}"
    if limit.kind == "window":
        return f"{rate} in any window"
    return f"{rate}, {limit.burst:g} at once"


def _subject(limit: LimitStatus) -> str:
    text = f"per {limit.scope}"
    if limit.scope == "name":
        text = "for code that asks"
    elif limit.only_for is not None:
        text = f"for {limit.scope} {limit.only_for}"
    for word, value in (("queue", limit.in_queue), ("type", limit.in_type)):
        text += "" if value is None else f", in {word} {value}"
    return text


def _bucket(bucket: LimitBucket) -> tuple[str, ...]:
    names = [f"{holder.task_id} ({holder.slots})" for holder in bucket.holders[:HOLDERS_SHOWN]]
    if len(bucket.holders) > HOLDERS_SHOWN:
        names.append("...")
    return (
        bucket.value,
        decimal(bucket.in_use),
        decimal(bucket.free),
        str(bucket.gated),
        moment(bucket.next_at_ms),
        ", ".join(names),
    )
