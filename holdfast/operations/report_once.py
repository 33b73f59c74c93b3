"""Take reports of starts under an idempotency key, with the renewal of their leases.

A repeat is given the first answer, whatever has become of the attempts since: it neither starts nor
renews anything. What was left of a lease then has run down meanwhile.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.errors import LeaseConflict, Refused
from holdfast.ledger.keys import RequestKey, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence, check_fence
from holdfast.operations.renew import Answer, Renewed, renew_free
from holdfast.operations.report import Report, check_report, record
from holdfast.store.database import LockTimeout, Transaction


class Once(NamedTuple):
    """What the leases of a request were answered, in its order, and whether it is a repeat."""

    answers: list[Answer]
    is_repeat: bool


class _Kept(NamedTuple):
    """The first answer, and when it was given: each lease as it was renewed, or why it is lost."""

    at: datetime
    leases: list[Renewed | str]


async def report_once(
    ledger: Ledger, reports: Sequence[Report], fences: Sequence[Fence], *, keyed: RequestKey
) -> Once:
    """Record starts and renew leases in one transaction, once per key. Raises what is not fit."""
    for report in reports:
        check_report(report)
    for fence in fences:
        check_fence(fence)
    was_run = False

    async def run(_: Ledger, tx: Transaction) -> _Kept:
        nonlocal was_run
        was_run = True
        return await _report_and_renew(ledger, tx, reports, fences=fences)

    kept = await write_once(ledger, keyed, run, returns=_Kept)
    elapsed = timedelta()
    if not was_run:
        async with ledger.database.transaction() as tx:
            elapsed = await tx.now() - kept.at
    answers: list[Answer] = [
        LeaseConflict(fence.task_id, lease) if isinstance(lease, str) else _run_down(lease, elapsed)
        for fence, lease in zip(fences, kept.leases, strict=True)
    ]
    return Once(answers, is_repeat=not was_run)


async def _report_and_renew(
    ledger: Ledger, tx: Transaction, reports: Sequence[Report], *, fences: Sequence[Fence]
) -> _Kept:
    recorded = await record(ledger, tx, list(reports))
    answers: dict[Fence, Answer] = await renew_free(ledger, tx, sorted(set(fences)))
    if len(answers) < len(set(fences)):
        raise LockTimeout("leases are held by another transaction")
    answers |= {
        report.fence: answer
        for report, answer in zip(reports, recorded, strict=True)
        if isinstance(answer, Refused)
    }
    return _Kept(await tx.now(), [_keep(answers[fence]) for fence in fences])


def _keep(answer: Answer) -> Renewed | str:
    if isinstance(answer, Renewed):
        return answer
    assert isinstance(answer, LeaseConflict), "a checked report was refused otherwise"
    return answer.reason


def _run_down(lease: Renewed, elapsed: timedelta) -> Renewed:
    """Take what has passed since from the times that are left."""
    cancel = lease.cancel_remaining
    return lease._replace(
        lease_remaining=max(lease.lease_remaining - elapsed, timedelta()),
        cancel_remaining=None if cancel is None else max(cancel - elapsed, timedelta()),
    )
