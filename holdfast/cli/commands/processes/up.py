"""`holdfast up`: everything on one machine, as one tree of processes.

up ─┬─ Postgres of its own, if none is named  ended last; started again if it dies
    ├─ holdfast server                        ended second
    └─ holdfast worker --placed, N times      drained first; serves the queues, too
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from holdfast.cli.children import END_SECONDS_MAX, Child, end_children, start_child
from holdfast.cli.commands.processes.server import SERVING_AT, check_hosts
from holdfast.cli.commands.processes.worker import (
    ALLOW_ANYTHING,
    QUEUE,
    check_heartbeat_timeout,
    check_numbers,
    check_queues,
)
from holdfast.cli.imports import EXIT_INVALID, try_imports
from holdfast.cli.output.unread import while_read
from holdfast.cli.output.write import is_terminal, remark, write_fields, write_line, write_title
from holdfast.cli.settings import (
    HEARTBEAT_TIMEOUT,
    AllowedHosts,
    Concurrency,
    DrainSeconds,
    Imports,
    LogFormat,
    Port,
    Queues,
)
from holdfast.cli.shares import describe_shares, find_idle, share_machine
from holdfast.cli.target import EMBEDDED_DATABASE, VARIABLE, check_url, embedded
from holdfast.errors import Invalid
from holdfast.model.addresses import without_secrets
from holdfast.model.workers.resources import Capacity
from holdfast.services.chores import Chore, take_turn
from holdfast.worker.placed.host_resources import find_capacity

if TYPE_CHECKING:
    from holdfast.embedded import EmbeddedPostgres

EXIT_DIED = 1
WORKERS_MAX = 100
DEFAULT_PORT = 7878
SERVER_SECONDS_MAX = 30.0
RESTART_SECONDS = 1.0
# A worker sees to its own process; only one whose supervisor was killed, too, is left to us.
KILLED = -signal.SIGKILL


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be started."""

    port: int
    allowed_hosts: tuple[str, ...]
    workers: int
    queues: tuple[str, ...]
    imports: tuple[str, ...]
    concurrency: int
    drain_seconds: float
    heartbeat_timeout_seconds: float | None
    log_format: str


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What it all stands on: a folder, and a database, which may be in a Postgres of our own."""

    folder: Path
    database_url: str
    postgres: "EmbeddedPostgres | None"
    # For the next `up` in this folder, which is told where this one serves.
    note_address: Callable[[str], None]


def up(
    *,
    database_url: Annotated[
        str | None,
        Parameter(
            name="--database-url",
            env_var=VARIABLE,
            help="A PostgreSQL 15 or newer, instead of a Postgres of its own.",
        ),
    ] = None,
    port: Port = DEFAULT_PORT,
    allowed_host: AllowedHosts = (),
    folder: Annotated[
        Path | None,
        Parameter(
            name="--data-dir",
            env_var="HOLDFAST_DATA_DIR",
            help="Where Postgres and bundles are kept.",
        ),
    ] = None,
    workers: Annotated[int, Parameter(help="How many workers, which share the machine.")] = 1,
    no_worker: Annotated[bool, Parameter(negative="", help="None: start them elsewhere.")] = False,
    queue: Queues = (),
    import_: Imports = (),
    concurrency: Concurrency = 10,
    drain_seconds: DrainSeconds = 30.0,
    heartbeat_timeout_seconds: Annotated[float | None, HEARTBEAT_TIMEOUT] = None,
    log_format: LogFormat = "auto",
) -> int:
    """Start Postgres, a server and workers on this machine; Ctrl-C ends them in order.

    Exit code 1: the server or all workers have died.
    """
    from holdfast.embedded import default_folder

    check_numbers(concurrency, drain_seconds)
    if heartbeat_timeout_seconds is not None:
        check_heartbeat_timeout(heartbeat_timeout_seconds)
    check_queues(queue)
    check_hosts(allowed_host)
    if not 0 <= workers <= WORKERS_MAX:
        raise Invalid("workers", f"is {workers}; use 0 to {WORKERS_MAX}")
    plan = Plan(
        port=port,
        allowed_hosts=allowed_host,
        workers=0 if no_worker else workers,
        queues=queue or (QUEUE,),
        imports=import_,
        concurrency=concurrency,
        drain_seconds=drain_seconds,
        heartbeat_timeout_seconds=heartbeat_timeout_seconds,
        log_format=log_format,
    )
    if plan.workers and not try_imports(plan.imports):
        return EXIT_INVALID
    chosen = default_folder() if folder is None else folder
    with stand_on(chosen, database_url) as ground:
        code = asyncio.run(House(plan, ground).live())
    remark("holdfast: everything has ended")
    return code


@contextmanager
def stand_on(folder: Path, database_url: str | None) -> Iterator[Ground]:
    """Have a database for the time of a block: the one that is named, or one of our own."""
    from holdfast.embedded import EmbeddedPostgres, occupy

    url = None if database_url is None else check_url(database_url)
    with occupy(folder) as note_address:
        if url is not None:
            yield Ground(folder=folder, database_url=url, postgres=None, note_address=note_address)
            return
        is_there = EmbeddedPostgres(folder).is_running
        remark(f"holdfast: {'joining the' if is_there else 'starting'} Postgres in {folder}")
        with embedded(folder) as postgres:
            yield Ground(
                folder=folder,
                database_url=postgres.url(EMBEDDED_DATABASE),
                postgres=postgres,
                note_address=note_address,
            )


class House:
    """The server and the workers of one `up`."""

    def __init__(self, plan: Plan, ground: Ground) -> None:
        self._plan = plan
        self._ground = ground
        self._variables = {**os.environ, VARIABLE: ground.database_url}
        self._shares = share_machine(find_capacity(ground.folder), plan.workers)
        self._workers: list[Child] = []
        self._starts: dict[str, Callable[[], Awaitable[Child]]] = {}
        self._leaving = asyncio.Event()

    async def live(self) -> int:
        """Start everybody, wait until told to leave or until nothing is left to stay for."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._leave)
        keeping = asyncio.create_task(self._keep_postgres())
        try:
            return await self._serve(await self._start_server())
        finally:
            keeping.cancel()

    async def _serve(self, server: Child) -> int:
        """Have workers once the server serves, and end everybody in order."""
        try:
            url = await self._wait_until_served(server)
            if url is None:
                return await self._explain_start(server)
            self._ground.note_address(url)
            await self._start_workers(url)
            with while_read(sys.stdout):
                self._welcome(url)
            return await self._watch(server)
        finally:
            await end_children(self._workers, self._plan.drain_seconds + END_SECONDS_MAX)
            await end_children([server], SERVER_SECONDS_MAX)

    async def _start_server(self) -> Child:
        hosts = [f"--allowed-host={host}" for host in self._plan.allowed_hosts]
        arguments = ["server", "--migrate", "--port", str(self._plan.port), *hosts]
        # So that what it keeps beside its database stands in the same folder.
        variables = {**self._variables, "HOLDFAST_DATA_DIR": str(self._ground.folder)}
        return await start_child(
            "the server", [*arguments, *self._logs()], variables, with_output=True
        )

    async def _wait_until_served(self, server: Child) -> str | None:
        """Wait for the server's word that it serves; None if it ends first or we shall leave."""
        assert server.process.stdout is not None
        reading = asyncio.create_task(server.process.stdout.readline())
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
            line = reading.result().decode() if reading.done() else ""
        finally:
            for task in (reading, leaving):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        return line.removeprefix(SERVING_AT).strip() if line.startswith(SERVING_AT) else None

    async def _explain_start(self, server: Child) -> int:
        if self._leaving.is_set():
            return 0
        code = await server.ended
        remark("holdfast: the server did not start")
        return code or EXIT_DIED

    async def _start_workers(self, url: str) -> None:
        plan = self._plan
        options = [
            *(f"--queue={queue}" for queue in plan.queues),
            f"--concurrency={plan.concurrency}",
            *(f"--import={module}" for module in plan.imports),
            f"--drain-seconds={plan.drain_seconds}",
            *self._patience(),
            *ALLOW_ANYTHING,  # one person's machine: who submits is who started it
            *self._logs(),
        ]
        variables = {**self._variables, "HOLDFAST_SERVER": url}
        del variables[VARIABLE]  # a worker never touches the database
        for rank, share in enumerate(self._shares, 1):
            name = "the worker" if plan.workers == 1 else f"worker {rank}"
            arguments = ["worker", *options, *_placed_flags(rank, share)]
            self._starts[name] = partial(start_child, name, arguments, variables)
            self._workers.append(await self._starts[name]())

    async def _watch(self, server: Child) -> int:
        """Wait for the request to leave; start again who was killed, leave with nobody left."""
        leaving = asyncio.create_task(self._leaving.wait())
        watched: dict[asyncio.Task[int], Child] = {each.ended: each for each in self._workers}
        watched[server.ended] = server
        try:
            while not self._leaving.is_set():
                await asyncio.wait({leaving, *watched}, return_when=asyncio.FIRST_COMPLETED)
                gone = [watched.pop(task) for task in list(watched) if task.done()]
                for child in gone:
                    remark(f"holdfast: {child.name} has ended with code {child.ended.result()}")
                if server not in gone:
                    again = await self._start_again(gone)
                    watched |= {child.ended: child for child in again}
                if server in gone or (gone and not _any_alive(self._workers)):
                    remark("holdfast: nothing is left to stay for")
                    return EXIT_DIED
            return 0
        finally:
            leaving.cancel()

    async def _keep_postgres(self) -> None:
        """Start Postgres again whenever it has died; the others go on where they were by then."""
        from holdfast.embedded import PostgresUnavailable

        postgres = self._ground.postgres
        if postgres is None:
            return

        async def start_again() -> int:
            if not postgres.is_running:
                remark("holdfast: Postgres has ended, and is started again")
                try:
                    await asyncio.to_thread(postgres.start)
                except PostgresUnavailable as error:
                    remark(f"holdfast: {error}")
            return 0

        while True:
            await asyncio.sleep(RESTART_SECONDS)
            await take_turn(Chore("keeping Postgres", RESTART_SECONDS, start_again))

    async def _start_again(self, gone: Sequence[Child]) -> list[Child]:
        """Start workers instead of those that were killed, after a pause."""
        killed = [child for child in gone if child.ended.result() == KILLED]
        if killed:
            with suppress(TimeoutError):
                async with asyncio.timeout(RESTART_SECONDS):
                    await self._leaving.wait()
        if self._leaving.is_set():
            return []
        again = []
        for child in killed:
            remark(f"holdfast: {child.name} is started again")
            again.append(await self._starts[child.name]())
            self._workers[self._workers.index(child)] = again[-1]
        return again

    def _leave(self) -> None:
        """Begin to end; asked again, workers do not wait for what still runs."""
        is_asked_again = self._leaving.is_set()
        self._leaving.set()
        if is_asked_again:
            for child in self._workers:
                if child.is_alive:
                    child.ask_to_end()
        elif self._workers:
            remark("holdfast: draining; once more stops what still runs")

    def _logs(self) -> Sequence[str]:
        return ["--log-format", self._plan.log_format]

    def _patience(self) -> Sequence[str]:
        seconds = self._plan.heartbeat_timeout_seconds
        return [] if seconds is None else [f"--heartbeat-timeout-seconds={seconds}"]

    def _welcome(self, url: str) -> None:
        plan, ground = self._plan, self._ground
        write_title("Holdfast is up.")
        write_fields(
            {
                "server": url,
                "dashboard": f"{url}/",
                "database": without_secrets(ground.database_url),
                "data": str(ground.folder),
                "workers": f"{plan.workers} on {', '.join(plan.queues)} and for placed work, "
                f"{describe_shares(self._shares)}"
                if plan.workers
                else "none; start one with `holdfast worker --import MODULE`",
                "try": f"{_setting(url)}holdfast run{_queue_flag(plan.queues)} -- echo hello",
                "or": f"{_setting(url)}holdfast run --cpu 1 -- echo hello" if plan.workers else "",
            }
        )
        if is_terminal():
            write_line("Ctrl-C ends it all.")
        if (warning := find_idle(self._shares)) is not None:
            remark(f"holdfast: {warning}")


def _placed_flags(rank: int, share: Capacity) -> list[str]:
    return [
        "--placed",
        f"--name=worker-{rank}",
        f"--cpu={share.cpu:g}",
        f"--memory={share.memory}B",
        f"--disk={share.disk}B",
        *([] if rank == 1 else ["--gpu=0"]),
    ]


def _any_alive(children: Sequence[Child]) -> bool:
    return any(child.is_alive for child in children)


def _setting(url: str) -> str:
    """Write what a command needs to find a server that is not where it looks by itself."""
    return "" if url.endswith(f":{DEFAULT_PORT}") else f"HOLDFAST_SERVER={url} "


def _queue_flag(queues: Sequence[str]) -> str:
    return "" if QUEUE in queues else f" --queue {queues[0]}"
