"""`holdfast worker`: claims tasks from queues and runs them."""

import asyncio
import importlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from uuid import uuid4

from cyclopts import Parameter

from holdfast.cli.log_lines import set_up_logging
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
from holdfast.cli.show import remark
from holdfast.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from holdfast.worker.slots import Slot
    from holdfast.worker.worker import WorkerOptions

EXIT_REPLACED = 1
QUEUE = "default"
MARK = "HOLDFAST_WORKER"
CONCURRENCY_MAX = 10_000
DRAIN_SECONDS_MAX = 86_400.0


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
    name: Annotated[str | None, Parameter(help="Default: the host's name.")] = None,
    drain_seconds: DrainSeconds = 30.0,
    wake_ups: WakeUps = "notify",
    sqs_prefix: SqsPrefix = "holdfast-",
    sqs_endpoint_url: SqsEndpointUrl = None,
    log_format: LogFormat = "auto",
) -> int:
    """Claim tasks from queues and run them, until told to drain.

    Exit code 1: another worker has taken this one's place.
    """
    import uvloop

    from holdfast.client.transport import find_server
    from holdfast.worker.slots import take_slot
    from holdfast.worker.sqs import SqsInbox
    from holdfast.worker.worker import WorkerOptions

    check_numbers(concurrency, drain_seconds)
    url = find_server(server)
    set_up_logging(log_format)
    import_modules(import_)
    queues = queue or (QUEUE,)
    inbox = partial(SqsInbox, queues, prefix=sqs_prefix, endpoint_url=sqs_endpoint_url)
    folder = _folder_for(url)
    slot = take_slot(folder)
    options = WorkerOptions(
        server=url,
        queues=queues,
        folder=folder / f"slot-{slot.number}",
        concurrency=concurrency,
        imports=import_,
        isolation=isolation,
        drain_seconds=drain_seconds,
        mark=mark_children(),
        open_inbox=inbox if wake_ups == "sqs" else None,
        **({} if name is None else {"name": name}),
    )
    with closing(slot):
        return uvloop.run(_work(options, slot))


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


async def _work(options: "WorkerOptions", slot: "Slot") -> int:
    from holdfast.worker.claims import Replaced
    from holdfast.worker.worker import Worker

    worker = Worker(options, slot)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, worker.drain)
    try:
        await worker.run()
    except Replaced as error:
        remark(f"holdfast: {error}")
        return EXIT_REPLACED
    return 0


def _folder_for(url: str) -> Path:
    """Choose where the workers of this user and server keep their locks."""
    place = os.environ.get("HOLDFAST_WORKER_DIR") or os.environ.get("XDG_RUNTIME_DIR")
    root = Path(place) if place else _own_folder(Path(tempfile.gettempdir()))
    return root / f"workers-{sha256(url.encode()).hexdigest()[:12]}"


def _own_folder(shared: Path) -> Path:
    """Make a folder of this user's in one that all can write to; somebody else's is refused."""
    folder = shared / f"holdfast-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise Unavailable(f"{folder} belongs to somebody else; set HOLDFAST_WORKER_DIR")
    return folder
