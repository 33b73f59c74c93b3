"""`holdfast db`: bring the schema up to this program's, and say how the two compare."""

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import App, Parameter

from holdfast.cli.output.write import remark
from holdfast.cli.settings import Json
from holdfast.cli.target import DatabaseUrl, ask
from holdfast.errors import Invalid, SchemaMismatch

if TYPE_CHECKING:
    from holdfast.store.migrate import Recorded, Schema

HoldSeconds = Annotated[
    float,
    Parameter(help="How long one step may hold locks that others wait for; then it tries again."),
]
app = App(name="db", help="Create, upgrade and check the schema.")

_VERDICTS = {
    "unknown": ("newer", "the schema is newer than this program: upgrade holdfast"),
    "different": ("different", "the schema was made by a different build of holdfast"),
    "missing": ("behind", "run `holdfast db migrate`"),
    "changed": ("behind", "run `holdfast db migrate`"),
    "newer": ("ahead", "the schema is newer than this program, which can go on beside it"),
}
_CURRENT = ("current", "the schema is this program's")
_STYLES = {
    "applied": "green",
    "missing": "yellow",
    "changed": "yellow",
    "newer": "green",
    "unknown": "red",
    "different": "red",
}


class Step(NamedTuple):
    """A migration: applied, missing, different, newer or unknown; or a file of definitions.

    Newer is what this program does not know and can work with. Definitions have no number, and
    are applied, missing or changed: those can be applied again.
    """

    version: int | None
    name: str
    state: str


@app.command
def migrate(
    *,
    database_url: DatabaseUrl = None,
    hold_seconds: HoldSeconds = 0.2,
    as_json: Json = False,
) -> int:
    """Apply what is missing or has changed, beside a ledger at work; harmless when repeated."""
    from holdfast.store.migrate import migrate as apply_missing

    if not hold_seconds > 0:
        raise Invalid("--hold-seconds", "must be more than 0")
    applied = ask(database_url, partial(apply_missing, hold_seconds_max=hold_seconds))
    if as_json:
        steps = [{"version": step.version, "name": step.name} for step in applied.migrations]
        names = [definition.name for definition in applied.definitions]
        sys.stdout.write(json.dumps({"applied": steps, "defined": names}) + "\n")
        return 0
    for step in applied.migrations:
        sys.stdout.write(f"applied {step.version:04} {step.name}\n")
    for definition in applied.definitions:
        sys.stdout.write(f"defined {definition.name}\n")
    if not applied.migrations and not applied.definitions:
        sys.stdout.write("nothing was missing\n")
    return 0


@app.command(name="grant")
def grant_role(
    role: Annotated[str, Parameter(help="A role that may connect, and nothing else so far.")],
    *,
    database_url: DatabaseUrl = None,
) -> int:
    """Give a role what servers and the audit need; run it as the schema's owner, again at will."""
    from holdfast.store.grants import grant

    for statement in ask(database_url, lambda url: grant(url, role)):
        sys.stdout.write(f"{statement};\n")
    return 0


@app.command
def status(*, database_url: DatabaseUrl = None, as_json: Json = False) -> int:
    """Show for each migration and each file of definitions whether it has been applied."""
    from holdfast.store.migrate import TOO_OLD, load_schema, read_recorded

    recorded = ask(database_url, read_recorded)
    steps = compare(load_schema(), recorded)
    verdict, advice = ("too_old", TOO_OLD) if recorded.is_too_old else judge(steps)
    if as_json:
        migrations = [step._asdict() for step in steps if step.version is not None]
        definitions = [
            {"name": step.name, "state": step.state} for step in steps if step.version is None
        ]
        answer = {"verdict": verdict, "migrations": migrations, "definitions": definitions}
        sys.stdout.write(json.dumps(answer) + "\n")
    else:
        _print_table(steps, advice)
    return 0


@app.command
def check(*, database_url: DatabaseUrl = None) -> int:
    """Exit with 0 if this program can work with the schema, with 1 and the reason otherwise."""
    from holdfast.store.migrate import check_schema

    try:
        ask(database_url, check_schema)
    except SchemaMismatch as mismatch:
        remark(f"holdfast: {mismatch}")
        return 1
    return 0


def compare(ours: "Schema", recorded: "Recorded") -> list[Step]:
    """Put this program's schema and the database's side by side, in order."""
    from holdfast.store.migrate import can_work_beside

    known = {step.version: step for step in ours.migrations}
    done = {step.version: step for step in recorded.migrations}
    steps = []
    for version in sorted(known.keys() | done.keys()):
        if version not in known:
            is_newer = can_work_beside(done[version], known)
            steps.append(Step(version, done[version].name, "newer" if is_newer else "unknown"))
        elif version not in done:
            steps.append(Step(version, known[version].name, "missing"))
        else:
            is_same = known[version].checksum == done[version].checksum
            steps.append(Step(version, done[version].name, "applied" if is_same else "different"))
    has_newer = any(step.state == "newer" for step in steps)
    for definition in ours.definitions:
        checksum = recorded.definitions.get(definition.name)
        if has_newer:
            checksum = definition.checksum  # whatever it is: the newer program has seen to it
        state = "applied" if checksum == definition.checksum else "changed"
        steps.append(Step(None, definition.name, "missing" if checksum is None else state))
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
        number = "" if step.version is None else f"{step.version:04}"
        table.add_row(number, step.name, f"[{_STYLES[step.state]}]{step.state}[/]")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"\n{advice}")
