"""Heartbeats of called workers: what to tell them, what their answers mean, and when one is dead.

A leader reads and writes all of this in transactions that hold its term. What an attempt's end
means is not decided here: reports and completions go the same way as those of claimed work.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.notes import note_beats
from holdfast.operations.placed.leadership import Term, hold_term
from holdfast.rules.health import Health, judge
from holdfast.store.database import Transaction
from holdfast.store.specs import StoredSpec
from holdfast.store.tables.placed import leases
from holdfast.store.tables.placed.leases import WantedAttempt
from holdfast.store.tables.workers import workers

FAILURE_LENGTH_MAX = 1000


class Wanted(NamedTuple):
    """One attempt that a worker should know of; what it needs to start, until it has named it."""

    fence: Fence
    state: TaskState
    ending: bool
    acknowledged: bool
    lease_remaining: timedelta | None
    cancel_remaining: timedelta | None
    ports: dict[str, int]
    devices: list[str]
    input: str | None
    job: StoredSpec
    peers: list[str]
    # Its own position among the peers of its gang, if it is in one.
    rank: int | None = None


class Prepared(NamedTuple):
    """What one call to one worker has to say."""

    worker_id: str
    address: str
    # The hash of the worker's own, by which it knows a server.
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
    return await workers.list_called_workers(ledger.database)


async def list_stops(ledger: Ledger) -> set[tuple[str, TaskId, int, bool]]:
    """List what called workers should stop: the worker, the attempt, and whether it has ended."""
    async with ledger.database.transaction() as tx:  # planned as the index of the few asks for
        stops = await leases.list_placed_stops(tx)
    return {(s.worker_id, TaskId(s.job_id, s.task_index), s.attempt, s.ending) for s in stops}


async def list_unfinished_losses(ledger: Ledger) -> list[tuple[str, str]]:
    """List workers that are lost and whose attempts nobody has ended yet, with the cause."""
    async with ledger.database.transaction() as tx:
        return [*await leases.list_unfinished_losses(tx)]


async def prepare(ledger: Ledger, term: Term, worker_ids: Sequence[str]) -> list[Prepared]:
    """Read what to tell workers; those that were lost meanwhile are left out. Raises Deposed."""
    async with ledger.database.transaction() as tx:
        await hold_term(tx, term)
        called = await workers.read_called_workers(tx, worker_ids)
        found = await leases.read_wanted(tx, [worker.worker_id for worker in called])
        specs = await ledger.specs.load(tx, {attempt.job_id for attempt in found})
        peers = await _find_peers(tx, found, specs)
    wanted: dict[str, list[Wanted]] = defaultdict(list)
    answered_at = {worker.worker_id: worker.answered_at for worker in called}
    for attempt in sorted(found, key=lambda attempt: (attempt.job_id, attempt.task_index)):
        stored_at = answered_at[attempt.worker_id]
        job_peers = peers.get(attempt.job_id, {})
        wanted[attempt.worker_id].append(
            _wanted(attempt, stored_at, specs[attempt.job_id], peers=job_peers)
        )
    return [
        Prepared(
            worker.worker_id,
            worker.address,
            worker.call_secret,
            worker.answered,
            worker.draining,
            wanted[worker.worker_id],
        )
        for worker in called
    ]


async def store_answers(ledger: Ledger, term: Term, heard: Sequence[Heard]) -> list[bool]:
    """Renew what workers have named and note their answers; False for one that is lost."""
    return await ledger.write(_store_answers, term, heard=heard)


async def _store_answers(
    ledger: Ledger, tx: Transaction, term: Term, *, heard: Sequence[Heard]
) -> list[bool]:
    await hold_term(tx, term)
    live = await workers.hold_workers(tx, {item.worker_id for item in heard})
    known = [item for item in heard if item.worker_id in live]
    named = sorted((fence, item.worker_id) for item in known for fence in item.running)
    if named:
        renewed = await leases.renew_placed(tx, named)
        tx.news.renewed += len(renewed)
        await note_beats(
            ledger,
            tx,
            [(TaskId(job_id, index), number, until) for job_id, index, number, until in renewed],
        )
    if known:
        # After the renewals: a lease is counted from the moment that is noted here.
        answers = [(item.worker_id, item.number) for item in known]
        await workers.record_answers(tx, answers, epoch=term.epoch)
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
    failing = await workers.count_failures(
        tx, [(worker_id, reason[:FAILURE_LENGTH_MAX]) for worker_id, reason in sorted(failures)]
    )
    judged = {
        worker_id: Judgement(
            judge(count), f"{count} heartbeats in a row failed, the last: {reason}"
        )
        for worker_id, count, reason in failing
    }
    dead = sorted(worker_id for worker_id, found in judged.items() if found.health == "dead")
    if dead:
        await workers.mark_lost(tx, [(worker_id, judged[worker_id].cause) for worker_id in dead])
    return judged


async def _find_peers(
    tx: Transaction, wanted: Sequence[WantedAttempt], specs: dict[int, StoredSpec]
) -> dict[int, dict[int, str]]:
    """Say who is in the round of a gang and where, by index, if some are still to be started."""
    rounds = {
        attempt.job_id: attempt.attempt
        for attempt in wanted
        if not attempt.acknowledged and not attempt.ending and specs[attempt.job_id].terms.is_gang
    }
    peers: dict[int, dict[int, str]] = defaultdict(dict)
    if rounds:
        for member in await leases.read_gangs(tx, rounds):
            ports: dict[str, int] = json.loads(member.ports or "{}")
            peer = _peer(member.address, specs[member.job_id], ports)
            peers[member.job_id][member.task_index] = peer
    return peers


def _peer(address: str, stored: StoredSpec, ports: dict[str, int]) -> str:
    """Write where a member is: its worker's host, and its first port where it has any."""
    host = address.partition("://")[2].rpartition(":")[0]
    resources = stored.spec.resources
    if resources is None or not resources.ports:
        return host
    return f"{host}:{ports[resources.ports[0]]}"


def _wanted(
    attempt: WantedAttempt, stored_at: datetime | None, job: StoredSpec, *, peers: dict[int, str]
) -> Wanted:
    cancel_by = attempt.cancel_deadline_at
    return Wanted(
        Fence(TaskId(attempt.job_id, attempt.task_index), attempt.attempt, attempt.lease_token),
        TaskState(attempt.state),
        attempt.ending,
        attempt.acknowledged,
        None if stored_at is None else attempt.expires_at - stored_at,
        None if cancel_by is None else max(cancel_by - attempt.now, timedelta()),
        json.loads(attempt.ports or "{}"),
        json.loads(attempt.devices or "[]"),
        attempt.input,
        job,
        list(peers.values()),
        list(peers).index(attempt.task_index) if attempt.task_index in peers else None,
    )
