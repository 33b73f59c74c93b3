"""Register a worker's incarnation, and take over from the one it replaces."""

from dataclasses import dataclass

from holdfast.errors import IllegalMove, Invalid, NotFound
from holdfast.model.ids import TaskId, check_worker_id
from holdfast.model.outcomes import WorkerFailed
from holdfast.operations.endings import (
    Ending,
    apply_endings,
    decide_ending,
    lock_leases,
    lock_tasks,
)
from holdfast.operations.ledger import Ledger
from holdfast.operations.release import release
from holdfast.operations.settle import Moves, settle
from holdfast.rules.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_WORKERS = load_statements("workers")
_LEASES = load_statements("leases")
BATCH_MAX = 500
ROUNDS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Registration:
    """A worker process says who it is; `replaces` names an incarnation it knows to be gone."""

    worker_id: str
    name: str
    host: str
    queues: tuple[str, ...] = ()
    replaces: str | None = None


async def register(ledger: Ledger, registration: Registration) -> int:
    """Register an incarnation; returns how many attempts of the replaced one ended by it.

    Repeating it is harmless; a crash on the way leaves the rest to the repeat or to the reaper.
    """
    _check(registration)
    await ledger.write(_register, registration)
    if registration.replaces is None:
        return 0
    taken_over = 0
    for _ in range(ROUNDS_MAX):
        count = await ledger.write(_end_leases_of, registration.replaces)
        taken_over += count
        if count < BATCH_MAX:
            break
    return taken_over


async def _register(_: Ledger, tx: Transaction, registration: Registration) -> None:
    known = await tx.fetch_one(_WORKERS["find_worker"], worker_id=registration.worker_id)
    if known is not None:
        if known["lost_at"] is not None:
            raise IllegalMove(f"worker {registration.worker_id}", "replaced", "register")
        if (known["name"], known["host"]) != (registration.name, registration.host):
            raise Invalid("worker_id", "belongs to another worker; use a new one per start")
    if registration.replaces is not None:
        await _replace(tx, registration)
    await tx.fetch(
        _WORKERS["register_worker"],
        worker_id=registration.worker_id,
        name=registration.name,
        host=registration.host,
        queues=list(registration.queues),
    )


async def _replace(tx: Transaction, registration: Registration) -> None:
    replaced = await tx.fetch_one(_WORKERS["find_worker"], worker_id=registration.replaces)
    if replaced is None:
        raise NotFound("worker", registration.replaces)
    if replaced["host"] != registration.host:
        raise Invalid(
            "replaces", f"runs on host {replaced['host']}; only the same host can know it is gone"
        )
    await tx.fetch(
        _WORKERS["mark_replaced"],
        worker_id=registration.replaces,
        replaced_by=registration.worker_id,
    )


async def _end_leases_of(ledger: Ledger, tx: Transaction, worker_id: str) -> int:
    rows = await tx.fetch(
        _LEASES["list_leases_of_worker"], worker_id=worker_id, batch_max=BATCH_MAX
    )
    task_ids = [TaskId(*row) for row in rows]
    if not task_ids:
        return 0
    tasks = await lock_tasks(tx, task_ids)
    leases = await lock_leases(tx, task_ids)
    specs = await ledger.specs.load(tx, {task_id.job_id for task_id in task_ids})
    moves = Moves()
    endings: list[Ending] = []
    gone: list[TaskId] = []
    for task_id, lease in leases.items():
        if lease.worker_id != worker_id:
            continue
        if lease.ending:
            gone.append(task_id)
            continue
        policy = specs[task_id.job_id].policy
        loss = WorkerFailed("worker replaced after it was gone")
        endings.append(decide_ending(tasks[task_id], lease, loss, policy=policy, actor="server"))
    await apply_endings(tx, moves, endings)
    await release(tx, gone)
    await settle(tx, moves)
    return len(task_ids)


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


async def drain(ledger: Ledger, worker_id: str, *, actor: str) -> bool:
    """Ask a worker to take nothing more and leave; False if there is no such live worker."""
    check_worker_id(worker_id)
    check_text("actor", actor, 256)
    async with ledger.database.transaction() as tx:
        row = await tx.fetch_one(_WORKERS["drain_worker"], worker_id=worker_id, actor=actor)
    return row is not None
