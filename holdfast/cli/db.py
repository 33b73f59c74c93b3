"""`holdfast db`: bring the schema up to this program's, and say how the two compare."""

import json
import sys

from cyclopts import App

from holdfast.cli.target import DatabaseUrl, Json, ask
from holdfast.errors import SchemaMismatch

app = App(name="db", help="Create, upgrade and check the schema.")


@app.command
def migrate(*, database_url: DatabaseUrl = None, as_json: Json = False) -> int:
    """Apply the migrations that are missing; harmless when repeated or run twice at once."""
    from holdfast.store import migrate as store

    applied = ask(database_url, store.migrate)
    if as_json:
        steps = [{"version": step.version, "name": step.name} for step in applied]
        sys.stdout.write(json.dumps({"applied": steps}) + "\n")
    else:
        for step in applied:
            sys.stdout.write(f"applied {step.version:04} {step.name}\n")
        if not applied:
            sys.stdout.write("nothing was missing\n")
    return 0


@app.command
def status(*, database_url: DatabaseUrl = None, as_json: Json = False) -> int:
    """Show each migration: applied, missing, unknown to this program, or applied differently."""
    from holdfast.store import migrate as store

    applied = ask(database_url, store.read_applied)
    steps = compare(store.load_migrations(), applied)
    if as_json:
        rows = [{"version": v, "name": name, "state": state} for v, name, state in steps]
        sys.stdout.write(json.dumps({"verdict": judge(steps), "migrations": rows}) + "\n")
    else:
        _print_table(steps)
    return 0


@app.command
def check(*, database_url: DatabaseUrl = None) -> int:
    """Exit with 0 if the schema is exactly this program's, else with 1 and the reason."""
    from holdfast.store import migrate as store

    try:
        ask(database_url, store.check_schema)
    except SchemaMismatch as mismatch:
        sys.stderr.write(f"holdfast: {mismatch}\n")
        return 1
    return 0
