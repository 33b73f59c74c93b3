"""`holdfast audit`: what the ledger's own check of its invariants has found.

Findings go to standard output, which stays empty while the ledger is sound; the verdict for people
goes to standard error.
"""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from holdfast.cli.output.write import remark
from holdfast.cli.settings import Json
from holdfast.cli.target import DatabaseUrl, ask

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from holdfast.operations.upkeep.audit import Finding

SHOWN_MAX = 1000


def audit_ledger(*, database_url: DatabaseUrl = None, as_json: Json = False) -> int:
    """Replay every event against the tables and report each broken invariant.

    Exit code 0: the ledger is sound. 1: something was found. 2: it could not be read.
    """
    count = ask(database_url, _write_json if as_json else _write_table)
    return 1 if count else 0


async def read_findings(url: str) -> "AsyncIterator[Finding]":
    """Audit a database whose schema is this program's."""
    from holdfast.operations.upkeep.audit import audit
    from holdfast.store.database import Database
    from holdfast.store.migrate import check_schema

    await check_schema(url)
    async with Database(url, connections_max=1, program="holdfast audit") as database:
        findings = cast("AsyncGenerator[Finding]", audit(database))
        async with aclosing(findings):
            async for finding in findings:
                yield finding


async def _write_json(url: str) -> int:
    """Write one document, a line per finding, as they come; returns how many."""
    count = 0
    async for finding in read_findings(url):
        sys.stdout.write(",\n" if count else '{"findings": [\n')
        fields = ("invariant", "subject", "detail")
        sys.stdout.write(json.dumps({field: getattr(finding, field) for field in fields}))
        count += 1
    end = "\n]" if count else '{"findings": []'
    sys.stdout.write(f'{end}, "count": {count}, "sound": {json.dumps(count == 0)}}}\n')
    return count


async def _write_table(url: str) -> int:
    """Write a table of the first findings; returns how many there are."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("subject", no_wrap=True)
    table.add_column("broken invariant", style="red", overflow="fold")
    table.add_column("what was seen", overflow="fold")
    count = 0
    async for finding in read_findings(url):
        count += 1
        if count <= SHOWN_MAX:
            words = finding.invariant.replace("_", " ")
            table.add_row(Text(finding.subject), Text(words), Text(finding.detail))
    if not count:
        remark("sound: no invariant is broken")
        return 0
    Console(highlight=False).print(table)
    if count > SHOWN_MAX:
        remark(f"the first {SHOWN_MAX} are shown; --json lists all")
    remark(f"not sound: {count} found")
    return count
