"""Lease tasks of queues to workers: by queue, or by id after a wake-up."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from holdfast.errors import KeyReused, LeaseConflict, Refused, Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.give_leases import AskAgain, Chosen, WorkersLost, give_leases
from holdfast.operations.claiming.requests import ClaimRequest, check_request
from holdfast.operations.claiming.take import (
    ask_limits,
    find_large,
    is_fresh,
    keep_passed,
    measure,
    starts_now,
    take_first,
    take_fitting,
)
from holdfast.operations.claiming.turn import TurnTaken, take_turns
from holdfast.store.database import JobChanged, KeyTaken, Transaction
from holdfast.store.specs import StoredSpec
from holdfast.store.tables.access.keys import TakenKey, find_key, take_keys
from holdfast.store.tables.limits.usage_limits import share_limits
from holdfast.store.tables.work.leases import list_claimed_with_key
from holdfast.store.tables.work.ready import (
    Passed,
    TakenTask,
    drop_stale,
    explain_unclaimable,
    take_ready_by_id,
)

ROUNDS_MAX = 10
# How many more tasks are looked at than are wanted, where the first ones have to wait for a limit.
LOOK_AHEAD_MAX = 200
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
    # Whether the start is recorded: its worker need not report it.
    started: bool = False


Answer = list[Claim] | Refused
Share = tuple[ClaimRequest, list[TakenTask]]


class _Sized(AskAgain):
    """Some of what was taken names resources: it has to be looked at before it is taken."""


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
        if queues and ledger.sized_queues.isdisjoint(queues):
            for look_ahead in (0, *[LOOK_AHEAD_MAX] * (ROUNDS_MAX - 1)):
                asked = [requests[position] for position in left]
                at_once, is_gated = await _claim_at_once(ledger, asked, look_ahead=look_ahead)
                for position, claims in zip(left, at_once, strict=True):
                    answers[position] = claims or []
                left = [each for each, claims in zip(left, at_once, strict=True) if claims is None]
                if not left or not is_gated:
                    break
        for _ in range(ROUNDS_MAX if left else 0):
            asked = [requests[position] for position in left]
            is_blocked = False
            try:
                if queues:
                    found = await ledger.write(claim_round, asked, keys_first=keys_first)
                    is_blocked = None in found
                else:
                    found = await ledger.write(_claim_by_id, asked)
            except KeyTaken:  # by the same request before, or elsewhere at this moment
                keys_first = True
                continue
            except _Sized:
                continue
            except WorkersLost as lost:
                found = [_refuse_lost(request, lost.worker_ids) for request in asked]
            for position, answer in zip(left, found, strict=True):
                if answer is not None:
                    answers[position] = answer
            left = [each for each, answer in zip(left, found, strict=True) if answer is None]
            if not left:
                break
            if is_blocked:
                await ledger.write(_drop_stale, queues)
    except Exception as error:  # noqa: BLE001 - the rounds before this one are committed
        for position in left:
            answers[position] = error
    return answers


async def _claim_at_once(
    ledger: Ledger, requests: list[ClaimRequest], *, look_ahead: int
) -> tuple[list[list[Claim] | None], bool]:
    """Answer what needs nothing but to be given the first tasks; None for the rest.

    Says too whether the rest only had tasks in front of it that have to wait for a limit.
    """
    try:
        turn = await take_turns(ledger, [], requests, look_ahead=look_ahead)
    except (JobChanged, KeyTaken):
        return [None] * len(requests), False
    return read_claims(turn, len(requests)), turn.is_gated


def read_claims(turn: TurnTaken, num_requests: int) -> list[list[Claim] | None]:
    """Read from a turn what each request was given; None if it has to ask in another way."""
    answers: list[list[Claim]] = [[] for _ in range(num_requests)]
    for request, job_id, index, attempt, token, expires_at, text, *rest in turn.list_claimed():
        stored = turn.specs[job_id]
        duration = stored.terms.lease_duration
        task_id = TaskId(job_id, index)
        claim = Claim(task_id, attempt, token, expires_at, duration, stored, text, *rest)
        answers[request - 1].append(claim)
    return [answer or (None if turn.is_doubtful else []) for answer in answers]


def _refuse_lost(request: ClaimRequest, lost: set[str]) -> Answer | None:
    if request.worker_id not in lost:
        return None
    return LeaseConflict(request.task_id, f"worker {request.worker_id} has been replaced")


async def _drop_stale(_: Ledger, tx: Transaction, queues: tuple[str, ...]) -> None:
    """Clear the head of queues of what a large cancel has left there."""
    await drop_stale(tx, queues, STALE_MAX)


async def claim_round(
    ledger: Ledger,
    tx: Transaction,
    requests: list[ClaimRequest],
    *,
    keys_first: bool = False,
    moves: Moves | None = None,
) -> list[Answer | None]:
    """Share what is ready among requests; None for one that stale rows were in the way of.

    A key seen before is rare, so it is noticed last. Moves made before are counted along.
    """
    answers: list[Answer | None] = [None] * len(requests)
    if keys_first:
        answers = await _repeated(ledger, tx, requests)
    asking = [position for position, answer in enumerate(answers) if answer is None]
    if not asking:
        return answers
    queues = requests[0].queues
    asked = [requests[position] for position in asking]
    await share_limits(tx)  # before anything is locked: whoever changes limits waits for leases
    is_measured = not ledger.sized_queues.isdisjoint(queues)
    if is_measured:
        measured = await measure(ledger, tx, asked)
        taken, is_blocked = await take_fitting(ledger, tx, queues, asked=measured)
    else:
        taken, is_blocked = await take_first(
            ledger, tx, queues, asked=[claim.asked for claim in asked]
        )
    shares = [(requests[position], share) for position, share in zip(asking, taken, strict=True)]
    moves = Moves() if moves is None else moves
    passed = await ask_limits(tx, [task for share in taken for task in share], queues)
    shares = [(request, keep_passed(share, passed)) for request, share in shares]
    is_blocked = is_blocked or any(not each.may_start for each in passed.values())
    claims = await _assign(ledger, tx, shares, is_measured=is_measured, passed=passed, moves=moves)
    await apply_moves(tx, moves)
    for position, answer in zip(asking, claims, strict=True):
        answers[position] = answer
        if not answer and not keys_first:
            answers[position] = await _repeat(ledger, tx, requests[position]) or []
    return [None if is_blocked and answer == [] else answer for answer in answers]


async def _claim_by_id(
    ledger: Ledger, tx: Transaction, requests: list[ClaimRequest]
) -> list[Answer | None]:
    answers = await _repeated(ledger, tx, requests)
    asking = [position for position, answer in enumerate(answers) if answer is None]
    await share_limits(tx)
    large = await find_large(ledger, tx, [requests[position] for position in asking])
    asking = [position for rank, position in enumerate(asking) if rank not in large]
    asked = [requests[position].task_id for position in asking]
    tasks = await take_ready_by_id(tx, sorted({task_id for task_id in asked if task_id}))
    fresh = {TaskId(task.job_id, task.task_index): task for task in tasks if is_fresh(task)}
    shares: list[Share] = []
    for position, task_id in zip(asking, asked, strict=True):
        # Two requests for one task in one batch: the first gets it.
        task = fresh.pop(task_id, None) if task_id else None
        shares.append((requests[position], [task] if task is not None else []))
    moves = Moves()
    passed = await ask_limits(tx, [task for _, share in shares for task in share])
    shares = [(request, keep_passed(share, passed)) for request, share in shares]
    claims = await _assign(ledger, tx, shares, is_measured=True, passed=passed, moves=moves)
    await apply_moves(tx, moves)
    for position, answer in zip(asking, claims, strict=True):
        answers[position] = answer
    nothing = zip(requests, answers, strict=True)
    losers = [r.task_id for r, answer in nothing if answer == [] and r.task_id]
    reasons = await explain_unclaimable(tx, losers) if losers else {}
    # One that its queue's own limit keeps back stands in line as before.
    reasons |= {task_id: "limited" for task_id, each in passed.items() if not each.may_start}
    return [
        answer or LeaseConflict(request.task_id, reasons.get(request.task_id, "no_room"))
        for request, answer in zip(requests, answers, strict=True)
        if request.task_id
    ]


def _note_sized(ledger: Ledger, specs: Iterable[StoredSpec]) -> _Sized:
    queues = {stored.terms.queue or "" for stored in specs}
    ledger.sized_queues |= queues
    return _Sized(*queues)


async def _assign(
    ledger: Ledger,
    tx: Transaction,
    shares: list[Share],
    *,
    is_measured: bool,
    passed: Mapping[TaskId, Passed],
    moves: Moves,
) -> list[Answer]:
    """Move tasks to ASSIGNED, or on to RUNNING, each with a lease of its own."""
    # In the order of their ids, which are all different.
    chosen = sorted(
        Chosen(TaskId(task.job_id, task.task_index), task, request)
        for request, share in shares
        for task in share
    )
    if not chosen:
        return [[] for _ in shares]
    specs = await ledger.specs.load(tx, {task.job_id for _, task, _ in chosen})
    sized = {job_id: stored for job_id, stored in specs.items() if stored.spec.resources}
    if sized and not is_measured and any(request.is_bounded for request, _ in shares):
        raise _note_sized(ledger, sized.values())
    asked = [each for each in chosen if each.request.start]
    started = {each.task_id for each in asked if starts_now(each.task, specs[each.task.job_id])}
    leases = await give_leases(
        tx, chosen, specs, started=started, sized=sized.keys(), passed=passed
    )
    await _keep_keys(tx, [request for request, share in shares if share])
    claims: dict[tuple[int, ...], Claim] = {}
    for task_id, task, _ in chosen:
        through = TaskState.ASSIGNED if task_id in started else None
        reached = TaskState.ASSIGNED if through is None else TaskState.RUNNING
        moves.add(task.job_id, TaskState.PENDING, reached, through=through)
        moves.require_live(task.job_id)
        stored, lease = specs[task.job_id], leases[task_id]
        duration = stored.terms.lease_duration
        waited = lease.expires_at - duration - task.eligible_at
        tx.news.waits.append((task.job_id, waited.total_seconds()))
        claims[task_id] = Claim(
            task_id,
            task.attempt,
            lease.lease_token,
            lease.expires_at,
            duration,
            stored,
            task.input,
            task.failure_count,
            task.preemption_count,
            task.free_loss_count,
            task_id in started,
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
            lease.state == TaskState.RUNNING,
        )
        for lease in leases
    ]


async def _keep_keys(tx: Transaction, requests: list[ClaimRequest]) -> None:
    keys = sorted(
        TakenKey(f"claim:{request.worker_id}", request.idempotency_key, request.digest)
        for request in requests
        if request.idempotency_key
    )
    if keys and not await take_keys(tx, keys):
        raise KeyTaken(*keys)  # the same request went through before: give its answer


def _key_reused(request: ClaimRequest) -> Refused:
    return KeyReused(request.idempotency_key or "", request="claim")
