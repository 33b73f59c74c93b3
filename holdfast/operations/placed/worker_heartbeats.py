"""Heartbeats of called workers: what to tell them, what their answers mean, and when one is dead.

A leader reads and writes all of this in transactions that hold its term. What an attempt's end
means is not decided here: reports and completions go the same way as those of claimed work.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.ledger.ledger import Ledger
from holdfast.model.ids import TaskId
from holdfast.model.states import TaskState
from holdfast.operations.ending.endings import id_columns
from holdfast.operations.placed.heartbeat_notes import note_beats
from holdfast.operations.placed.leadership import Term, hold_term
from holdfast.operations.report import Fence, fence_columns
from holdfast.rules.health import Health, judge
from holdfast.store.database import Transaction
from holdfast.store.specs import StoredSpec
from holdfast.store.statements import load_statements

_CLUSTER = load_statements("cluster")
FAILURE_LENGTH_MAX = 1000
# An attempt, what it has used, and what its build took.
Usage = tuple[Fence, dict[str, Any] | None, dict[str, Any] | None]


class Wanted(NamedTuple):
    """One attempt that a worker should know of; what it needs to start, until it has named it."""

    fence: Fence
    state: TaskState
    ending: bool
    acknowledged: bool
    lease_remaining: timedelta | None
    cancel_remaining: timedelta | None
    ports: dict[str, int]
    input: str | None
    job: StoredSpec
    peers: list[str]


class Prepared(NamedTuple):
    """What one call to one worker has to say."""

    worker_id: str
    address: str
    secret: str
    answered: tuple[int, int] | None
    is_draining: bool
    wanted: list[Wanted]


class Heard(NamedTuple):
    """An answer that has been acted on: these attempts are on the worker."""

    worker_id: str
    number: int
    running: tuple[Fence, ...]


class Failure(NamedTuple):
    """A heartbeat that failed, and why."""

    worker_id: str
    reason: str


class Judgement(NamedTuple):
    """How a worker stands after a failure, and why."""

    health: Health
    cause: str


ALREADY_LOST = Judgement("dead", "it was lost before")


async def list_called(ledger: Ledger) -> list[str]:
    """List the workers that are to be called."""
    return [row[0] for row in await ledger.database.fetch(_CLUSTER["list_called_workers"])]


async def list_stops(ledger: Ledger) -> set[tuple[str, TaskId, int, bool]]:
    """List what called workers should stop: the worker, the attempt, and whether it has ended."""
    rows = await ledger.database.fetch(_CLUSTER["list_placed_stops"])
    return {(row[0], TaskId(row[1], row[2]), row[3], row[4]) for row in rows}


async def list_unfinished_losses(ledger: Ledger) -> list[tuple[str, str]]:
    """List workers that are lost and whose attempts nobody has ended yet, with the cause."""
    rows = await ledger.database.fetch(_CLUSTER["list_unfinished_losses"])
    return [(row[0], row[1]) for row in rows]


async def prepare(ledger: Ledger, term: Term, worker_ids: Sequence[str]) -> list[Prepared]:
    """Read what to tell workers; those that were lost meanwhile are left out. Raises Deposed."""
    async with ledger.database.transaction() as tx:
        await hold_term(tx, term)
        workers = await tx.fetch(_CLUSTER["read_called_workers"], worker_ids=list(worker_ids))
        rows = await tx.fetch(_CLUSTER["read_wanted"], worker_ids=[row[0] for row in workers])
        specs = await ledger.specs.load(tx, {row["job_id"] for row in rows})
        peers = await _find_peers(tx, rows, specs)
    wanted: dict[str, list[Wanted]] = defaultdict(list)
    answered_at = {row["worker_id"]: row["answered_at"] for row in workers}
    for row in sorted(rows, key=lambda row: (row["job_id"], row["task_index"])):
        stored_at = answered_at[row["worker_id"]]
        job_peers = peers.get(row["job_id"], [])
        wanted[row["worker_id"]].append(
            _wanted(row, stored_at, specs[row["job_id"]], peers=job_peers)
        )
    return [
        Prepared(
            row["worker_id"],
            row["address"],
            row["secret"],
            None if row["answered_at"] is None else (row["answered_epoch"], row["answered_number"]),
            row["draining"],
            wanted[row["worker_id"]],
        )
        for row in workers
    ]


async def store_answers(ledger: Ledger, term: Term, heard: Sequence[Heard]) -> list[bool]:
    """Renew what workers have named and note their answers; False for one that is lost."""
    return await ledger.write(_store_answers, term, heard=heard)


async def _store_answers(
    ledger: Ledger, tx: Transaction, term: Term, *, heard: Sequence[Heard]
) -> list[bool]:
    await hold_term(tx, term)
    rows = await tx.fetch(
        _CLUSTER["hold_workers"], worker_ids=sorted({item.worker_id for item in heard})
    )
    live = {row[0] for row in rows}
    known = [item for item in heard if item.worker_id in live]
    named = sorted((fence, item.worker_id) for item in known for fence in item.running)
    if named:
        rows = await tx.fetch(
            _CLUSTER["renew_placed"],
            **fence_columns([fence for fence, _ in named]),
            worker_ids=[worker_id for _, worker_id in named],
        )
        await note_beats(ledger, tx, [(TaskId(row[0], row[1]), row[2], row[3]) for row in rows])
    if known:
        # After the renewals: a lease is counted from the moment that is noted here.
        await tx.fetch(
            _CLUSTER["record_answers"],
            epoch=term.epoch,
            worker_ids=[item.worker_id for item in known],
            numbers=[item.number for item in known],
        )
    return [item.worker_id in live for item in heard]


async def count_failures(
    ledger: Ledger, term: Term, failures: Sequence[Failure]
) -> list[Judgement]:
    """Count failed heartbeats and judge each worker; a dead one is lost from here on.

    What it ran is still to be ended: see `lose_worker`. Raises Deposed.
    """
    judged = await ledger.write(_count_failures, term, failures=failures)
    return [judged.get(failure.worker_id, ALREADY_LOST) for failure in failures]


async def _count_failures(
    _: Ledger, tx: Transaction, term: Term, *, failures: Sequence[Failure]
) -> dict[str, Judgement]:
    await hold_term(tx, term)
    ordered = sorted(failures)
    rows = await tx.fetch(
        _CLUSTER["count_failures"],
        worker_ids=[failure.worker_id for failure in ordered],
        failures=[failure.reason[:FAILURE_LENGTH_MAX] for failure in ordered],
    )
    judged = {
        worker_id: Judgement(
            judge(count), f"{count} heartbeats in a row failed, the last: {reason}"
        )
        for worker_id, count, reason in rows
    }
    dead = sorted(worker_id for worker_id, found in judged.items() if found.health == "dead")
    if dead:
        await tx.fetch(
            _CLUSTER["mark_lost"],
            worker_ids=dead,
            causes=[judged[worker_id].cause for worker_id in dead],
        )
    return judged


async def keep_usage(ledger: Ledger, told: Sequence[Usage]) -> None:
    """Note what attempts have used, and what their builds took."""
    kept = {item[0][:2]: item for item in told if item[1] or item[2]}
    told = [item for _, item in sorted(kept.items())]
    if not told:
        return
    async with ledger.database.transaction() as tx:
        await tx.fetch(
            _CLUSTER["keep_usage"],
            **id_columns([fence.task_id for fence, _, _ in told]),
            attempts=[fence.attempt for fence, _, _ in told],
            ports=[None] * len(told),
            usages=[_json(usage) for _, usage, _ in told],
            builds=[_json(build) for _, _, build in told],
        )


async def _find_peers(
    tx: Transaction, rows: Sequence[Any], specs: dict[int, StoredSpec]
) -> dict[int, list[str]]:
    """Say where the members of gangs are, for those that are still to be started."""
    job_ids = {
        row["job_id"]
        for row in rows
        if not row["acknowledged"] and not row["ending"] and specs[row["job_id"]].policy.is_gang
    }
    peers = {job_id: [""] * specs[job_id].num_tasks for job_id in job_ids}
    if job_ids:
        for row in await tx.fetch(_CLUSTER["read_gangs"], job_ids=sorted(job_ids)):
            ports: dict[str, int] = json.loads(row["ports"] or "{}")
            peers[row["job_id"]][row["task_index"]] = _peer(
                row["address"], specs[row["job_id"]], ports
            )
    return peers


def _peer(address: str, stored: StoredSpec, ports: dict[str, int]) -> str:
    """Write where a member is: its worker's host, and its first port where it has any."""
    host = address.partition("://")[2].rpartition(":")[0]
    resources = stored.spec.resources
    if resources is None or not resources.ports:
        return host
    return f"{host}:{ports[resources.ports[0]]}"


def _wanted(row: Any, stored_at: datetime | None, job: StoredSpec, *, peers: list[str]) -> Wanted:
    cancel_by = row["cancel_deadline_at"]
    return Wanted(
        Fence(TaskId(row["job_id"], row["task_index"]), row["attempt"], row["lease_token"]),
        TaskState(row["state"]),
        row["ending"],
        row["acknowledged"],
        None if stored_at is None else row["expires_at"] - stored_at,
        None if cancel_by is None else max(cancel_by - row["now"], timedelta()),
        json.loads(row["ports"] or "{}"),
        row["input"],
        job,
        peers,
    )


def _json(value: dict[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value)
