"""`holdfast worker`: claims tasks from queues, or is given placed ones, and runs them."""

import asyncio
import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import uuid4

from cyclopts import Group, Parameter

from holdfast.cli.garbage import WORKER_ALLOCATIONS, collect_garbage_rarely
from holdfast.cli.imports import import_modules
from holdfast.cli.listening import NOWHERE, ListenFlags
from holdfast.cli.output.log_lines import set_up_logging
from holdfast.cli.output.write import remark
from holdfast.cli.settings import (
    HEARTBEAT_TIMEOUT,
    AttemptUidRange,
    CodecPath,
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
from holdfast.cli.supervisor import Crash, is_accident, supervise
from holdfast.cli.tls import NO_TLS, TlsFlags
from holdfast.errors import Invalid, Unavailable
from holdfast.tracing.switch import traced

if TYPE_CHECKING:
    from holdfast.model.workers.resources import AttributeValue
    from holdfast.worker.allowing import Allowed
    from holdfast.worker.claimed.book import SharedBook
    from holdfast.worker.claimed.worker import Worker
    from holdfast.worker.placed.worker import PlacedWorker
    from holdfast.worker.running.attempt_uids import AttemptUids
    from holdfast.worker.running_code import RunningCode

    BeginClaimed = Callable[[SharedBook | None], Worker]
    BeginPlaced = Callable[[], PlacedWorker]

EXIT_REPLACED = 1
QUEUE = "default"
MARK = "HOLDFAST_WORKER"
CONCURRENCY_MAX = 10_000
DRAIN_SECONDS_MAX = 86_400.0
HEARTBEAT_TIMEOUT_SECONDS = 60.0
HEARTBEAT_TIMEOUT_SECONDS_MIN, HEARTBEAT_TIMEOUT_SECONDS_MAX = 1.0, 86_400.0
ALLOW_ANYTHING = ("--allow=*", "--allow-commands")
# A module, and names in it; each with wildcards.
_PATTERN = re.compile(r"[\w.*?\[\]!-]+(:[\w.*?\[\]!-]+)?")
Isolation = Annotated[
    Literal["auto", "process"],
    Parameter(help="process: every function in a process of its own."),
]


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
    heartbeat_timeout_seconds: Annotated[float, HEARTBEAT_TIMEOUT] = HEARTBEAT_TIMEOUT_SECONDS

    def check(self) -> None:
        """Refuse what would be said to nobody."""
        for name in ("gpu", "attribute"):
            if getattr(self, name) not in (None, ()) and not self.placed:
                raise Invalid(name, "goes with --placed; queue work has cpu, memory and disk")
        check_heartbeat_timeout(self.heartbeat_timeout_seconds)


NO_OFFER = Offer()


@Parameter(name="*", group=Group("Allow", help="What it runs beside what --import decorates."))
@dataclass(frozen=True, kw_only=True)
class AllowFlags:
    """What a worker may run."""

    allow: Annotated[
        tuple[str, ...],
        Parameter(
            env_var="HOLDFAST_ALLOW",
            negative="",
            help="A function, package.module:name, or a pattern such as 'shop.*'; '*' is any "
            "function, and pickles. Repeat it.",
        ),
    ] = ()
    allow_commands: Annotated[
        bool,
        Parameter(
            env_var="HOLDFAST_ALLOW_COMMANDS",
            negative="",
            help="Commands, and bundles with code of their own.",
        ),
    ] = False

    def check(self, imports: Iterable[str]) -> None:
        """Refuse patterns that no path could match, and a worker that could run nothing."""
        for pattern in self.allow:
            if not _PATTERN.fullmatch(pattern):
                remedy = "write package.module:name, or a pattern such as 'shop.*', or '*'"
                raise Invalid("allow", f"{pattern!r} is no function; {remedy}")
        if not (self.allow or self.allow_commands or any(imports)):
            raise _runs_nothing("it was given nothing to run")

    def list(self) -> "Allowed":
        """List what is allowed, once the modules are imported."""
        from holdfast.client.task import decorated
        from holdfast.worker.allowing import Allowed

        if not (self.allow or self.allow_commands or decorated):
            raise _runs_nothing("nothing in what it imports is decorated with @hf.task")
        return Allowed(frozenset(decorated), self.allow, commands=self.allow_commands)


def _runs_nothing(why: str) -> Invalid:
    """Make the error of a worker that could only refuse: every task of its queues would fail."""
    anything = "--allow '*' and --allow-commands allow anything"
    remedy = "name modules with tasks by --import MODULE, or functions by --allow MODULE:NAME"
    return Invalid("allow", f"{why}; {remedy}; {anything}")


NOT_MORE = AllowFlags()


def run_worker(
    *,
    server: Server = None,
    queue: Queues = (),
    concurrency: Concurrency = 10,
    import_: Imports = (),
    codec: CodecPath = None,
    isolation: Isolation = "auto",
    attempt_uids: AttemptUidRange = None,
    offer: Offer = NO_OFFER,
    allow: AllowFlags = NOT_MORE,
    listening: ListenFlags = NOWHERE,
    tls: TlsFlags = NO_TLS,
    name: Annotated[str | None, Parameter(help="Default: the host's name.")] = None,
    drain_seconds: DrainSeconds = 30.0,
    wake_ups: WakeUps = "notify",
    sqs_prefix: SqsPrefix = "holdfast-",
    sqs_endpoint_url: SqsEndpointUrl = None,
    log_format: LogFormat = "auto",
) -> int:
    """Claim tasks from queues, or be given placed ones, and run them, until asked to drain.

    It is started again when user code has crashed it. Exit code 1: another has taken its place.
    """
    import uvloop

    from holdfast.client.transport import find_server
    from holdfast.worker.claimed.sqs import SqsInbox

    check_numbers(concurrency, drain_seconds)
    check_queues(queue)
    offer.check()
    url = find_server(server)
    allow.check(import_)
    called = listening.read(tls, is_placed=offer.placed)
    tls.export()
    set_up_logging(log_format)
    shared: dict[str, Any] = {"imports": import_, "uids": _read_uids(attempt_uids), "codec": codec}
    shared |= {"drain_seconds": drain_seconds} | ({} if name is None else {"name": name})
    queues = queue or (() if offer.placed else (QUEUE,))
    inbox = partial(SqsInbox, queues, prefix=sqs_prefix, endpoint_url=sqs_endpoint_url)

    def work(code: "RunningCode", crash: Crash | None) -> int:
        import_modules(import_, codec)
        shared["allowed"] = _list_allowed(allow, shared["uids"])
        claimed: BeginClaimed | None = None
        placed: BeginPlaced | None = None
        book = uuid4().hex
        with traced("holdfast-worker"), ExitStack() as held:
            if queues:
                claims: dict[str, Any] = {"queues": queues, "concurrency": concurrency}
                claims |= {"isolation": isolation, "mark": mark_children(), "code": code}
                claims["open_inbox"] = inbox if wake_ups == "sqs" else None
                claimed = _claimed(held, url, crash, offer=offer, **claims, **shared)
            if offer.placed:
                given: dict[str, Any] = {"book": book if claimed else None, "code": code, **called}
                placed = _placed(held, url, crash, offer=offer, **given, **shared)
            return uvloop.run(_work(url, claimed, placed, book=book))

    return supervise(work)


def _read_uids(text: str | None) -> "AttemptUids | None":
    from holdfast.worker.running.attempt_uids import AttemptUids

    return None if text is None else AttemptUids.read(text)


def _list_allowed(flags: AllowFlags, uids: "AttemptUids | None") -> "Allowed":
    """List what it may run; functions only where those can run that are users of their own."""
    allowed = flags.list()
    if uids is not None and (allowed.functions or allowed.patterns):
        uids.check_python()
    return allowed


def _claimed(
    held: ExitStack, url: str, crash: Crash | None, *, offer: Offer, **options: Any
) -> "BeginClaimed":
    """Prepare to claim from queues; beside placed work, by the book that both share."""
    from holdfast.worker.claimed.options import WorkerOptions
    from holdfast.worker.claimed.worker import Worker
    from holdfast.worker.placed.host_resources import find_capacity
    from holdfast.worker.running.attempt_uids import open_way
    from holdfast.worker.slots import take_slot

    folder = _folder_for(url)
    slot = take_slot(folder, left_by=None if crash is None else crash.worker_id)
    held.callback(slot.close)
    own = folder / f"slot-{slot.number}"
    if options["uids"] is not None:
        open_way(own / "attempts", _top_of(folder))
    capacity = find_capacity(own, cpu=offer.cpu, memory=offer.memory, disk=offer.disk, gpu="0")
    left_by = None if slot.previous is None else slot.previous.worker_id
    cause = crash.cause if crash is not None and left_by == crash.worker_id else None
    chosen = WorkerOptions(server=url, folder=own, capacity=capacity, crash=cause, **options)
    return lambda book: Worker(replace(chosen, book=book), slot)


def _placed(
    held: ExitStack, url: str, crash: Crash | None, *, offer: Offer, **options: Any
) -> "BeginPlaced":
    """Prepare to be given placed work."""
    from holdfast.worker.placed.host_resources import find_capacity
    from holdfast.worker.placed.worker import PlacedOptions, PlacedWorker
    from holdfast.worker.running.attempt_uids import open_way
    from holdfast.worker.slots import take_slot

    folder = _folder_for(url) / "placed"
    slot = take_slot(folder, left_by=None if crash is None else crash.placed_id)
    held.callback(slot.close)
    own = folder / f"slot-{slot.number}"
    if options["uids"] is not None:
        open_way(own, _top_of(folder.parent))
        open_way(folder / "cache" / "environments", _top_of(folder.parent))
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


def check_heartbeat_timeout(seconds: float) -> None:
    """Refuse a time-out that no worker of placed work can live with."""
    if not HEARTBEAT_TIMEOUT_SECONDS_MIN <= seconds <= HEARTBEAT_TIMEOUT_SECONDS_MAX:
        allowed = f"{HEARTBEAT_TIMEOUT_SECONDS_MIN:g} to {HEARTBEAT_TIMEOUT_SECONDS_MAX:g}"
        raise Invalid("heartbeat_timeout_seconds", f"is {seconds:g}; use {allowed}")


def check_queues(queues: Iterable[str]) -> None:
    """Refuse what no queue can be called: nothing could ever be submitted to it."""
    from holdfast.rules.submitting.submission import check_queue

    for queue in queues:
        check_queue(queue)


def mark_children() -> str:
    """Put an entry into the environment that programs inherit which functions start here."""
    os.environ[MARK] = uuid4().hex
    return f"{MARK}={os.environ[MARK]}"


async def _work(
    url: str, claimed: "BeginClaimed | None", placed: "BeginPlaced | None", *, book: str
) -> int:
    from holdfast.worker.claimed.book import SharedBook
    from holdfast.worker.claimed.claims import Replaced

    collect_garbage_rarely(WORKER_ALLOCATIONS)
    loop = asyncio.get_running_loop()
    running: list[Worker | PlacedWorker] = []
    shared = None
    if placed is not None:
        called = placed()
        running.append(called)
        has_devices = called.options.has_devices
        shared = SharedBook(book, lambda: called.attempts_count, has_devices=has_devices)
    if claimed is not None:
        running.append(claimed(shared))

    def drain(*, again: bool) -> None:
        for worker in running:
            if again or not worker.is_draining:
                worker.drain()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, partial(drain, again=False))
    loop.add_signal_handler(signal.SIGINT, partial(drain, again=True))
    announcing = asyncio.create_task(_announce(url, running[0]))
    working = [asyncio.create_task(worker.run()) for worker in running]
    await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
    announcing.cancel()
    ended = [task for task in working if task.done()]
    if any((error := task.exception()) and is_accident(error) for task in ended):
        # We are started again at once: to drain would stop placed work, which can outlive us.
        for task in working:
            task.cancel()
    drain(again=False)  # one that has ended takes the other along
    await asyncio.wait(working)
    try:
        for task in (*ended, *working):
            task.result()
    except Replaced as error:
        remark(f"holdfast: {error}")
        return EXIT_REPLACED
    return 0


async def _announce(url: str, worker: "Worker | PlacedWorker") -> None:
    """Announce the functions of this process, once the server knows who says so."""
    from holdfast.client.task import decorated
    from holdfast.worker.announcing import announce_all

    await worker.registered.wait()
    await announce_all(url, worker.credential, decorated.values())


def _folder_for(url: str) -> Path:
    """Choose where the workers of this user and server keep their locks."""
    chosen = os.environ.get("HOLDFAST_WORKER_DIR") or os.environ.get("XDG_RUNTIME_DIR")
    root = Path(chosen) if chosen else _own_folder(Path(tempfile.gettempdir()))
    return root / f"workers-{sha256(url.encode()).hexdigest()[:12]}"


def _top_of(folder: Path) -> Path:
    """Find the uppermost folder on the way to one of these that is the workers' alone."""
    is_chosen = os.environ.get("HOLDFAST_WORKER_DIR") or os.environ.get("XDG_RUNTIME_DIR")
    return folder if is_chosen else folder.parent


def _own_folder(shared: Path) -> Path:
    """Make a folder of this user's in one that all can write to; somebody else's is refused."""
    folder = shared / f"holdfast-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise Unavailable(f"{folder} belongs to somebody else; set HOLDFAST_WORKER_DIR")
    return folder
