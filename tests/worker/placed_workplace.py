"""A server and workers of placed work in this process, real shims, and the ledger around them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from holdfast.client.transport import Transport
from holdfast.model.submitting.spec import Limits
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Capacity
from holdfast.server import Address, serve
from holdfast.services.runtime import Options
from holdfast.worker.allowing import EVERYTHING
from holdfast.worker.placed.worker import PlacedOptions, PlacedWorker
from holdfast.worker.slots import take_slot
from tests.test_guides import free_port
from tests.waiting import eventually
from tests.worker.bundle_store import Store
from tests.worker.faulty_proxy import FaultyProxy
from tests.worker.workplace import Workplace

TICK_SECONDS = 0.2
ROOM = Capacity(cpu=8.0, memory=8 << 30, disk=8 << 30, gpu=0)


@dataclass
class Employed:
    """A worker in this loop, and its run."""

    worker: PlacedWorker
    running: asyncio.Task[None]
    may_fail: bool = False

    @property
    def folders(self) -> list[Path]:
        """The folders of attempts that it has on its disk."""
        return sorted(path for path in self.worker.options.folder.iterdir() if path.is_dir())

    async def crash(self) -> None:
        """Break off, as if killed: what it has started is left to its shims."""
        self.running.cancel()
        await asyncio.wait([self.running])

    async def end(self) -> None:
        """Wait for its end, which must be a good one."""
        await asyncio.wait_for(asyncio.shield(self.running), 60)

    async def fail(self) -> str:
        """Wait for its end, which must be a bad one; says why."""
        self.may_fail = True
        await asyncio.wait([self.running], timeout=60)
        return str(self.running.exception())


class PlacedWorkplace(Workplace):
    """One server, any number of workers that it calls, and what the tables say."""

    def __init__(self, server: Any, ledger: Any, folder: Path) -> None:
        super().__init__(server, ledger, folder)
        self._employed: list[Employed] = []

    async def place(
        self, entrypoint: dict[str, Any], inputs: list[Any] | None = None, **spec: Any
    ) -> str:
        """Submit a job that is to be placed; returns the id of its first task."""
        return await self.submit(entrypoint, inputs, **{"queue": None} | spec)

    def employ(self, **options: Any) -> Employed:
        """Start a worker in this loop, in the first slot that is free."""
        slot = take_slot(self.folder / "slots")
        known: dict[str, Any] = {
            "server": self.url,
            "folder": self.folder / f"slot-{slot.number}",
            "capacity": ROOM,
            "allowed": EVERYTHING,
            "name": f"w{slot.number}",
            "drain_seconds": 0.0,
            "cache": self.folder / "cache",
        }
        worker = PlacedWorker(PlacedOptions(**known | options), slot)
        running = asyncio.create_task(worker.run())
        running.add_done_callback(lambda _: slot.close())
        employed = Employed(worker, running)
        self._employed.append(employed)
        return employed

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[Store]:
        """Open a way to the bundles of the server."""
        async with Transport(self.url) as transport:
            yield Store(transport, self.folder / "objects", self.folder)

    async def close(self) -> None:
        """End every worker; none must have failed."""
        for employed in self._employed:
            employed.worker.drain()
            employed.worker.drain()
        expected = [e for e in self._employed if not e.may_fail and not e.running.cancelled()]
        await asyncio.gather(*(employed.running for employed in expected))
        await super().close()

    async def outcome(self, task_id: str) -> tuple[str, int | None, str | None]:
        """Wait for the end of the first attempt; returns its state, exit code and error."""
        ended = await self.ended(task_id)
        return TaskState(ended["state"]).name, ended["exit_code"], ended["error"]

    async def account(self, task_id: str) -> Any:
        """Read what the first attempt was given, has used, and took to build."""
        rows = await self.about("attempt_usage", task_id)
        return rows[0] if rows else None

    async def event_types(self, task_id: str) -> list[str]:
        """List what has happened to a task."""
        rows = await self.about("events", task_id)
        return [row["type"] for row in sorted(rows, key=lambda row: row["seq"])]

    async def await_lost(self, worker_id: str) -> Any:
        """Wait until an incarnation counts as lost; returns its row."""

        async def lost() -> Any:
            query = "select * from holdfast.workers where worker_id = $1 and lost_at is not null"
            return next(iter(await self.fetch(query, worker_id)), None)

        return await eventually(lost)


@asynccontextmanager
async def open_placed(
    database_url: str,
    folder: Path,
    *,
    tick: float = TICK_SECONDS,
    requires_tokens: bool = False,
) -> AsyncIterator[PlacedWorkplace]:
    """Run a server for the time of a block; leases may be short there."""
    ledger = await asyncpg.connect(database_url)
    options = Options(
        database_url,
        limits=Limits(lease_seconds_min=0.5),
        object_store=str(folder / "objects"),
        heartbeat_seconds=tick,
        requires_tokens=requires_tokens,
    )
    try:
        async with serve(options, Address(port=0)) as server:
            workplace = PlacedWorkplace(server, ledger, folder)
            try:
                yield workplace
            finally:
                await workplace.close()
    finally:
        await ledger.close()


@asynccontextmanager
async def called_through_a_proxy() -> AsyncIterator[tuple[FaultyProxy, dict[str, Any]]]:
    """Open a proxy to a port where a worker will listen; yields it and the worker's options."""
    port = free_port()
    async with FaultyProxy(f"http://127.0.0.1:{port}") as proxy:
        yield proxy, {"port": port, "address": proxy.url}
