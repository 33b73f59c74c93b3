"""`holdfast db`: bring the schema up to this program's, and say how the two compare."""

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from cyclopts import App

from holdfast.cli.settings import Json
from holdfast.cli.target import DatabaseUrl, ask
from holdfast.errors import SchemaMismatch

if TYPE_CHECKING:
    from holdfast.store.migrate import Applied, Migration

app = App(name="db", help="Create, upgrade and check the schema.")

_VERDICTS = {
    "unknown": ("newer", "the schema is newer than this program: upgrade holdfast"),
    "different": ("different", "the schema was made by a different build of holdfast"),
    "missing": ("behind", "run `holdfast db migrate`"),
}
_CURRENT = ("current", "the schema is this program's")
_STYLES = {"applied": "green", "missing": "yellow", "unknown": "red", "different": "red"}


class Step(NamedTuple):
    """One migration: applied, missing, different from ours, or unknown to this program."""

    version: int
    name: str
    state: str


@app.command
def migrate(*, database_url: DatabaseUrl = None, as_json: Json = False) -> int:
    """Apply the migrations that are missing; harmless when repeated or run twice at once."""
    from holdfast.store.migrate import migrate as apply_missing

    applied = ask(database_url, apply_missing)
    if as_json:
        steps = [{"version": step.version, "name": step.name} for step in applied]
        sys.stdout.write(json.dumps({"applied": steps}) + "\n")
        return 0
    for step in applied:
        sys.stdout.write(f"applied {step.version:04} {step.name}\n")
    if not applied:
        sys.stdout.write("nothing was missing\n")
    return 0


@app.command
def status(*, database_url: DatabaseUrl = None, as_json: Json = False) -> int:
    """Show for each migration whether it has been applied."""
    from holdfast.store.migrate import load_migrations, read_applied

    steps = compare(load_migrations(), ask(database_url, read_applied))
    verdict, advice = judge(steps)
    if as_json:
        rows = [step._asdict() for step in steps]
        sys.stdout.write(json.dumps({"verdict": verdict, "migrations": rows}) + "\n")
    else:
        _print_table(steps, advice)
    return 0


@app.command
def check(*, database_url: DatabaseUrl = None) -> int:
    """Exit with 0 if the schema is exactly this program's, with 1 and the reason otherwise."""
    from holdfast.store.migrate import check_schema

    try:
        ask(database_url, check_schema)
    except SchemaMismatch as mismatch:
        sys.stderr.write(f"holdfast: {mismatch}\n")
        return 1
    return 0


def compare(ours: "Iterable[Migration]", applied: "Iterable[Applied]") -> list[Step]:
    """Put this program's migrations and the database's side by side, in order."""
    known = {step.version: step for step in ours}
    done = {step.version: step for step in applied}
    steps = []
    for version in sorted(known.keys() | done.keys()):
        if version not in known:
            steps.append(Step(version, done[version].name, "unknown"))
        elif version not in done:
            steps.append(Step(version, known[version].name, "missing"))
        else:
            is_same = known[version].checksum == done[version].checksum
            steps.append(Step(version, done[version].name, "applied" if is_same else "different"))
    return steps


def judge(steps: list[Step]) -> tuple[str, str]:
    """Sum up a comparison in one word and one piece of advice, the gravest first."""
    states = {step.state for step in steps}
    return next((verdict for state, verdict in _VERDICTS.items() if state in states), _CURRENT)


def _print_table(steps: list[Step], advice: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("migration", "name", "state"):
        table.add_column(title)
    for step in steps:
        style = _STYLES[step.state]
        table.add_row(f"{step.version:04}", step.name, f"[{style}]{step.state}[/]")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"\n{advice}")
