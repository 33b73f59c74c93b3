"""`holdfast up`: everything on one machine, as one tree of processes.

up ─┬─ Postgres of its own                  ended last; started again if it dies
    ├─ holdfast server                      ended second
    ├─ holdfast worker, N times             drained first
    └─ holdfast worker --placed, N times    drained first
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from holdfast.cli.children import END_SECONDS_MAX, Child, end_children, start_child
from holdfast.cli.commands.server import SERVING_AT, check_hosts
from holdfast.cli.commands.worker import QUEUE, check_numbers
from holdfast.cli.output.text import decimal, size
from holdfast.cli.output.write import is_terminal, remark, write_fields, write_line, write_title
from holdfast.cli.settings import (
    AllowedHosts,
    Concurrency,
    DrainSeconds,
    Imports,
    LogFormat,
    Port,
    Queues,
)
from holdfast.cli.target import EMBEDDED_DATABASE, VARIABLE, embedded
from holdfast.errors import Invalid
from holdfast.model.resources import Capacity
from holdfast.worker.exit_codes import EXITS_TO_RESTART
from holdfast.worker.placed.host_resources import find_capacity

if TYPE_CHECKING:
    from holdfast.embedded import EmbeddedPostgres

EXIT_DIED = 1
WORKERS_MAX = 100
DEFAULT_PORT = 7878
SERVER_SECONDS_MAX = 30.0
RESTART_SECONDS = 1.0
# A worker that cannot stop a function ends itself, or is killed by the process that guards it.
FENCED = (*EXITS_TO_RESTART, -signal.SIGKILL)


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
    log_format: str


def up(
    *,
    port: Port = DEFAULT_PORT,
    allowed_host: AllowedHosts = (),
    folder: Annotated[
        Path | None,
        Parameter(
            name="--data-dir", env_var="HOLDFAST_DATA_DIR", help="Where Postgres keeps its files."
        ),
    ] = None,
    workers: Annotated[
        int, Parameter(help="How many workers that claim, and how many for placed work.")
    ] = 1,
    no_worker: Annotated[bool, Parameter(negative="", help="None: start them elsewhere.")] = False,
    queue: Queues = (),
    import_: Imports = (),
    concurrency: Concurrency = 10,
    drain_seconds: DrainSeconds = 30.0,
    log_format: LogFormat = "auto",
) -> int:
    """Start Postgres, a server and workers on this machine; Ctrl-C ends them in order.

    Exit code 1: the server or all workers have died.
    """
    from holdfast.embedded import default_folder

    check_numbers(concurrency, drain_seconds)
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
        log_format=log_format,
    )
    chosen = default_folder() if folder is None else folder
    remark(f"holdfast: starting Postgres in {chosen}")
    with embedded(chosen) as postgres:
        code = asyncio.run(House(plan, chosen, postgres).live())
    remark("holdfast: everything has ended")
    return code


class House:
    """The server and the workers of one `up`."""

    def __init__(self, plan: Plan, folder: Path, postgres: "EmbeddedPostgres") -> None:
        self._plan = plan
        self._folder = folder
        self._postgres = postgres
        self._variables = {**os.environ, VARIABLE: postgres.url(EMBEDDED_DATABASE)}
        # A machine of which nothing is given away is shared by one.
        self._share = share_machine(find_capacity(folder), plan.workers or 1)
        self._workers: list[Child] = []
        self._starts: dict[str, Callable[[], Awaitable[Child]]] = {}
        self._leaving = asyncio.Event()

    async def live(self) -> int:
        """Start everybody, wait until told to leave or until nothing is left to stay for."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._leave)
        server = await self._start_server()
        try:
            url = await self._wait_until_served(server)
            if url is None:
                return await self._explain_start(server)
            await self._start_workers(url)
            self._welcome(url)
            keeping = asyncio.create_task(self._keep_postgres())
            try:
                return await self._watch(server)
            finally:
                keeping.cancel()
        finally:
            await end_children(self._workers, self._plan.drain_seconds + END_SECONDS_MAX)
            await end_children([server], SERVER_SECONDS_MAX)

    async def _start_server(self) -> Child:
        hosts = [f"--allowed-host={host}" for host in self._plan.allowed_hosts]
        arguments = ["server", "--migrate", "--port", str(self._plan.port), *hosts]
        # So that what it keeps beside its database stands in the same folder.
        variables = {**self._variables, "HOLDFAST_DATA_DIR": str(self._folder)}
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
            f"--drain-seconds={plan.drain_seconds}",
            *(f"--import={module}" for module in plan.imports),
            *self._logs(),
        ]
        claims = [
            f"--concurrency={plan.concurrency}",
            *(f"--queue={queue}" for queue in plan.queues),
            *_amount_flags(self._share),
        ]
        variables = {**self._variables, "HOLDFAST_SERVER": url}
        del variables[VARIABLE]  # a worker never touches the database
        # A queue of the environment is for those that claim.
        variables.pop("HOLDFAST_QUEUES", None)
        for rank in range(1, plan.workers + 1):
            article, suffix = ("the ", "") if plan.workers == 1 else ("", f" {rank}")
            placed = _placed_flags(rank, self._share)
            for kind, flags in (("worker", claims), ("placed worker", placed)):
                name = f"{article}{kind}{suffix}"
                arguments = ["worker", *options, *flags]
                self._starts[name] = partial(start_child, name, arguments, variables)
                self._workers.append(await self._starts[name]())

    async def _watch(self, server: Child) -> int:
        """Wait for the request to leave; start again who was fenced, leave with nobody left."""
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

        while True:
            await asyncio.sleep(RESTART_SECONDS)
            if self._postgres.is_running:
                continue
            remark("holdfast: Postgres has ended, and is started again")
            try:
                await asyncio.to_thread(self._postgres.start)
            except PostgresUnavailable as error:
                remark(f"holdfast: {error}")

    async def _start_again(self, gone: Sequence[Child]) -> list[Child]:
        """Start workers instead of those that were fenced, after a pause."""
        fenced = [child for child in gone if child.ended.result() in FENCED]
        if fenced:
            with suppress(TimeoutError):
                async with asyncio.timeout(RESTART_SECONDS):
                    await self._leaving.wait()
        if self._leaving.is_set():
            return []
        again = []
        for child in fenced:
            remark(f"holdfast: {child.name} is started again")
            again.append(await self._starts[child.name]())
            self._workers[self._workers.index(child)] = again[-1]
        return again

    def _leave(self) -> None:
        """Begin to end; asked again, workers do not wait for what still runs."""
        if self._leaving.is_set():
            for child in self._workers:
                if child.is_alive:
                    child.ask_to_end()
        elif self._workers:
            remark("holdfast: draining; once more stops what still runs")
        self._leaving.set()

    def _logs(self) -> Sequence[str]:
        return ["--log-format", self._plan.log_format]

    def _describe_share(self) -> str:
        return f"with {decimal(self._share.cpu)} cpu and {size(self._share.memory)} each"

    def _welcome(self, url: str) -> None:
        plan = self._plan
        write_title("Holdfast is up.")
        write_fields(
            {
                "server": url,
                "database": f"Postgres in {self._folder}",
                "workers": f"{plan.workers} on {', '.join(plan.queues)}"
                if plan.workers
                else "none; start one with `holdfast worker`",
                "placed": f"{plan.workers} more for placed work, {self._describe_share()}"
                if plan.workers
                else "",
                "try": f"{_setting(url)}holdfast run{_queue_flag(plan.queues)} -- echo hello",
                "or": f"{_setting(url)}holdfast run --cpu 1 -- echo hello" if plan.workers else "",
            }
        )
        if is_terminal():
            write_line("Ctrl-C ends it all.")
        sys.stdout.flush()


def share_machine(whole: Capacity, count: int) -> Capacity:
    """Decide what each of several placed workers has to give, so that nothing is given twice.

    Each has a core at least, however few there are; GPUs are left to the first one.
    """
    return Capacity(
        cpu=max(1.0, whole.cpu // count),
        memory=whole.memory // count,
        disk=whole.disk // count,
    )


def _placed_flags(rank: int, share: Capacity) -> list[str]:
    return [
        "--placed",
        f"--name=worker-{rank}",
        *_amount_flags(share),
        *([] if rank == 1 else ["--gpu=0"]),
    ]


def _amount_flags(share: Capacity) -> list[str]:
    return [f"--cpu={share.cpu:g}", f"--memory={share.memory}", f"--disk={share.disk}"]


def _any_alive(children: Sequence[Child]) -> bool:
    return any(child.is_alive for child in children)


def _setting(url: str) -> str:
    """Write what a command needs to find a server that is not where it looks by itself."""
    return "" if url.endswith(f":{DEFAULT_PORT}") else f"HOLDFAST_SERVER={url} "


def _queue_flag(queues: Sequence[str]) -> str:
    return "" if QUEUE in queues else f" --queue {queues[0]}"
