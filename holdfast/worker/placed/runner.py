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

from holdfast.client.codec import read_codec
from holdfast.client.transport import Transport
from holdfast.model.work.outcomes import BUILD_UNAVAILABLE, MISSING_TOOL
from holdfast.worker.allowing import Allowed
from holdfast.worker.building.builder import Builder, Built
from holdfast.worker.building.caches import BuildFailed, BuildUnavailable, ToolMissing, try_hold
from holdfast.worker.placed.attempt import PlacedAttempt, decide_outcome
from holdfast.worker.placed.launcher_handle import Launcher
from holdfast.worker.placed.shim_handle import Shim
from holdfast.worker.placed.shim_messages import ShimOrder
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.attempt_outcome import HANDED_BACK, KILLED, Outcome
from holdfast.worker.running.attempt_uids import AttemptUids
from holdfast.worker.running.compensated_call import CompensatedCalls
from holdfast.worker.running.failure_lines import log_failure
from holdfast.worker.running.function import BadCall
from holdfast.worker.running.log_shipping import Shipper
from holdfast.worker.running.process_setup import DEVICE_VARIABLES, list_variables, write_call
from holdfast.worker.running.runnable import identify, lease_of
from holdfast.worker.running.spans import begin_run, build_span, end_run
from holdfast.worker.running.tail import LogTail
from holdfast.worker.running.uncancelled import wait_until_done

log = logging.getLogger("holdfast.placed")
DISK_FREE_BYTES_MIN = 64 << 20
BUILD_LOOK_SECONDS = 1.0
# How long an end is not reported because its output is still under way; less if it was stopped.
OUTPUT_SECONDS_MAX = 30.0
STOPPED_OUTPUT_SECONDS_MAX = 1.0


class PlacedRunner:
    """Takes attempts from their order to their outcome."""

    def __init__(
        self,
        transport: Transport,
        builder: Builder,
        *,
        allowed: Allowed,
        imports: tuple[str, ...] = (),
        codec: str | None = None,
        name: str = "",
        has_devices: bool = False,
        uids: AttemptUids | None = None,
        on_change: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._builder = builder
        self._launcher = Launcher()
        self._compensated = CompensatedCalls(transport, read_codec(codec))
        self._imports = imports
        self._codec = codec
        self._allowed = allowed
        self._name = name
        self._has_devices = has_devices
        self._uids = uids
        self._on_change = on_change

    async def open(self) -> None:
        """Begin what the first attempt would have to wait for."""
        await asyncio.to_thread(self._launcher.start)

    async def close(self) -> None:
        """Start nothing any more; what runs runs on."""
        await asyncio.to_thread(self._launcher.close)

    async def run(self, attempt: PlacedAttempt) -> None:
        """Build and run an attempt; its outcome is in it, and nothing of it runs, on return.

        If cancelled, what it has started lives on, to be adopted.
        """
        self._begin(attempt)
        try:
            built = await self._build_in_time(attempt)
        except BuildFailed as problem:
            failed = Outcome("failed", None, str(problem), "TransientError", problem.stage)
            self._end(attempt, failed)
            return
        except BadCall as problem:
            self._end(attempt, problem.outcome)
            return
        except (BuildUnavailable, OSError) as problem:
            why = MISSING_TOOL if isinstance(problem, ToolMissing) else BUILD_UNAVAILABLE
            self._end(attempt, Outcome("worker_failed", error=str(problem), error_class=why))
            return
        try:
            if attempt.stop is not None:
                self._end(attempt, HANDED_BACK if attempt.stop == "handed_back" else KILLED)
            elif built is None or boot_clock() >= attempt.kill_at:
                self._end(attempt, Outcome("worker_failed", error="its lease ran out in the build"))
            else:
                await self._start(attempt, built)
                await self.watch(attempt)
        except OSError as error:
            if attempt.shim is not None:
                raise
            self._end(attempt, Outcome("worker_failed", error=f"cannot start it: {error}"))
        finally:
            if built is not None:
                self._builder.release(built)

    async def take_over(self, attempt: PlacedAttempt) -> None:
        """Follow an attempt that another process of this worker has started to its end."""
        self._begin(attempt)
        environment = attempt.environment
        hold = None if environment is None else try_hold(Path(environment), shared=True)
        try:
            await self.watch(attempt)
        finally:
            if hold is not None:
                hold.close()

    async def watch(self, attempt: PlacedAttempt) -> None:
        """Follow a shim to its end, and send its output."""
        shim = attempt.shim
        assert shim is not None, "there is nothing to watch"
        gone = asyncio.Event()
        shipper = Shipper(
            self._transport, *attempt.key, token=attempt.lease_token, is_lost=lambda: False
        )
        tail = LogTail(attempt.folder / "output.log", sent_file=attempt.folder / "output.sent")
        shipping = asyncio.create_task(shipper.ship(tail, gone))
        starting = asyncio.create_task(self._notice_start(attempt, shim))
        try:
            attempt.ended = await shim.wait()
            gone.set()
            # The output is sent before the end is reported: from then on the lease may be gone.
            await self._finish_shipping(attempt, shipping)
        finally:
            starting.cancel()
            shipping.cancel()
            await asyncio.wait([starting, shipping])
        if not shipping.cancelled() and (error := shipping.exception()) is not None:
            log.error("output of task %s is lost", attempt.task_id, exc_info=error)
        self._end(attempt, decide_outcome(attempt, attempt.ended))

    async def give_up(self, attempt: PlacedAttempt, error: BaseException) -> None:
        """End an attempt that this worker cannot run to its end."""
        if attempt.shim is not None:
            attempt.shim.hard()
            attempt.ended = await attempt.shim.wait()
        text = f"a fault of the worker: {type(error).__name__}: {error}"
        self._end(attempt, Outcome("worker_failed", error=text))

    async def _build_in_time(self, attempt: PlacedAttempt) -> Built | None:
        """Build while the lease lasts and nobody asks it to stop; None if it was broken off."""
        if attempt.stop is not None:
            return None
        building = asyncio.create_task(self._build(attempt))
        attempt.on_stop = building.cancel
        try:
            while not building.done():
                left = attempt.kill_at - boot_clock()
                if left <= 0:
                    building.cancel()
                await asyncio.wait([building], timeout=max(min(left, BUILD_LOOK_SECONDS), 0.01))
        except asyncio.CancelledError:
            building.cancel()
            await asyncio.wait([building])
            raise
        finally:
            attempt.on_stop = None
        return None if building.cancelled() else building.result()

    async def _build(self, attempt: PlacedAttempt) -> Built:
        """Make the folders, and what the job brings along."""
        self._check_allowed(attempt)
        check_disk(attempt)
        _check_ports(attempt)
        attempt.input = await self._compensated.complete(attempt)
        attempt.folder.mkdir(mode=0o700, parents=True)
        work = attempt.folder / "work"
        job = attempt.job
        if job.bundle is None and not job.requirements:
            work.mkdir()
            return Built(None, None, {})
        attempt.state = "BUILDING"
        self._on_change()
        lease = lease_of(attempt)
        with build_span(attempt):
            built = await self._builder.build(job.bundle, job.requirements, lease, into=work)
        work.mkdir(exist_ok=True)
        attempt.build = dict(built.metrics)
        attempt.environment = None if built.hold is None else str(built.hold.path)
        return built

    def _check_allowed(self, attempt: PlacedAttempt) -> None:
        """Refuse what this worker may not run. Raises BadCall."""
        job = attempt.job
        refusal = self._allowed.find_refusal(
            job.entrypoint,
            self._name,
            variables=job.environment,
            brings_code=_brings_code(attempt),
        )
        if refusal is not None:
            raise BadCall(refusal)

    async def _start(self, attempt: PlacedAttempt, built: Built) -> None:
        """Start the command under a shim. Raises OSError if this host cannot."""
        python = sys.executable if built.python is None else str(built.python)
        server = self._transport.server
        entrypoint, brings_code = attempt.job.entrypoint, _brings_code(attempt)
        argv = write_call(
            attempt,
            attempt.folder,
            identify(attempt, server),
            limit=self._allowed.limit(entrypoint, self._name, brings_code=brings_code),
            imports=self._imports,
            codec=self._codec,
            python=python,
        )
        deadline = attempt.kill_at
        order = ShimOrder(
            argv=argv,
            environment=self._variables(attempt, built),
            cwd=str(attempt.folder / "work"),
            token=str(attempt.lease_token),
            deadline=deadline,
            memory=int(attempt.job.resources.memory),
            cpu=attempt.job.resources.cpu,
            note=msgspec.to_builtins(attempt.record()),
        )
        # The shim keeps the environment from being evicted, also when this process is gone.
        held = () if built.hold is None else (built.hold.fd,)
        starting = asyncio.ensure_future(self._start_shim(attempt.folder, order, held))
        # Seen through, come what may: only what has begun can be ended and waited for.
        was_cancelled = await wait_until_done(starting, on_cancel=lambda: None)
        attempt.shim = starting.result()
        if attempt.kill_at > deadline:
            attempt.shim.renew(attempt.kill_at)
        attempt.pass_stop_on()
        if was_cancelled:
            raise asyncio.CancelledError

    async def _start_shim(self, folder: Path, order: ShimOrder, held: tuple[int, ...]) -> Shim:
        if self._uids is not None:
            uid = await asyncio.to_thread(self._uids.give, folder)
            order = msgspec.structs.replace(order, uid=uid)
        return await Shim.start(self._launcher, folder, order, inherit=held)

    async def _notice_start(self, attempt: PlacedAttempt, shim: Shim) -> None:
        """Note the start as soon as the command runs."""
        await shim.wait_for_start()
        if attempt.state != "RUNNING":
            attempt.state = "RUNNING"
            self._on_change()

    async def _finish_shipping(self, attempt: PlacedAttempt, shipping: asyncio.Task[None]) -> None:
        """Let the rest of the output be sent, for a while; less if the attempt was stopped."""

        def hurry() -> None:
            asyncio.get_running_loop().call_later(STOPPED_OUTPUT_SECONDS_MAX, shipping.cancel)

        has_time = attempt.ended is not None and attempt.ended.reason != "lease"
        if attempt.stop is not None or not has_time:
            hurry()
        attempt.on_stop = hurry
        await asyncio.wait([shipping], timeout=OUTPUT_SECONDS_MAX)
        attempt.on_stop = None

    def _variables(self, attempt: PlacedAttempt, built: Built) -> dict[str, str]:
        paths = [str(attempt.folder / "work")] if built.workspace is not None else []
        if built.python is not None:
            paths += _site_packages(built.python)
        variables = dict(
            list_variables(
                attempt,
                attempt.folder,
                self._transport.server,
                paths=paths,
                has_own_uid=self._uids is not None,
            )
        )
        if built.python is not None:
            folder = built.python.parent
            variables["VIRTUAL_ENV"] = str(folder.parent)
            variables["PATH"] = f"{folder}{os.pathsep}{variables.get('PATH', os.defpath)}"
        for name, port in attempt.ports.items():
            variables[f"HOLDFAST_PORT_{name.upper()}"] = str(port)
        if attempt.devices or self._has_devices:  # who asked for none sees none
            for name in DEVICE_VARIABLES:
                variables[name] = ",".join(attempt.devices)
        if attempt.gang is not None:
            variables["HOLDFAST_GANG_ADDRESS"] = attempt.gang.peers[0]
            variables["HOLDFAST_GANG_PEERS"] = ",".join(attempt.gang.peers)
            variables["HOLDFAST_GANG_SIZE"] = str(len(attempt.gang.peers))
            if attempt.gang.rank is not None:  # an older server does not say
                variables["HOLDFAST_GANG_RANK"] = str(attempt.gang.rank)
        return variables

    def _begin(self, attempt: PlacedAttempt) -> None:
        attempt.span = begin_run(attempt, attempt.delivered_by, began_at=attempt.began_at)

    def _end(self, attempt: PlacedAttempt, outcome: Outcome) -> None:
        attempt.outcome = outcome
        span, attempt.span = attempt.span, None  # it may be ended again, after a fault of ours
        end_run(span, outcome)
        log_failure(attempt, outcome)
        self._on_change()


def check_disk(attempt: PlacedAttempt) -> None:
    """Refuse to start where there is no room for what the attempt will write."""
    folder = attempt.folder.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    wanted = max(int(attempt.job.resources.disk), DISK_FREE_BYTES_MIN)
    if free < wanted:
        raise OSError(f"the disk of this worker has {free} bytes left, and {wanted} are needed")


def _brings_code(attempt: PlacedAttempt) -> bool:
    """Tell whether its job comes with programs of its own."""
    return attempt.job.bundle is not None or bool(attempt.job.requirements)


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
