"""Stand-ins for workers that are called over real connections, and a leader that calls them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

import msgspec
from aiohttp import web

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.workers.resources import Capacity
from holdfast.operations.placed.leadership import Deposed, Term, lead
from holdfast.operations.placed.place import Scheduler
from holdfast.operations.register import Placing, Registration, register
from holdfast.services.leading.heartbeat_loop import HeartbeatLoop
from holdfast.services.writers import Writers
from holdfast.wire.cluster import HEARTBEAT_PATH, SECRET_HEADER, WorkerHeartbeatRequest
from tests.stand_in import StandIn, secret_of
from tests.waiting import eventually
from tests.world import World

HOUR = 3600.0


class Called(StandIn):
    """A stand-in behind a door of its own; its mood decides what becomes of a call."""

    def __init__(self, worker_id: str) -> None:
        super().__init__(worker_id)
        self.mood: Mood = well
        self.address = ""
        self.received = 0
        self.at_once = 0
        self.at_once_max = 0
        self.released = asyncio.Event()

    async def hear(self, request: web.Request) -> web.StreamResponse:
        """Take a call, and treat it as the mood is."""
        assert request.headers[SECRET_HEADER] == self.credential.call_secret
        call = msgspec.json.decode(await request.read(), type=WorkerHeartbeatRequest)
        assert call.worker_id == self.worker_id
        self.received += 1
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        try:
            return await self.mood(self, request, call)
        finally:
            self.at_once -= 1

    async def be_called(self, times: int = 1) -> None:
        """Wait until it was called that often from now on."""
        enough = self.received + times
        await eventually(lambda: self.received >= enough)


Mood = Callable[[Called, web.Request, WorkerHeartbeatRequest], Awaitable[web.StreamResponse]]


async def well(worker: Called, _: web.Request, call: WorkerHeartbeatRequest) -> web.Response:
    """Do what a good worker does."""
    return say(worker.obey(call))


async def hang(worker: Called, _: web.Request, call: WorkerHeartbeatRequest) -> web.Response:
    """Say nothing until it is released."""
    await worker.released.wait()
    return web.Response()


async def hang_up(_: Called, request: web.Request, __: WorkerHeartbeatRequest) -> web.Response:
    """Close the connection instead of answering."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def refuse(status: int, text: str = "no") -> Mood:
    """Make a mood that answers with an error."""

    async def mood(*_: object) -> web.Response:
        return web.Response(status=status, text=text, headers={"Location": "/elsewhere"})

    return mood


def lie(**fields: Any) -> Mood:
    """Make a mood that answers well but for some fields."""

    async def mood(worker: Called, _: web.Request, call: WorkerHeartbeatRequest) -> web.Response:
        told = {**msgspec.to_builtins(worker.obey(call)), **fields}
        return web.Response(body=msgspec.json.encode(told))

    return mood


def say(answer: object) -> web.Response:
    """Answer with a message."""
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


class Fleet:
    """Workers behind doors, and the heartbeats of one term."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.writers = Writers(ledger)
        self.changes = 0
        self.running: asyncio.Task[None] | None = None
        self._doors = AsyncExitStack()
        self._closing: dict[str, Callable[[], Awaitable[None]]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._doors.aclose()
        await self.writers.stop()

    async def add(
        self,
        worker_id: str,
        mood: Mood = well,
        *,
        host: str | None = None,
        replaces: str | None = None,
        adopts: tuple[Fence, ...] = (),
        **has: Any,
    ) -> Called:
        """Open a door and register who is behind it."""
        worker = Called(worker_id)
        worker.mood = mood
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post(HEARTBEAT_PATH, worker.hear)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()

        async def close() -> None:
            worker.released.set()
            await runner.cleanup()

        self._closing[worker_id] = close
        self._doors.push_async_callback(close)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        worker.address = f"http://{host}:{port}"
        capacity = Capacity(**{"cpu": 8.0} | has)
        placing = Placing(worker.address, capacity, {})
        await register(
            self.ledger,
            Registration(
                worker_id,
                worker_id,
                host or f"host-{worker_id}",
                replaces=replaces,
                placing=placing,
                adopts=adopts,
                secret=worker.secret,
                replaces_secret=None if replaces is None else secret_of(replaces),
            ),
        )
        return worker

    async def vanish(self, worker: Called) -> None:
        """Close a worker's door for good."""
        await self._closing[worker.worker_id]()

    async def term(self, leader: str = "leader") -> Term:
        """Lead."""
        term = await lead(self.ledger, leader)
        assert term is not None, "somebody else leads"
        return term

    @asynccontextmanager
    async def beating(
        self, tick: float = HOUR, call_seconds_max: float = 60.0
    ) -> AsyncIterator[HeartbeatLoop]:
        """Call the workers for the time of a block; with the first answers it begins."""

        def count_change() -> None:
            self.changes += 1

        beats = HeartbeatLoop(
            self.ledger,
            self.writers,
            await self.term(),
            on_change=count_change,
            tick=tick,
            call_seconds_max=call_seconds_max,
        )
        self.running = running = asyncio.create_task(beats.run())
        try:
            yield beats
        finally:
            running.cancel()
            await asyncio.wait([running])
            error = None if running.cancelled() else running.exception()
            assert error is None or isinstance(error, Deposed), error

    async def place(self) -> dict[TaskId, str]:
        """Make one pass of the scheduler."""
        made = await Scheduler(self.ledger).run(await self.term())
        made.raise_broken()
        return {item.task_id: item.worker_id for item in made.placed}


async def failures(world: World, worker: Called) -> int:
    """Read how many heartbeats of a worker have failed in a row."""
    query = "select consecutive_failures from holdfast.workers where worker_id = $1"
    [row] = await world.clock.fetch(query, worker.worker_id)
    return int(row[0])


async def is_dead(world: World, worker: Called) -> bool:
    """Tell whether a worker counts as lost."""
    query = "select lost_at from holdfast.workers where worker_id = $1"
    [row] = await world.clock.fetch(query, worker.worker_id)
    return row[0] is not None


async def answered(world: World, worker: Called) -> bool:
    """Tell whether an answer of a worker is stored."""
    query = "select answered_at from holdfast.workers where worker_id = $1"
    [row] = await world.clock.fetch(query, worker.worker_id)
    return row[0] is not None


async def a_task_on(fleet: Fleet, world: World, worker: Called) -> TaskId:
    """Have a task placed on a worker that has answered, and started there."""
    await eventually(lambda: answered(world, worker))
    task_id = TaskId(await world.submit(queue=None, backoff={"base": 0.0}), 0)
    assert await fleet.place() == {task_id: worker.worker_id}
    return task_id
