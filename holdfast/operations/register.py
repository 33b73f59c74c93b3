"""Register a worker's incarnation, and take over from the one it replaces."""

import hmac
import math
import re
from dataclasses import dataclass

import msgspec

from holdfast.errors import IllegalMove, Invalid, NotFound, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.fence import Fence, check_fence
from holdfast.model.ids import check_worker_id
from holdfast.model.resources import GPU_MAX, AttributeValue, Capacity
from holdfast.operations.ending.lost_workers import end_gone_worker
from holdfast.rules.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.tables.placed.leases import adopt_leases, find_leases_of_worker
from holdfast.store.tables.workers import (
    KnownWorker,
    NewWorker,
    drain_worker,
    find_secret,
    find_worker,
    mark_lost,
    mark_replaced,
    register_worker,
)

ATTRIBUTES_MAX = 100
ADOPTS_MAX = 10_000
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")
_ADDRESS = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Placing:
    """What a worker that is to be called says of itself."""

    address: str
    secret: str
    capacity: Capacity
    attributes: dict[str, AttributeValue]


@dataclass(frozen=True, slots=True)
class Registration:
    """A worker process says who it is; `replaces` names an incarnation it knows to be gone.

    `adopts` are attempts of that one whose processes live on under this one.
    """

    worker_id: str
    name: str
    host: str
    queues: tuple[str, ...] = ()
    replaces: str | None = None
    placing: Placing | None = None
    adopts: tuple[Fence, ...] = ()


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
    return Registered(await end_gone_worker(ledger, registration.replaces), adopted)


async def _register(_: Ledger, tx: Transaction, registration: Registration) -> tuple[Fence, ...]:
    known = await find_worker(tx, registration.worker_id)
    if known is not None:
        if known.lost_at is not None:
            raise IllegalMove(f"worker {registration.worker_id}", "replaced", "register")
        if not await _is_same(tx, registration, known):
            raise Invalid("worker_id", "belongs to another worker; use a new one per start")
    if registration.replaces is not None:
        await _replace(tx, registration, registration.replaces)
    await register_worker(tx, _new_worker(registration))
    # In the same transaction: a call in between would not name them, and so end them.
    return await _adopt(tx, registration)


def _new_worker(registration: Registration) -> NewWorker:
    worker = NewWorker(
        registration.worker_id, registration.name, registration.host, registration.queues
    )
    placing = registration.placing
    if placing is None:
        return worker
    return worker._replace(
        address=placing.address,
        secret=placing.secret,
        capacity=msgspec.json.encode(placing.capacity).decode(),
        attributes=msgspec.json.encode(placing.attributes).decode(),
    )


async def _is_same(tx: Transaction, registration: Registration, known: KnownWorker) -> bool:
    """Tell whether a worker that is known repeats itself; a called one proves it by its secret."""
    secret = await find_secret(tx, registration.worker_id) or ""
    given = "" if registration.placing is None else registration.placing.secret
    is_same_host = (known.name, known.host) == (registration.name, registration.host)
    return is_same_host and hmac.compare_digest(secret.encode(), given.encode())


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
    await mark_replaced(tx, worker_id, replaced_by=registration.worker_id)


def _check(registration: Registration) -> None:
    check_worker_id(registration.worker_id)
    for field in ("name", "host"):
        text = getattr(registration, field)
        if not text:
            raise Invalid(field, "is empty; give it a value")
        check_text(field, text, 256)
    for queue in registration.queues:
        check_text("queues", queue, 256)
    if registration.replaces is not None:
        check_worker_id(registration.replaces, "replaces")
        if registration.replaces == registration.worker_id:
            raise Invalid("replaces", "names the worker itself; use a new worker_id per start")
    _check_adopts(registration)
    if registration.placing is not None:
        _check_placing(registration.placing)


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
    if not 16 <= len(placing.secret) <= 256:
        raise Invalid("secret", "is not from 16 to 256 characters long; make a random one")
    check_text("secret", placing.secret, 256)
    capacity = placing.capacity
    for field in ("cpu", "memory", "disk", "gpu"):
        if not 0 <= getattr(capacity, field) < 1 << 62:
            raise Invalid(f"capacity.{field}", "is out of range; use 0 or more")
    _check_devices(capacity)
    if len(placing.attributes) > ATTRIBUTES_MAX:
        raise TooLarge("attributes", len(placing.attributes), ATTRIBUTES_MAX, unit="attributes")
    for name, value in placing.attributes.items():
        if not name:
            raise Invalid("attributes", "has an empty name; give it one")
        check_text("attributes", name, 256)
        check_text(f"attributes.{name}", str(value), 1024)
        if isinstance(value, float) and not math.isfinite(value):
            raise Invalid(f"attributes.{name}", f"is {value}; use a number that can be compared")


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
        known = await find_secret(tx, worker_id)
        if known is None:
            raise NotFound("worker", worker_id)
        if not hmac.compare_digest(known.encode(), secret.encode()):
            raise Invalid("secret", "is not that of this worker")
        await mark_lost(tx, [(worker_id, "left")])
    return await end_gone_worker(ledger, worker_id)


async def drain(ledger: Ledger, worker_id: str, *, actor: str) -> bool:
    """Ask a worker to take nothing more and leave; False if there is no such live worker."""
    check_worker_id(worker_id)
    check_text("actor", actor, 256)
    async with ledger.database.transaction() as tx:
        return await drain_worker(tx, worker_id, actor=actor)
