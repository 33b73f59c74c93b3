"""Datasets told in domain words, for tests that read like a story."""

from typing import Any

from holdfast.model.datasets import OutputEntry
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.datasets.cut_over import CutOver, cut_over
from holdfast.operations.datasets.versions import create_dataset, drop_version, open_version
from holdfast.operations.ending.complete import Completed
from tests.world import World


class Library:
    """The datasets of one world."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def create(self, name: str = "events", versions: int = 1) -> None:
        """Create a dataset with some open versions."""
        await create_dataset(self.world.ledger, name, actor="ann")
        for _ in range(versions):
            await self.open(name)

    async def open(self, name: str = "events", **fields: Any) -> int:
        """Open the next version; gives its number."""
        return (await open_version(self.world.ledger, name, actor="ann", **fields)).version

    async def cut_over(self, version: int, name: str = "events", **fields: Any) -> CutOver:
        """Make a version the current one."""
        return await cut_over(self.world.ledger, name, version, actor="ann", **fields)

    async def drop(self, version: int, name: str = "events") -> bool:
        """Drop a version."""
        return await drop_version(self.world.ledger, name, version, actor="ann")

    async def submit(self, mode: str = "append", version: Any = None, **fields: Any) -> int:
        """Submit a job that writes the dataset `events`; gives its id."""
        output = {"dataset": "events", "mode": mode, "version": version}
        return await self.world.submit(outputs=[output], **fields)

    async def commit(self, claim: Claim, *entries: OutputEntry) -> Completed:
        """Report success, and what was written."""
        return await self.world.complete(claim, "succeeded", outputs=entries)

    async def write(self, *entries: OutputEntry, mode: str = "append", version: Any = None) -> int:
        """Have a job of one task write entries; gives its id."""
        job_id = await self.submit(mode, version)
        [claim] = await self.world.claim()
        await self.commit(claim, *entries)
        return job_id

    async def read(self, version: int = 1, name: str = "events") -> dict[str, str]:
        """Read what stands under the keys of a version, past all code of ours."""
        rows = await self.world.clock.fetch(
            "select key, uri from holdfast.dataset_entries "
            "where dataset = $1 and version = $2 order by key",
            name,
            version,
        )
        return {row[0]: row[1] for row in rows}


def an_entry(partition_key: str = "p", uri: str | None = None, **fields: Any) -> OutputEntry:
    """Describe something that a task has written."""
    return OutputEntry(partition_key, uri or f"s3://bucket/{partition_key}", **fields)
