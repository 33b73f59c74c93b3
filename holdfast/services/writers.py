"""The writing half of a server: every hot operation behind a gathering point of its own.

Two writes at a time are enough for a server, more made it slower; renewals have a way of their own,
so that a burst of completions cannot make a lease run out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from holdfast.ledger.batcher import Batcher
from holdfast.ledger.ledger import Ledger
from holdfast.model.fence import Fence
from holdfast.model.spec import Submission
from holdfast.operations import claim, renew, report
from holdfast.operations.claim import Claim
from holdfast.operations.claim_requests import ClaimRequest
from holdfast.operations.ending import complete
from holdfast.operations.ending.complete import Completion
from holdfast.operations.report import Report
from holdfast.operations.submitting import submit
from holdfast.operations.submitting.store import CHUNK_TASKS_MAX, Submitted
from holdfast.operations.submitting.submit import submit_one

WRITES_AT_ONCE = 2


class Writers:
    """The batchers of one server."""

    def __init__(self, ledger: Ledger) -> None:
        slots = asyncio.Semaphore(WRITES_AT_ONCE)
        own_slot = asyncio.Semaphore(1)

        def gather(
            operation: Callable[..., Awaitable[Sequence[Any]]], slots: asyncio.Semaphore = slots
        ) -> Batcher[Any, Any]:
            return Batcher(partial(operation, ledger), slots=slots)

        # No more than one transaction's worth: of a write that failed, nothing is stored already.
        self._submissions: Batcher[Submission, submit.Taken] = Batcher(
            partial(submit.submit, ledger),
            slots=slots,
            weigh=attrgetter("num_tasks"),
            weight_max=CHUNK_TASKS_MAX,
        )
        self._large = asyncio.Semaphore(1)
        self._ledger = ledger
        self._claims: Batcher[ClaimRequest, claim.Answer] = gather(claim.claim)
        self._reports: Batcher[Report, report.Answer] = gather(report.report)
        self._completions: Batcher[Completion, complete.Answer] = gather(complete.complete)
        self._renewals: Batcher[Fence, renew.Answer] = gather(renew.renew, own_slot)

    async def submit(self, submission: Submission) -> Submitted:
        """Take in one job, or raise what is wrong with it."""
        if submission.num_tasks > CHUNK_TASKS_MAX:
            # A large one takes many transactions: it must not hold up those gathered with it.
            async with self._large:
                return await submit_one(self._ledger, submission)
        [answer] = await self._submissions.call([submission])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Lease tasks to a worker, or raise why not."""
        [answer] = await self._claims.call([request])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def report(self, reports: Sequence[Report]) -> list[report.Answer | Exception]:
        """Record that attempts have started."""
        return await self._reports.call(reports)

    async def renew(self, fences: Sequence[Fence]) -> list[renew.Answer | Exception]:
        """Renew leases."""
        return await self._renewals.call(fences)

    async def complete(
        self, completions: Sequence[Completion]
    ) -> list[complete.Answer | Exception]:
        """Record how attempts ended."""
        return await self._completions.call(completions)

    async def stop(self) -> None:
        """Take no more calls, and return when all that waited has been written and answered."""
        await asyncio.gather(
            self._submissions.stop(),
            self._claims.stop(),
            self._reports.stop(),
            self._completions.stop(),
            self._renewals.stop(),
        )
