"""What the audit has to say of a ledger when a benchmark is through with it: nothing."""

import asyncio
import sys

from holdfast.operations.upkeep.audit import audit
from holdfast.store.database import Database


def count_findings(url: str) -> int:
    """Replay every event of a ledger, print what does not agree, and count it."""
    return asyncio.run(_count(url))


async def _count(url: str) -> int:
    count = 0
    async with Database(url, connections_max=1) as database:
        async for finding in audit(database):
            print(f"audit: {finding}", file=sys.stderr)
            count += 1
    return count
