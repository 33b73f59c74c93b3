"""Register a worker's incarnation, and take over from the one it replaces."""

import hmac
import math
import re
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from holdfast.errors import IllegalMove, Invalid, NotAllowed, NotFound, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.access.tokens import hash_secret
from holdfast.model.work.fence import Fence, check_fence
from holdfast.model.work.ids import check_worker_id
from holdfast.model.workers.resources import GPU_MAX, AttributeValue, Capacity
from holdfast.model.workers.worker_credentials import check_secret
from holdfast.operations.ending.lost_workers import end_gone_worker
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.placed.leases import adopt_leases, find_leases_of_worker
from holdfast.store.tables.workers.workers import (
    KnownWorker,
    NewWorker,
    drain_worker,
    find_worker,
    mark_lost,
    mark_replaced,
    register_worker,
)

ATTRIBUTES_MAX = 100
ADOPTS_MAX = 10_000
CRASH_LENGTH_MAX = 1000
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")
_ADDRESS = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Placing:
    """What a worker that is to be called says of itself; by a `book`, claims take from it, too."""

    address: str
    capacity: Capacity
    attributes: dict[str, AttributeValue]
    book: str | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """A worker process says who it is; `replaces` names an incarnation it knows to be gone.

    `adopts` are attempts of that one whose processes live on under this one; `crash` is how the
    process of that one ended, if not by its own will. `claims_up_to` is what it has to give to
    tasks of its queues; without it, it takes whatever comes. `book` is the one that its process
    shares with a worker of placed work.

    `version` is that of its program and `clock` the time on its host, if it has said so.

    By its `secret` it is known from here on, and `replaces_secret` was that of the one it replaces.
    Where tokens are asked for (`must_prove`), there is none without; `token_id` is the one shown.
    """

    worker_id: str
    name: str
    host: str
    queues: tuple[str, ...] = ()
    replaces: str | None = None
    placing: Placing | None = None
    adopts: tuple[Fence, ...] = ()
    crash: str | None = None
    claims_up_to: Capacity | None = None
    book: str | None = None
    secret: str | None = field(default=None, repr=False)
    replaces_secret: str | None = field(default=None, repr=False)
    token_id: str | None = None
    must_prove: bool = False
    version: str | None = None
    clock: datetime | None = None


@dataclass(frozen=True, slots=True)
class Registered:
    """How many attempts of the replaced one ended, and which of those presented live on."""

    taken_over: int = 0
    adopted: tuple[Fence, ...] = ()


async def register(ledger: Ledger, registration: Registration) -> Registered:
    """Register an incarnation, and take over from the one it replaces.

    Repeating it is harmless; a crash on the way leaves the rest to the repeat or to the reaper.
    """
    _check(registration)
    adopted = await ledger.write(_register, registration)
    if registration.replaces is None:
        return Registered()
    taken_over = await end_gone_worker(ledger, registration.replaces, registration.crash)
    return Registered(taken_over, adopted)


async def _register(_: Ledger, tx: Transaction, registration: Registration) -> tuple[Fence, ...]:
    known = await find_worker(tx, registration.worker_id)
    if known is not None:
        if known.lost_at is not None:
            raise IllegalMove(f"worker {registration.worker_id}", "replaced", "register")
        if not _is_same(registration, known):
            raise Invalid("worker_id", "belongs to another worker; use a new one per start")
    if registration.replaces is not None:
        await _replace(tx, registration, registration.replaces)
    await register_worker(tx, _new_worker(registration))
    # In the same transaction: a call in between would not name them, and so end them.
    return await _adopt(tx, registration)


def _new_worker(registration: Registration) -> NewWorker:
    worker = NewWorker(
        registration.worker_id,
        registration.name,
        registration.host,
        registration.queues,
        book=registration.book,
        secret_hash=None if registration.secret is None else hash_secret(registration.secret),
        token_id=registration.token_id,
        version=registration.version,
        clock=registration.clock,
    )
    placing, claims_up_to = registration.placing, registration.claims_up_to
    if claims_up_to is not None:
        worker = worker._replace(claims_up_to=msgspec.json.encode(claims_up_to).decode())
    if placing is None:
        return worker
    return worker._replace(
        address=placing.address,
        capacity=msgspec.json.encode(placing.capacity).decode(),
        attributes=msgspec.json.encode(placing.attributes).decode(),
        book=placing.book,
    )


def _is_same(registration: Registration, known: KnownWorker) -> bool:
    """Tell whether a worker that is known repeats itself; with a secret, it proves that."""
    is_same_host = (known.name, known.host) == (registration.name, registration.host)
    return is_same_host and _is_secret_of(known, registration.secret)


def _is_secret_of(known: KnownWorker, secret: str | None) -> bool:
    """Compare a secret with that of a worker, in constant time; one that has none has no proof."""
    if known.secret_hash is None:
        return secret is None
    return hmac.compare_digest(known.secret_hash, hash_secret(secret or ""))


async def _adopt(tx: Transaction, registration: Registration) -> tuple[Fence, ...]:
    """Bind the leases of presented attempts; returns those that live on."""
    if not registration.adopts:
        return ()
    fences = sorted(set(registration.adopts))
    live = await adopt_leases(
        tx, fences, worker_id=registration.worker_id, replaces=registration.replaces
    )
    # Asked again after a lost answer, the leases are bound to us already.
    live |= await find_leases_of_worker(tx, fences, worker_id=registration.worker_id)
    return tuple(fence for fence in fences if fence in live)


async def _replace(tx: Transaction, registration: Registration, worker_id: str) -> None:
    replaced = await find_worker(tx, worker_id)
    if replaced is None:
        raise NotFound("worker", worker_id)
    if replaced.host != registration.host:
        raise Invalid(
            "replaces", f"runs on host {replaced.host}; only the same host can know it is gone"
        )
    # Many know its id and host; what it ran is started elsewhere at once, so it must be gone.
    if not _may_replace(registration, replaced):
        raise NotAllowed(
            f"worker {worker_id} is replaced only by who has its secret; give it as "
            "replaces_secret, or register without replaces, and its leases run out",
            lacks=f"the secret of worker {worker_id}",
        )
    await mark_replaced(tx, worker_id, replaced_by=registration.worker_id)


def _may_replace(registration: Registration, replaced: KnownWorker) -> bool:
    if replaced.secret_hash is None:
        return not registration.must_prove
    return not replaced.void and _is_secret_of(replaced, registration.replaces_secret)


def _check(registration: Registration) -> None:
    check_worker_id(registration.worker_id)
    for name in ("name", "host"):
        text = getattr(registration, name)
        if not text:
            raise Invalid(name, "is empty; give it a value")
        check_text(name, text, 256)
    for queue in registration.queues:
        check_text("queues", queue, 256)
    if registration.replaces is not None:
        check_worker_id(registration.replaces, "replaces")
        if registration.replaces == registration.worker_id:
            raise Invalid("replaces", "names the worker itself; use a new worker_id per start")
    if registration.crash is not None:
        if registration.replaces is None:
            raise Invalid("crash", "goes with replaces; name the incarnation that has crashed")
        check_text("crash", registration.crash, CRASH_LENGTH_MAX)
    _check_secrets(registration)
    _check_adopts(registration)
    if registration.book is not None:
        check_worker_id(registration.book, "book")
    if registration.claims_up_to is not None:
        _check_amounts("resources", registration.claims_up_to)
    if registration.placing is not None:
        _check_placing(registration.placing)


def _check_secrets(registration: Registration) -> None:
    if registration.secret is not None:
        check_secret("secret", registration.secret)
    elif registration.must_prove or registration.placing is not None:
        raise Invalid("secret", "is missing; make a random one, by which this worker is known")
    if registration.replaces_secret is not None:
        if registration.replaces is None:
            raise Invalid("replaces_secret", "goes with replaces; name the incarnation it is of")
        check_secret("replaces_secret", registration.replaces_secret)


def _check_adopts(registration: Registration) -> None:
    if not registration.adopts:
        return
    if registration.replaces is None:
        raise Invalid("adopts", "goes with replaces; name the incarnation that had them")
    if registration.placing is None:
        raise Invalid("adopts", "is for placed work; give an address to be called at")
    if len(registration.adopts) > ADOPTS_MAX:
        raise TooLarge("adopts", len(registration.adopts), ADOPTS_MAX, unit="attempts")
    for fence in registration.adopts:
        check_fence(fence)


def _check_placing(placing: Placing) -> None:
    check_text("address", placing.address, 256)
    if not _ADDRESS.fullmatch(placing.address):
        raise Invalid("address", f"{placing.address!r} is no address; write http://host:port")
    if placing.book is not None:
        check_worker_id(placing.book, "book")
    _check_amounts("capacity", placing.capacity)
    _check_devices(placing.capacity)
    if len(placing.attributes) > ATTRIBUTES_MAX:
        raise TooLarge("attributes", len(placing.attributes), ATTRIBUTES_MAX, unit="attributes")
    for name, value in placing.attributes.items():
        if not name:
            raise Invalid("attributes", "has an empty name; give it one")
        check_text("attributes", name, 256)
        check_text(f"attributes.{name}", str(value), 1024)
        if isinstance(value, float) and not math.isfinite(value):
            raise Invalid(f"attributes.{name}", f"is {value}; use a number that can be compared")


def _check_amounts(field: str, capacity: Capacity) -> None:
    for name in ("cpu", "memory", "disk", "gpu"):
        if not 0 <= getattr(capacity, name) < 1 << 62:
            raise Invalid(f"{field}.{name}", "is out of range; use 0 or more")


def _check_devices(capacity: Capacity) -> None:
    devices = capacity.devices
    if capacity.gpu > GPU_MAX:
        raise Invalid("capacity.gpu", f"is out of range; use 0 to {GPU_MAX}")
    if devices and len(devices) != capacity.gpu:
        raise Invalid("capacity.devices", "are not as many as gpu; name each, or leave them out")
    if len(set(devices)) < len(devices):
        raise Invalid("capacity.devices", "names a device twice")
    for device in devices:
        if not _DEVICE.fullmatch(device):
            raise Invalid(
                "capacity.devices", f"{device!r} is not an id, such as 0 or GPU-8932f937-d72c"
            )


async def leave(ledger: Ledger, worker_id: str, secret: str) -> int:
    """Take a called worker's word that it is gone; returns how many attempts that has ended."""
    check_worker_id(worker_id)
    async with ledger.database.transaction() as tx:
        known = await find_worker(tx, worker_id)
        if known is None or not known.called:
            raise NotFound("worker", worker_id)
        if known.void or not _is_secret_of(known, secret):
            raise Invalid("secret", "is not that of this worker")
        await mark_lost(tx, [(worker_id, "left")])
    return await end_gone_worker(ledger, worker_id)


async def drain(ledger: Ledger, worker_id: str, *, actor: str, is_own: bool = False) -> bool:
    """Ask a worker to take nothing more and leave; False if there is no such live worker.

    Whoever asks is recorded, unless it is the worker's own wish.
    """
    check_worker_id(worker_id)
    check_text("actor", actor, 256)
    async with ledger.database.transaction() as tx:
        if not await drain_worker(tx, worker_id, actor=actor):
            return False
        if not is_own:
            await record_actions(tx, [NewAction(actor, "drain_worker", "worker", worker_id)])
        return True
