"""Run placed attempts: build what they need, start their shims, send their output."""

import asyncio
import logging
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdfast.client.transport import Transport
from holdfast.worker.briefing import list_variables, write_call
from holdfast.worker.builder import Builder, Built
from holdfast.worker.caches import BuildFailed, BuildUnavailable
from holdfast.worker.clock import boot_clock
from holdfast.worker.function import HANDED_BACK, KILLED, Outcome
from holdfast.worker.inside import identify
from holdfast.worker.placed_attempt import PlacedAttempt
from holdfast.worker.shims import Shim, ShimOrder
from holdfast.worker.shipping import Shipper
from holdfast.worker.tail import LogTail

log = logging.getLogger("holdfast.placed")
DISK_FREE_BYTES_MIN = 64 << 20
START_LOOK_SECONDS = 0.02
START_LOOKS_MAX = 1500


class PlacedRunner:
    """Takes attempts from their order to their outcome."""

    def __init__(
        self,
        transport: Transport,
        builder: Builder,
        *,
        imports: tuple[str, ...] = (),
        on_news: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._builder = builder
        self._imports = imports
        self._on_news = on_news

    async def run(self, attempt: PlacedAttempt) -> None:
        """Build and run an attempt; its outcome is in it, and nothing of it runs, on return."""
        try:
            async with asyncio.timeout_at(_loop_time(attempt.kill_at)) as ending:
                built = await self._build(attempt)
        except TimeoutError:
            assert ending.expired(), "a timeout of somebody else's"
            self._end(attempt, Outcome("worker_failed", error="its lease ran out in the build"))
            return
        except asyncio.CancelledError:
            self._end(attempt, HANDED_BACK if attempt.stop == "handed_back" else KILLED)
            return
        except BuildFailed as problem:
            failed = Outcome("failed", None, str(problem), "TransientError", problem.stage)
            self._end(attempt, failed)
            return
        except (BuildUnavailable, OSError) as problem:
            self._end(attempt, Outcome("worker_failed", error=str(problem)))
            return
        try:
            await self._start(attempt, built)
            if attempt.outcome is None:
                await self.watch(attempt)
        finally:
            self._builder.release(built)

    async def watch(self, attempt: PlacedAttempt) -> None:
        """Follow a shim to its end, and send its output."""
        shim = attempt.shim
        assert shim is not None, "there is nothing to watch"
        gone = asyncio.Event()
        shipper = Shipper(self._transport, *attempt.key, attempt.lease_token, is_lost=lambda: False)
        shipping = asyncio.create_task(shipper.ship(LogTail(attempt.folder / "output.log"), gone))
        starting = asyncio.create_task(self._notice_start(attempt, shim))
        try:
            attempt.ended = await shim.wait()
        finally:
            starting.cancel()
            gone.set()
        # The output is sent before the end is told: from then on the lease may be gone.
        await asyncio.wait([shipping], timeout=max(attempt.margin, 1.0))
        shipping.cancel()
        self._end(attempt, attempt.read_outcome(attempt.ended))

    async def give_up(self, attempt: PlacedAttempt, error: BaseException) -> None:
        """End an attempt that this worker cannot run to its end."""
        if attempt.shim is not None:
            attempt.shim.hard()
            attempt.ended = await attempt.shim.wait()
        text = f"a fault of the worker: {type(error).__name__}: {error}"
        self._end(attempt, Outcome("worker_failed", error=text))

    async def _build(self, attempt: PlacedAttempt) -> Built:
        """Make the folders, and what the job brings along."""
        check_disk(attempt)
        _check_ports(attempt)
        attempt.folder.mkdir(mode=0o700, parents=True)
        work = attempt.folder / "work"
        job = attempt.job
        if job.bundle is None and not job.requirements:
            work.mkdir()
            return Built(None, None, {})
        attempt.state = "BUILDING"
        self._on_news()
        token = f"{attempt.task_id} {attempt.number} {attempt.lease_token}"
        built = await self._builder.build(job.bundle, job.requirements, token, into=work)
        work.mkdir(exist_ok=True)
        attempt.build = dict(built.metrics)
        return built

    async def _start(self, attempt: PlacedAttempt, built: Built) -> None:
        """Start the command under a shim."""
        python = sys.executable if built.python is None else str(built.python)
        server = self._transport.server
        argv = write_call(
            attempt,
            attempt.folder,
            identify(attempt, server),
            imports=self._imports,
            python=python,
        )
        order = ShimOrder(
            argv=argv,
            environment=self._variables(attempt, built),
            cwd=str(attempt.folder / "work"),
            token=str(attempt.lease_token),
            deadline=attempt.kill_at,
            memory=int(attempt.job.resources.memory),
            cpu=attempt.job.resources.cpu,
            note=msgspec.to_builtins(attempt.brief()),
        )
        starting = asyncio.ensure_future(Shim.start(attempt.folder, order))
        try:
            attempt.shim = await asyncio.shield(starting)
        except asyncio.CancelledError:
            attempt.shim = await starting  # seen through: only what has begun can be waited for
            attempt.shim.hard()
        except OSError as error:
            self._end(attempt, Outcome("worker_failed", error=f"cannot start it: {error}"))
            return
        attempt.shim.renew(attempt.kill_at)
        if attempt.stop == "hard":
            attempt.shim.hard()

    async def _notice_start(self, attempt: PlacedAttempt, shim: Shim) -> None:
        """Tell of the start as soon as the command runs."""
        for _ in range(START_LOOKS_MAX):
            if shim.has_started():
                attempt.state = "RUNNING"
                self._on_news()
                return
            await asyncio.sleep(START_LOOK_SECONDS)

    def _variables(self, attempt: PlacedAttempt, built: Built) -> dict[str, str]:
        paths = [str(attempt.folder / "work")] if built.workspace is not None else []
        if built.python is not None:
            paths += _site_packages(built.python)
        variables = dict(
            list_variables(attempt, attempt.folder, self._transport.server, paths=paths)
        )
        if built.python is not None:
            folder = built.python.parent
            variables["VIRTUAL_ENV"] = str(folder.parent)
            variables["PATH"] = f"{folder}{os.pathsep}{variables.get('PATH', os.defpath)}"
        for name, port in attempt.ports.items():
            variables[f"HOLDFAST_PORT_{name.upper()}"] = str(port)
        if attempt.gang is not None:
            variables["HOLDFAST_GANG_ADDRESS"] = attempt.gang.peers[0]
            variables["HOLDFAST_GANG_PEERS"] = ",".join(attempt.gang.peers)
        return variables

    def _end(self, attempt: PlacedAttempt, outcome: Outcome) -> None:
        attempt.outcome = outcome
        self._on_news()


def _loop_time(boot_time: float) -> float:
    """Say the same instant by the clock of the loop."""
    return asyncio.get_running_loop().time() + boot_time - boot_clock()


def check_disk(attempt: PlacedAttempt) -> None:
    """Refuse to start where there is no room for what the attempt will write."""
    place = attempt.folder.parent
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    free = shutil.disk_usage(place).free
    wanted = max(int(attempt.job.resources.disk), DISK_FREE_BYTES_MIN)
    if free < wanted:
        raise OSError(f"the disk of this worker has {free} bytes left, and {wanted} are needed")


def _check_ports(attempt: PlacedAttempt) -> None:
    """Make sure that nobody else on this host uses the ports that were given out."""
    for name, port in attempt.ports.items():
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                raise OSError(f"port {port} ({name}) is in use on this host") from error


def _site_packages(python: Path) -> list[str]:
    return [str(path) for path in python.parent.parent.glob("lib/python*/site-packages")]
