"""Lease tasks of queues to workers: by queue, or by id after a wake-up."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from holdfast.errors import KeyReused, LeaseConflict, Refused, Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.ids import TaskId
from holdfast.model.resources import Capacity, fits, subtract
from holdfast.model.states import TaskState
from holdfast.operations.books import hold_balances
from holdfast.operations.claim_requests import ClaimRequest, check_request
from holdfast.operations.take import find_needs, is_fresh, take_first, take_fitting
from holdfast.rules.claim_shares import Asked
from holdfast.store.database import Transaction
from holdfast.store.specs import StoredSpec
from holdfast.store.tables.keys import find_key, take_key
from holdfast.store.tables.leases import list_claimed_with_key
from holdfast.store.tables.ready import (
    TakenTask,
    drop_stale,
    explain_unclaimable,
    take_ready_by_id,
)
from holdfast.store.tables.tasks import Assignment, assign_tasks
from holdfast.store.tables.workers import list_lost_workers

ROUNDS_MAX = 10
STALE_MAX = 10_000


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
    free_loss_count: int


Answer = list[Claim] | Refused
Share = tuple[ClaimRequest, list[TakenTask]]


class _WorkersLost(Exception):
    """Some workers of a batch have been replaced; the rest of it goes on without them."""

    def __init__(self, worker_ids: set[str]) -> None:
        super().__init__(*worker_ids)
        self.worker_ids = worker_ids


class _Sized(Exception):
    """Some of what was taken names resources: it has to be looked at before it is taken."""


class _KeyTaken(Exception):
    """A request came under a key that was used before: the transaction has to look there first."""


async def claim(ledger: Ledger, requests: Sequence[ClaimRequest]) -> list[Answer | Exception]:
    """Answer each request with its claims, or with why there are none.

    Different queues are different transactions: what one has committed is answered, whatever
    becomes of the next. Of those that nothing was written for, the error is the answer.
    """
    answers: list[Answer | Exception] = [check_request(request) or [] for request in requests]
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    firsts: dict[tuple[str, str], int] = {}
    repeats: list[tuple[int, int]] = []
    for position, request in enumerate(requests):
        if isinstance(answers[position], Refused):
            continue
        if request.idempotency_key is not None:
            first = firsts.setdefault((request.worker_id, request.idempotency_key), position)
            if first != position:
                repeats.append((position, first))
                continue
        groups[request.queues].append(position)
    for positions in groups.values():
        found = await _claim_group(ledger, [requests[position] for position in positions])
        for position, answer in zip(positions, found, strict=True):
            answers[position] = answer
    for position, first in repeats:
        same = requests[position].digest == requests[first].digest
        answers[position] = answers[first] if same else _key_reused(requests[position])
    return answers


async def _claim_group(ledger: Ledger, requests: list[ClaimRequest]) -> list[Answer | Exception]:
    """Answer requests for the same queues, or requests by id: a transaction, sometimes a few."""
    queues = requests[0].queues
    answers: list[Answer | Exception] = [
        [] if queues else Unavailable("the same claim keeps coming; try again") for _ in requests
    ]
    left = list(range(len(requests)))
    keys_first = False
    try:
        for _ in range(ROUNDS_MAX):
            asked = [requests[position] for position in left]
            is_blocked = False
            try:
                if queues:
                    found = await ledger.write(_claim_round, asked, keys_first=keys_first)
                    is_blocked = None in found
                else:
                    found = await ledger.write(_claim_by_id, asked)
            except _KeyTaken:  # by the same request before, or elsewhere at this moment
                keys_first = True
                continue
            except _Sized:
                continue
            except _WorkersLost as lost:
                found = [_refuse_lost(request, lost.worker_ids) for request in asked]
            for position, answer in zip(left, found, strict=True):
                if answer is not None:
                    answers[position] = answer
            left = [
                position for position, answer in zip(left, found, strict=True) if answer is None
            ]
            if not left:
                break
            if is_blocked:
                await ledger.write(_drop_stale, queues)
    except Exception as error:  # noqa: BLE001 - the rounds before this one are committed
        for position in left:
            answers[position] = error
    return answers


def _refuse_lost(request: ClaimRequest, lost: set[str]) -> Answer | None:
    if request.worker_id not in lost:
        return None
    return LeaseConflict(request.task_id, f"worker {request.worker_id} has been replaced")


async def _drop_stale(_: Ledger, tx: Transaction, queues: tuple[str, ...]) -> None:
    """Clear the head of queues of what a large cancel has left there."""
    await drop_stale(tx, queues, STALE_MAX)


async def _claim_round(
    ledger: Ledger, tx: Transaction, requests: list[ClaimRequest], *, keys_first: bool
) -> list[Answer | None]:
    """Share what is ready among requests; None for one that stale rows were in the way of.

    A key seen before is rare, so it is noticed last.
    """
    answers: list[Answer | None] = [None] * len(requests)
    if keys_first:
        answers = await _repeated(ledger, tx, requests)
    asking = [position for position, answer in enumerate(answers) if answer is None]
    if not asking:
        return answers
    queues = requests[0].queues
    asked = [requests[position] for position in asking]
    is_measured = not ledger.sized_queues.isdisjoint(queues)
    if is_measured:
        measured = await _measure(ledger, tx, asked)
        taken, is_blocked = await take_fitting(ledger, tx, queues, asked=measured)
    else:
        taken, is_blocked = await take_first(tx, queues, [claim.asked for claim in asked])
    shares = [(requests[position], share) for position, share in zip(asking, taken, strict=True)]
    claims = await _assign(ledger, tx, shares, is_measured=is_measured)
    for position, answer in zip(asking, claims, strict=True):
        answers[position] = answer
        if not answer and not keys_first:
            answers[position] = await _repeat(ledger, tx, requests[position]) or []
    return [None if is_blocked and answer == [] else answer for answer in answers]


async def _measure(ledger: Ledger, tx: Transaction, requests: list[ClaimRequest]) -> list[Asked]:
    """Say what decides the share of each; of those with one book, the first is given by it."""
    balances = await hold_balances(ledger, tx, {r.book for r in requests if r.book is not None})
    asked = []
    for request in requests:
        if request.book is None:
            asked.append(request.asked)
        else:
            balance = balances[request.book]
            asked.append(Asked(request.max_tasks, *balance))
            balances[request.book] = balance._replace(free=Capacity())
    return asked


async def _find_large(
    ledger: Ledger, tx: Transaction, requests: Sequence[ClaimRequest]
) -> set[int]:
    """Find the requests, by their positions, whose task needs more than is free for it there."""
    bounded = {r.task_id for r in requests if r.is_bounded and r.task_id is not None}
    needs = await find_needs(ledger, tx, bounded)
    books = {r.book for r in requests if r.book is not None and r.task_id in needs}
    balances = await hold_balances(ledger, tx, books)
    large = set()
    for position, request in enumerate(requests):
        need = None if request.task_id is None else needs.get(request.task_id)
        free = request.free
        if need is not None and request.book is not None:
            free = balances[request.book].free
        if need is None or free is None:
            continue
        if not fits(need, free):
            large.add(position)
        elif request.book is not None:
            balances[request.book] = balances[request.book]._replace(free=subtract(free, need))
    return large


async def _claim_by_id(
    ledger: Ledger, tx: Transaction, requests: list[ClaimRequest]
) -> list[Answer | None]:
    answers = await _repeated(ledger, tx, requests)
    asking = [position for position, answer in enumerate(answers) if answer is None]
    large = await _find_large(ledger, tx, [requests[position] for position in asking])
    asking = [position for rank, position in enumerate(asking) if rank not in large]
    asked = [requests[position].task_id for position in asking]
    tasks = await take_ready_by_id(tx, sorted({task_id for task_id in asked if task_id}))
    fresh = {TaskId(task.job_id, task.task_index): task for task in tasks if is_fresh(task)}
    shares: list[Share] = []
    for position, task_id in zip(asking, asked, strict=True):
        # Two requests for one task in one batch: the first gets it.
        task = fresh.pop(task_id, None) if task_id else None
        shares.append((requests[position], [task] if task is not None else []))
    claims = await _assign(ledger, tx, shares, is_measured=True)
    for position, answer in zip(asking, claims, strict=True):
        answers[position] = answer
    losers = [r.task_id for r, answer in zip(requests, answers, strict=True) if answer == []]
    reasons = await _explain(tx, [task_id for task_id in losers if task_id])
    return [
        answer or LeaseConflict(request.task_id, reasons.get(request.task_id, "no_room"))
        for request, answer in zip(requests, answers, strict=True)
        if request.task_id
    ]


async def _explain(tx: Transaction, task_ids: list[TaskId]) -> dict[TaskId, str]:
    return await explain_unclaimable(tx, task_ids) if task_ids else {}


def _note_sized(ledger: Ledger, specs: Iterable[StoredSpec]) -> _Sized:
    queues = {stored.terms.queue or "" for stored in specs}
    ledger.sized_queues |= queues
    return _Sized(*queues)


async def _assign(
    ledger: Ledger, tx: Transaction, shares: list[Share], *, is_measured: bool
) -> list[Answer]:
    """Move tasks to ASSIGNED, each with a lease of its own."""
    # In the order of their ids, which are all different.
    chosen = sorted(
        (TaskId(task.job_id, task.task_index), task, request)
        for request, share in shares
        for task in share
    )
    if not chosen:
        return [[] for _ in shares]
    specs = await ledger.specs.load(tx, {task.job_id for _, task, _ in chosen})
    sized = {job_id: stored for job_id, stored in specs.items() if stored.spec.resources}
    if sized and not is_measured and any(request.is_bounded for request, _ in shares):
        raise _note_sized(ledger, sized.values())
    terms = {
        job_id: (stored.terms.lease_duration, stored.terms.run_timeout)
        for job_id, stored in specs.items()
    }
    assignments = []
    for task_id, task, request in chosen:
        book = request.book if task.job_id in sized else None
        plain = Assignment(task_id, request.worker_id, *terms[task.job_id], request.idempotency_key)
        assignments.append(plain._replace(book=book))
    leases = await assign_tasks(tx, assignments)
    if len(leases) < len(chosen):
        lost = await list_lost_workers(tx, {request.worker_id for _, _, request in chosen})
        assert lost, "a locked task could not be assigned"
        raise _WorkersLost(lost)
    await _keep_keys(tx, [request for request, share in shares if share])
    moves = Moves()
    for _, task, _ in chosen:
        moves.add(task.job_id, TaskState.PENDING, TaskState.ASSIGNED)
        moves.require_live(task.job_id)
    await apply_moves(tx, moves)
    held = {(lease.job_id, lease.task_index): lease for lease in leases}
    claims: dict[tuple[int, ...], Claim] = {}
    for task_id, task, _ in chosen:
        _, _, token, expires_at = held[task_id]
        duration = terms[task.job_id][0]
        waited = expires_at - duration - task.eligible_at
        tx.news.waits.append((task.job_id, waited.total_seconds()))
        claims[task_id] = Claim(
            task_id,
            task.attempt,
            token,
            expires_at,
            duration,
            specs[task.job_id],
            task.input,
            task.failure_count,
            task.preemption_count,
            task.free_loss_count,
        )
    return [[claims[task[:2]] for task in share] for _, share in shares]


async def _repeated(
    ledger: Ledger, tx: Transaction, requests: list[ClaimRequest]
) -> list[Answer | None]:
    """Answer those requests that came before under the same key; None for the rest."""
    return [await _repeat(ledger, tx, request) for request in requests]


async def _repeat(ledger: Ledger, tx: Transaction, request: ClaimRequest) -> Answer | None:
    """Answer a request that came before under the same key; None if it did not."""
    if request.idempotency_key is None:
        return None
    used = await find_key(tx, f"claim:{request.worker_id}", request.idempotency_key)
    if used is None:
        return None
    if used.request_digest != request.digest:
        return _key_reused(request)
    leases = await list_claimed_with_key(tx, request.worker_id, request.idempotency_key)
    specs = await ledger.specs.load(tx, {lease.job_id for lease in leases})
    return [
        Claim(
            TaskId(lease.job_id, lease.task_index),
            lease.attempt,
            lease.lease_token,
            lease.expires_at,
            lease.expires_at - lease.now,
            specs[lease.job_id],
            lease.input,
            lease.failure_count,
            lease.preemption_count,
            lease.free_loss_count,
        )
        for lease in leases
    ]


async def _keep_keys(tx: Transaction, requests: list[ClaimRequest]) -> None:
    keyed = [
        (f"claim:{request.worker_id}", request.idempotency_key, request.digest)
        for request in requests
        if request.idempotency_key
    ]
    for scope, key, digest in sorted(keyed):
        if not await take_key(tx, scope, key, request_digest=digest):
            raise _KeyTaken(key)  # the same request went through before: give its answer


def _key_reused(request: ClaimRequest) -> Refused:
    return KeyReused(request.idempotency_key or "", request="claim")
