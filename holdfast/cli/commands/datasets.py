"""`holdfast datasets`: versions of what jobs write, and which one readers get."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from holdfast.cli.connect import open_client
from holdfast.cli.output.text import age, moment, size
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
    from collections.abc import Iterable

    from holdfast.wire.datasets import Entry, VersionStatus

ENTRIES_SHOWN = 100
app = App(
    name="datasets", help="List datasets; show, open, compare, cut over and drop their versions."
)
Name = Annotated[str, Parameter(name="NAME", help="The dataset's name.")]
Number = Annotated[int, Parameter(name="VERSION", help="The number of a version.")]
NumberOrCurrent = Annotated[
    str, Parameter(name="VERSION", help="The number of a version, or current.")
]
Limit = Annotated[int, Parameter(name=["--limit", "-n"], help="How many.")]
_DATASETS = (Column("dataset"), Column("current"), Column("newest"), Column("created"))
_VERSIONS = (
    Column("version", right=True),
    Column("state"),
    Column("entries", right=True),
    Column("size", right=True),
    Column("based on"),
    Column("opened"),
    Column("cut over"),
)
_ENTRIES = (
    Column("key", flexible=True),
    Column("partition", flexible=True, spare=True),
    Column("size", right=True),
    Column("attempt"),
    Column("uri", flexible=True),
)
_DIFFERENCES = (Column("change"), Column("key", flexible=True), Column("uri", flexible=True))


@app.default
def list_datasets(
    prefix: Annotated[str, Parameter(name="PREFIX", help="How their names begin.")] = "",
    /,
    *,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """List datasets by name, with the version that readers get."""
    from holdfast.wire.datasets import DatasetPage

    with open_client(server) as client:
        found = client.datasets(prefix)
    if as_json:
        write_json(DatasetPage(found))
        return 0
    if not found:
        remark("no datasets; `holdfast datasets create NAME` makes one")
        return 0
    rows = [
        (each.name, _say(each.current_version), _say(each.newest_version), age(each.created_at_ms))
        for each in found
    ]
    write_table(_DATASETS, rows)
    return 0


app.command(list_datasets, name="list")


@app.command
def create(name: Name, /, *, server: Server = None) -> int:
    """Create a dataset; one that is there stays as it is."""
    with open_client(server) as client:
        client.create_dataset(name)
    write_line(f"dataset {name} is there")
    return 0


@app.command
def show(name: Name, /, *, server: Server = None, as_json: Json = False) -> int:
    """Show a dataset, its last cut-overs, and what a cut-over starts."""
    from holdfast.client.datasets import get_dataset

    with open_client(server) as client:
        found = client.loop_thread.run(get_dataset(client, name))
        dataset = client.dataset(name)
        triggers, cut_overs = dataset.triggers(), dataset.cut_overs(5)
    if as_json:
        write_json(found)
        return 0
    write_title(f"Dataset {found.name}")
    fields = {
        "current": _say(found.current_version),
        "newest": _say(found.newest_version),
        "created": f"{moment(found.created_at_ms)} by {found.created_by}",
    }
    for record in cut_overs:
        words = f"to version {record.version} by {record.actor}, {age(record.at_ms)}"
        fields[f"cut-over {record.number}"] = words
    for trigger in triggers:
        fields[f"starts {trigger.name}"] = trigger.problem or f"job {trigger.last_job_id or 'none'}"
    write_fields(fields)
    return 0


@app.command
def versions(name: Name, /, *, server: Server = None, as_json: Json = False) -> int:
    """List the versions of a dataset, the newest first."""
    from holdfast.client.datasets import get_dataset
    from holdfast.wire.datasets import VersionPage

    with open_client(server) as client:
        current = client.loop_thread.run(get_dataset(client, name)).current_version
        found = client.dataset(name).versions()
    if as_json:
        write_json(VersionPage(found))
        return 0
    write_table(_VERSIONS, [_version_row(each, current) for each in found])
    return 0


@app.command
def entries(
    name: Name,
    version: NumberOrCurrent = "current",
    /,
    *,
    limit: Limit = ENTRIES_SHOWN,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """List the entries of a version, the current one if none is named."""
    from holdfast.wire.datasets import EntryPage

    check_limit(limit)
    with open_client(server) as client:
        dataset = client.dataset(name)
        wanted = dataset.current() if version == "current" else dataset.version(_parse(version))
        found, has_more = _take(wanted.entries(), limit)
    if as_json:
        write_json(EntryPage(wanted.number, found))
        return 0
    write_table(_ENTRIES, [_entry_row(each) for each in found])
    if has_more:
        remark(f"there are more; --limit {limit * 2} shows more of them")
    return 0


@app.command
def compare(
    name: Name,
    before: Annotated[str, Parameter(name="FROM", help="A version, or current.")],
    after: Annotated[str, Parameter(name="TO", help="A version, or current.")],
    /,
    *,
    server: Server = None,
    as_json: Json = False,
) -> int:
    """Say what was added, removed and changed from one version to another; 1 if anything was."""
    with open_client(server) as client:
        found = client.dataset(name).compare(before, after)
    if as_json:
        write_json(found)
    elif found:
        rows = [
            (each.kind, each.key, next(e.uri for e in (each.after, each.before) if e is not None))
            for each in found
        ]
        write_table(_DIFFERENCES, rows)
    else:
        remark("they are the same")
    return 1 if found else 0


@app.command(name="open")
def open_version(
    name: Name,
    /,
    *,
    based_on: Annotated[
        int | None, Parameter(help="A version whose entries it begins with.")
    ] = None,
    server: Server = None,
) -> int:
    """Open the next version and write its number."""
    with open_client(server) as client:
        opened = client.dataset(name).open_version(based_on)
    write_line(str(opened.number))
    return 0


@app.command(name="cut-over")
def cut_over(
    name: Name,
    version: Number,
    /,
    *,
    force: Annotated[
        bool, Parameter(negative="", help="Even if live jobs are writing it.")
    ] = False,
    reason: Annotated[str | None, Parameter(help="Why; it is kept.")] = None,
    key: Annotated[str | None, Parameter(help="An idempotency key.")] = None,
    server: Server = None,
) -> int:
    """Make a version the one that readers get; it is sealed by that."""
    with open_client(server) as client:
        made = client.dataset(name).cut_over(
            version, force=force, reason=reason, idempotency_key=key
        )
    came_from = "" if made.previous is None else f", after version {made.previous}"
    what = f"is current{came_from}" if made.changed else "was current already"
    write_line(f"version {made.version} of {name} {what}")
    return 0


@app.command
def drop(name: Name, version: Number, /, *, server: Server = None) -> int:
    """Drop a version that is not the current one: its entries go, its record stays."""
    with open_client(server) as client:
        changed = client.dataset(name).drop(version)
    write_line(f"version {version} of {name} {'is' if changed else 'was'} dropped")
    return 0


def _parse(version: str) -> int:
    if not version.isdecimal():
        raise Invalid("version", f"{version!r} is not a version; give its number, or current")
    return int(version)


def _say(number: int | None) -> str:
    return "" if number is None else str(number)


def _take(entries: "Iterable[Entry]", limit: int) -> "tuple[list[Entry], bool]":
    found: list[Entry] = []
    for entry in entries:
        if len(found) == limit:
            return found, True
        found.append(entry)
    return found, False


def _version_row(each: "VersionStatus", current: int | None) -> tuple[str, ...]:
    return (
        str(each.version),
        "current" if each.version == current else each.state,
        "" if each.entries is None else str(each.entries),
        "" if each.size_bytes is None else size(each.size_bytes),
        _say(each.based_on),
        age(each.created_at_ms),
        age(each.cut_over_at_ms),
    )


def _entry_row(each: "Entry") -> tuple[str, ...]:
    amount = "" if each.size_bytes is None else size(each.size_bytes)
    return each.key, each.partition_key, amount, f"{each.task_id}.{each.attempt}", each.uri
