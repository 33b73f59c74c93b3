"""Lease tasks of queues to workers: by queue, or by id after a wake-up."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from holdfast.errors import Invalid, KeyReused, LeaseConflict, Refused, Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.ids import TaskId, check_task_id, check_worker_id
from holdfast.model.states import TaskState
from holdfast.operations.ending.endings import id_columns
from holdfast.rules.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.specs import StoredSpec
from holdfast.store.statements import load_statements

_READY = load_statements("ready")
_TASKS = load_statements("tasks")
_LEASES = load_statements("leases")
_KEYS = load_statements("keys")
_WORKERS = load_statements("workers")

TASKS_PER_CLAIM_MAX = 1000
QUEUES_PER_CLAIM_MAX = 100
ROUNDS_MAX = 10
STALE_MAX = 10_000


class ClaimRequest(NamedTuple):
    """What a worker asks for: one task by id, or up to `max_tasks` from its queues."""

    worker_id: str
    queues: tuple[str, ...] = ()
    max_tasks: int = 1
    task_id: TaskId | None = None
    idempotency_key: str | None = None

    @property
    def digest(self) -> bytes:
        """Tell this request from a different one under the same key."""
        text = repr((self.queues, self.max_tasks, self.task_id))
        return hashlib.sha256(text.encode()).digest()


class Claim(NamedTuple):
    """One task leased to the worker that asked."""

    task_id: TaskId
    attempt: int
    lease_token: UUID
    lease_expires_at: datetime
    lease_remaining: timedelta
    job: StoredSpec
    input: str | None
    failure_count: int
    preemption_count: int


Answer = list[Claim] | Refused


class _WorkersLost(Exception):
    """Some workers of a batch have been replaced; the rest of it goes on without them."""

    def __init__(self, worker_ids: set[str]) -> None:
        super().__init__(*worker_ids)
        self.worker_ids = worker_ids


class _KeyTaken(Exception):
    """A request came under a key that was used before: the transaction has to look there first."""


async def claim(ledger: Ledger, requests: Sequence[ClaimRequest]) -> list[Answer]:
    """Answer each request with its claims, or with why there are none."""
    answers: list[Answer] = [_check(request) or [] for request in requests]
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    firsts: dict[tuple[str, str], int] = {}
    repeats: list[tuple[int, int]] = []
    for place, request in enumerate(requests):
        if isinstance(answers[place], Refused):
            continue
        if request.idempotency_key is not None:
            first = firsts.setdefault((request.worker_id, request.idempotency_key), place)
            if first != place:
                repeats.append((place, first))
                continue
        groups[request.queues].append(place)
    for places in groups.values():
        found = await _claim_group(ledger, [requests[place] for place in places])
        for place, answer in zip(places, found, strict=True):
            answers[place] = answer
    for place, first in repeats:
        same = requests[place].digest == requests[first].digest
        answers[place] = answers[first] if same else _key_reused(requests[place])
    return answers


async def _claim_group(ledger: Ledger, requests: list[ClaimRequest]) -> list[Answer]:
    """Answer requests for the same queues, or requests by id."""
    lost: set[str] = set()
    while True:
        going = [request for request in requests if request.worker_id not in lost]
        try:
            if going and going[0].queues:
                found = await _claim_from_queues(ledger, going[0].queues, going)
            else:
                found = await _claim_ids(ledger, going)
        except _WorkersLost as error:
            lost |= error.worker_ids
            continue
        answers = iter(found)
        return [
            LeaseConflict(request.task_id, f"worker {request.worker_id} has been replaced")
            if request.worker_id in lost
            else next(answers)
            for request in requests
        ]


async def _claim_from_queues(
    ledger: Ledger, queues: tuple[str, ...], requests: list[ClaimRequest]
) -> list[Answer]:
    answers: list[Answer] = [[] for _ in requests]
    open_places = list(range(len(requests)))
    keys_first = False
    for _ in range(ROUNDS_MAX):
        asked = [requests[place] for place in open_places]
        try:
            found, stale = await ledger.write(
                _claim_round, asked, queues=queues, keys_first=keys_first
            )
        except _KeyTaken:
            keys_first = True
            continue
        for place, answer in zip(open_places, found, strict=True):
            answers[place] = answer
        # Stale rows were in the way; whoever got nothing because of them looks again.
        open_places = [place for place in open_places if answers[place] == []]
        if not stale or not open_places:
            break
        await ledger.write(_drop_stale, queues)
    return answers


async def _drop_stale(_: Ledger, tx: Transaction, queues: tuple[str, ...]) -> None:
    """Clear the head of queues of what a large cancel has left there."""
    await tx.fetch(_READY["drop_stale"], queues=list(queues), batch_max=STALE_MAX)


async def _claim_round(
    ledger: Ledger,
    tx: Transaction,
    requests: list[ClaimRequest],
    *,
    queues: tuple[str, ...],
    keys_first: bool,
) -> tuple[list[Answer], bool]:
    """Share what is ready among requests. A key seen before is rare, so it is noticed last."""
    answers: list[Answer | None] = [None] * len(requests)
    if keys_first:
        answers = await _repeated(ledger, tx, requests)
    asking = [place for place, answer in enumerate(answers) if answer is None]
    wanted = sum(requests[place].max_tasks for place in asking)
    if not wanted:
        return [answer if answer is not None else [] for answer in answers], False
    rows = await tx.fetch(_READY["take_ready"], queues=list(queues), tasks_max=wanted)
    fresh = [row for row in rows if row[2] == TaskState.PENDING and row[7]]
    fresh.sort(key=lambda row: (row[8], row[9], row[0], row[1]))
    shares: list[tuple[ClaimRequest, list[Any]]] = []
    for place in asking:
        request = requests[place]
        share, fresh = fresh[: request.max_tasks], fresh[request.max_tasks :]
        shares.append((request, share))
    claims = await _assign(ledger, tx, shares)
    empty = [] if keys_first else [place for place in asking if not shares[place][1]]
    for place, answer in zip(asking, claims, strict=True):
        answers[place] = answer
    for place in empty:
        answers[place] = await _repeat(ledger, tx, requests[place])
    taken = sum(len(share) for _, share in shares)
    return [answer if answer is not None else [] for answer in answers], taken < len(rows)


async def _claim_ids(ledger: Ledger, requests: list[ClaimRequest]) -> list[Answer]:
    for _ in range(ROUNDS_MAX):
        try:
            return await ledger.write(_claim_by_id, requests)
        except _KeyTaken:  # by the same request elsewhere, between our look and our claim
            continue
    raise Unavailable("the same claim keeps coming; try again")


async def _claim_by_id(
    ledger: Ledger, tx: Transaction, requests: list[ClaimRequest]
) -> list[Answer]:
    answers = await _repeated(ledger, tx, requests)
    asking = [place for place, answer in enumerate(answers) if answer is None]
    asked = [requests[place].task_id for place in asking]
    wanted = {task_id for task_id in asked if task_id is not None}
    rows = await tx.fetch(_READY["take_ready_by_id"], **id_columns(sorted(wanted)))
    fresh = {TaskId(row[0], row[1]): row for row in rows if row[2] == TaskState.PENDING and row[7]}
    shares: list[tuple[ClaimRequest, list[Any]]] = []
    for place in asking:
        task_id = requests[place].task_id
        # Two requests for one task in one batch: the first gets it.
        row = fresh.pop(task_id, None) if task_id else None
        shares.append((requests[place], [row] if row is not None else []))
    claims = await _assign(ledger, tx, shares)
    for place, answer in zip(asking, claims, strict=True):
        answers[place] = answer
    losers = [r.task_id for r, answer in zip(requests, answers, strict=True) if not answer]
    reasons = await _explain(tx, [task_id for task_id in losers if task_id])
    return [
        answer if answer else LeaseConflict(request.task_id, reasons[request.task_id])
        for request, answer in zip(requests, answers, strict=True)
        if request.task_id
    ]


async def _explain(tx: Transaction, task_ids: list[TaskId]) -> dict[TaskId, str]:
    if not task_ids:
        return {}
    rows = await tx.fetch(_READY["explain_unclaimable"], **id_columns(task_ids))
    return {TaskId(row[0], row[1]): row[2] for row in rows}


async def _assign(
    ledger: Ledger, tx: Transaction, shares: list[tuple[ClaimRequest, list[Any]]]
) -> list[Answer]:
    """Move tasks to ASSIGNED, each with a lease of its own."""
    rows = sorted(
        ((row, request) for request, share in shares for row in share),
        key=lambda pair: (pair[0][0], pair[0][1]),
    )
    if not rows:
        return [[] for _ in shares]
    specs = await ledger.specs.load(tx, {row[0] for row, _ in rows})
    policies = [specs[row[0]].policy for row, _ in rows]
    leased = await tx.fetch(
        _TASKS["assign_tasks"],
        **id_columns([(row[0], row[1]) for row, _ in rows]),
        worker_ids=[request.worker_id for _, request in rows],
        durations=[timedelta(seconds=policy.lease) for policy in policies],
        run_timeouts=[
            None if policy.timeout is None else timedelta(seconds=policy.timeout)
            for policy in policies
        ],
        claim_keys=[request.idempotency_key for _, request in rows],
    )
    if len(leased) < len(rows):
        lost = await _find_lost(tx, {request.worker_id for _, request in rows})
        assert lost, "a locked task could not be assigned"
        raise _WorkersLost(lost)
    await _keep_keys(tx, [request for request, share in shares if share])
    moves = Moves()
    for row, _ in rows:
        moves.add(row[0], TaskState.PENDING, TaskState.ASSIGNED)
        moves.require_live(row[0])
    await apply_moves(tx, moves)
    leases = {(row[0], row[1]): (row[2], row[3]) for row in leased}
    for row, _ in rows:
        claimed_at = leases[row[0], row[1]][1] - timedelta(seconds=specs[row[0]].policy.lease)
        tx.news.waits.append((row[0], (claimed_at - row[9]).total_seconds()))
    return [
        [
            Claim(
                TaskId(row[0], row[1]),
                row[3],
                *leases[row[0], row[1]],
                timedelta(seconds=specs[row[0]].policy.lease),
                specs[row[0]],
                row[6],
                row[4],
                row[5],
            )
            for row in share
        ]
        for _, share in shares
    ]


async def _repeated(
    ledger: Ledger, tx: Transaction, requests: list[ClaimRequest]
) -> list[Answer | None]:
    """Answer those requests that came before under the same key; None for the rest."""
    return [await _repeat(ledger, tx, request) for request in requests]


async def _repeat(ledger: Ledger, tx: Transaction, request: ClaimRequest) -> Answer | None:
    """Answer a request that came before under the same key; None if it did not."""
    if request.idempotency_key is None:
        return None
    scope = f"claim:{request.worker_id}"
    used = await tx.fetch_one(_KEYS["find_key"], scope=scope, key=request.idempotency_key)
    if used is None:
        return None
    if used[0] != request.digest:
        return _key_reused(request)
    rows = await tx.fetch(
        _LEASES["list_claimed_with_key"],
        worker_id=request.worker_id,
        claim_key=request.idempotency_key,
    )
    specs = await ledger.specs.load(tx, {row[0] for row in rows})
    return [
        Claim(
            TaskId(row[0], row[1]), row[2], row[3], row[4], row[4] - row[5], specs[row[0]], row[8],
            row[6], row[7],
        )
        for row in rows
    ]  # fmt: skip


async def _keep_keys(tx: Transaction, requests: list[ClaimRequest]) -> None:
    keyed = [request for request in requests if request.idempotency_key]
    for request in sorted(keyed, key=lambda r: (r.worker_id, r.idempotency_key or "")):
        taken = await tx.fetch_one(
            _KEYS["take_key"],
            scope=f"claim:{request.worker_id}",
            key=request.idempotency_key,
            request_digest=request.digest,
        )
        if taken is None:  # the same request went through before: give its answer
            raise _KeyTaken(request.idempotency_key)


async def _find_lost(tx: Transaction, worker_ids: set[str]) -> set[str]:
    rows = await tx.fetch(_WORKERS["list_lost_workers"], worker_ids=sorted(worker_ids))
    return {row[0] for row in rows}


def _key_reused(request: ClaimRequest) -> Refused:
    return KeyReused(request.idempotency_key or "", request="claim")


def _check(request: ClaimRequest) -> Refused | None:
    """Find what is wrong with a request, without raising: the others in its batch go on."""
    try:
        check_worker_id(request.worker_id)
        if request.idempotency_key is not None:
            _check_name("idempotency_key", request.idempotency_key)
        if request.task_id is not None:
            check_task_id(request.task_id)
            if request.queues:
                raise Invalid("queues", "goes without task_id; give one of the two")
            return None
        if not request.queues:
            raise Invalid("queues", "is empty; name a queue, or give a task_id")
        if len(request.queues) > QUEUES_PER_CLAIM_MAX:
            raise Invalid("queues", f"names more than {QUEUES_PER_CLAIM_MAX} queues")
        if len(set(request.queues)) != len(request.queues):
            raise Invalid("queues", "names a queue twice")
        for queue in request.queues:
            _check_name("queues", queue)
        if not 1 <= request.max_tasks <= TASKS_PER_CLAIM_MAX:
            raise Invalid("max_tasks", f"is not from 1 to {TASKS_PER_CLAIM_MAX}")
    except Refused as refused:
        return refused
    return None


def _check_name(field: str, name: str) -> None:
    if not name:
        raise Invalid(field, "is empty; give it a name")
    check_text(field, name, 256)
