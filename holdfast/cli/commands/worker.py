"""`holdfast worker`: claims tasks from queues, or is given placed ones, and runs them."""

import asyncio
import importlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import uuid4

from cyclopts import Group, Parameter

from holdfast.cli.output.log_lines import set_up_logging
from holdfast.cli.output.write import remark
from holdfast.cli.settings import (
    Concurrency,
    DrainSeconds,
    Imports,
    LogFormat,
    Queues,
    Server,
    SqsEndpointUrl,
    SqsPrefix,
    WakeUps,
)
from holdfast.errors import Invalid, Unavailable
from holdfast.tracing.switch import traced

if TYPE_CHECKING:
    from holdfast.model.resources import AttributeValue
    from holdfast.worker.claimed.worker import Worker
    from holdfast.worker.placed.worker import PlacedWorker

    Work = Callable[[], Worker | PlacedWorker]

EXIT_REPLACED = 1
QUEUE = "default"
MARK = "HOLDFAST_WORKER"
CONCURRENCY_MAX = 10_000
DRAIN_SECONDS_MAX = 86_400.0
HEARTBEAT_TIMEOUT_SECONDS = 60.0
HEARTBEAT_TIMEOUT_SECONDS_MIN, HEARTBEAT_TIMEOUT_SECONDS_MAX = 1.0, 86_400.0


@Parameter(name="*", group=Group("Resources", help="What it has for tasks that name them."))
@dataclass(frozen=True, kw_only=True)
class Offer:
    """What a worker has to give to tasks; what is left out is found on the host."""

    placed: Annotated[
        bool, Parameter(negative="", help="Be given placed work; queues only where named, too.")
    ] = False
    cpu: Annotated[float | None, Parameter(help="Cores. Default: all.")] = None
    memory: Annotated[str | None, Parameter(help="Memory, such as 32GB. Default: all.")] = None
    disk: Annotated[str | None, Parameter(help="Disk, such as 1TB. Default: what is free.")] = None
    gpu: Annotated[str | None, Parameter(help="GPUs: 2, or 2:H100. Default: those found.")] = None
    attribute: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="What constraints ask for, such as region=eu; repeat it."),
    ] = ()
    heartbeat_timeout_seconds: Annotated[
        float,
        Parameter(
            env_var="HOLDFAST_HEARTBEAT_TIMEOUT_SECONDS",
            help="After how long without a call it stops its tasks and registers anew.",
        ),
    ] = HEARTBEAT_TIMEOUT_SECONDS

    def check(self) -> None:
        """Refuse what would be said to nobody."""
        for name in ("gpu", "attribute"):
            if getattr(self, name) not in (None, ()) and not self.placed:
                raise Invalid(name, "goes with --placed; queue work has cpu, memory and disk")
        patience = self.heartbeat_timeout_seconds
        if not HEARTBEAT_TIMEOUT_SECONDS_MIN <= patience <= HEARTBEAT_TIMEOUT_SECONDS_MAX:
            allowed = f"{HEARTBEAT_TIMEOUT_SECONDS_MIN:g} to {HEARTBEAT_TIMEOUT_SECONDS_MAX:g}"
            raise Invalid("heartbeat_timeout_seconds", f"is {patience:g}; use {allowed}")


NO_OFFER = Offer()


def run_worker(
    *,
    server: Server = None,
    queue: Queues = (),
    concurrency: Concurrency = 10,
    import_: Imports = (),
    isolation: Annotated[
        Literal["auto", "process"],
        Parameter(help="process: every function in a process of its own."),
    ] = "auto",
    offer: Offer = NO_OFFER,
    name: Annotated[str | None, Parameter(help="Default: the host's name.")] = None,
    drain_seconds: DrainSeconds = 30.0,
    wake_ups: WakeUps = "notify",
    sqs_prefix: SqsPrefix = "holdfast-",
    sqs_endpoint_url: SqsEndpointUrl = None,
    log_format: LogFormat = "auto",
) -> int:
    """Claim tasks from queues, or be given placed ones, and run them, until asked to drain.

    Exit code 1: another worker has taken this one's place.
    """
    import uvloop

    from holdfast.client.transport import find_server
    from holdfast.worker.claimed.sqs import SqsInbox

    check_numbers(concurrency, drain_seconds)
    offer.check()
    url = find_server(server)
    set_up_logging(log_format)
    import_modules(import_)
    workers: list[Work] = []
    shared: dict[str, Any] = {"imports": import_, "drain_seconds": drain_seconds}
    if name is not None:
        shared["name"] = name
    with ExitStack() as held:
        held.enter_context(traced("holdfast-worker"))
        if queue or not offer.placed:
            queues = queue or (QUEUE,)
            inbox = partial(SqsInbox, queues, prefix=sqs_prefix, endpoint_url=sqs_endpoint_url)
            workers.append(
                _claimed(
                    held,
                    url,
                    queues=queues,
                    concurrency=concurrency,
                    isolation=isolation,
                    mark=mark_children(),
                    offer=offer,
                    open_inbox=inbox if wake_ups == "sqs" else None,
                    **shared,
                )
            )
        if offer.placed:
            workers.append(_placed(held, url, offer, **shared))
        return uvloop.run(_work(workers))


def _claimed(held: ExitStack, url: str, offer: Offer, **options: Any) -> "Work":
    """Prepare to claim from queues; beside placed work, nothing that names resources."""
    from holdfast.model.resources import Capacity
    from holdfast.worker.claimed.options import WorkerOptions
    from holdfast.worker.claimed.worker import Worker
    from holdfast.worker.placed.host_resources import find_capacity
    from holdfast.worker.slots import take_slot

    folder = _folder_for(url)
    slot = take_slot(folder)
    held.callback(slot.close)
    own = folder / f"slot-{slot.number}"
    capacity = Capacity()
    if not offer.placed:
        capacity = find_capacity(own, cpu=offer.cpu, memory=offer.memory, disk=offer.disk, gpu="0")
    chosen = WorkerOptions(server=url, folder=own, capacity=capacity, **options)
    return lambda: Worker(chosen, slot)


def _placed(held: ExitStack, url: str, offer: Offer, **options: Any) -> "Work":
    """Prepare to be given placed work."""
    from holdfast.worker.placed.host_resources import find_capacity
    from holdfast.worker.placed.worker import PlacedOptions, PlacedWorker
    from holdfast.worker.slots import take_slot

    folder = _folder_for(url) / "placed"
    slot = take_slot(folder)
    held.callback(slot.close)
    own = folder / f"slot-{slot.number}"
    capacity = find_capacity(
        own, cpu=offer.cpu, memory=offer.memory, disk=offer.disk, gpu=offer.gpu
    )
    attributes = read_attributes(offer.attribute)
    chosen = PlacedOptions(
        server=url,
        folder=own,
        capacity=capacity,
        attributes=attributes,
        heartbeat_timeout_seconds=offer.heartbeat_timeout_seconds,
        # Also with --gpu 0: then they are for others.
        has_devices=capacity.gpu > 0 or offer.gpu is not None,
        **options,
    )
    return lambda: PlacedWorker(chosen, slot)


def read_attributes(texts: Iterable[str]) -> "dict[str, AttributeValue]":
    """Read attributes, name=value; numbers, true and false are what they seem."""
    from holdfast.rules.placement.constraints import parse_value

    attributes: dict[str, AttributeValue] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise Invalid("attribute", f"{text!r} is not an attribute; write name=value")
        attributes[name] = parse_value(value)
    return attributes


def check_numbers(concurrency: int, drain_seconds: float) -> None:
    """Refuse numbers that no worker can live with, before anything is started."""
    if not 1 <= concurrency <= CONCURRENCY_MAX:
        raise Invalid("concurrency", f"is {concurrency}; use 1 to {CONCURRENCY_MAX}")
    if not 0 <= drain_seconds <= DRAIN_SECONDS_MAX:
        raise Invalid("drain_seconds", f"is {drain_seconds:g}; use 0 to {DRAIN_SECONDS_MAX:g}")


def import_modules(names: Iterable[str]) -> None:
    """Import modules with tasks; they are found in the current folder, as by `python -m`."""
    sys.path.insert(0, str(Path.cwd()))
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise Invalid("import", f"{name!r} cannot be imported: {error}") from error


def mark_children() -> str:
    """Put an entry into the environment that programs inherit which functions start here."""
    os.environ[MARK] = uuid4().hex
    return f"{MARK}={os.environ[MARK]}"


async def _work(workers: "list[Work]") -> int:
    from holdfast.worker.claimed.claims import Replaced

    loop = asyncio.get_running_loop()
    running = [begin() for begin in workers]

    def drain() -> None:
        for worker in running:
            worker.drain()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, drain)
    working = [asyncio.create_task(worker.run()) for worker in running]
    await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
    drain()  # one that has ended takes the other along
    await asyncio.wait(working)
    try:
        await asyncio.gather(*working)
    except Replaced as error:
        remark(f"holdfast: {error}")
        return EXIT_REPLACED
    return 0


def _folder_for(url: str) -> Path:
    """Choose where the workers of this user and server keep their locks."""
    chosen = os.environ.get("HOLDFAST_WORKER_DIR") or os.environ.get("XDG_RUNTIME_DIR")
    root = Path(chosen) if chosen else _own_folder(Path(tempfile.gettempdir()))
    return root / f"workers-{sha256(url.encode()).hexdigest()[:12]}"


def _own_folder(shared: Path) -> Path:
    """Make a folder of this user's in one that all can write to; somebody else's is refused."""
    folder = shared / f"holdfast-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise Unavailable(f"{folder} belongs to somebody else; set HOLDFAST_WORKER_DIR")
    return folder
