"""The writing half of a server: every hot operation behind a gathering point of its own.

Two writes at a time are enough for a server, more made it slower; renewals have a way of their own,
so that a burst of completions cannot make a lease run out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any

from holdfast.errors import Refused, Unavailable
from holdfast.ledger.batcher import Batcher
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.fence import Fence
from holdfast.operations import renew, report
from holdfast.operations.claiming import claim
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.claiming.complete_and_claim import Turn, TurnAnswer, complete_and_claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending import complete
from holdfast.operations.ending.complete import Completion
from holdfast.operations.report import Report
from holdfast.operations.submitting import submit
from holdfast.operations.submitting.store import CHUNK_TASKS_MAX, Submitted
from holdfast.operations.submitting.submit import submit_one
from holdfast.store.database import LockTimeout

WRITES_AT_ONCE = 2
TURN_WEIGHT_MAX = 1000
_ANSWERS = (complete.Completed, Refused)
_Ended = complete.Answer | Exception
# The answers to completions, and to the claim that came along.
TurnHalves = tuple[list[complete.Answer | Exception], list[Claim] | Exception | None]


class _Apart(Enum):
    """A turn has to go as completions and a claim, each with its like."""

    APART = "apart"


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
        self._turns: Batcher[Turn, TurnAnswer | _Apart] = Batcher(
            partial(_write_turns, ledger),
            slots=slots,
            weigh=lambda turn: len(turn.completions),
            weight_max=TURN_WEIGHT_MAX,
        )

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

    async def complete_and_claim(
        self, completions: Sequence[Completion], request: ClaimRequest
    ) -> TurnHalves:
        """Record how attempts ended and lease what is next; a claim that fails is its error."""
        [answer] = await self._turns.call([Turn(tuple(completions), request)])
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, TurnAnswer):
            return await self._complete_rest(completions, answer.completed), answer.claimed
        completed = await self.complete(completions)
        try:
            return completed, await self.claim(request)
        except Exception as error:  # noqa: BLE001 - what has ended is written, and is to be told
            return completed, error

    async def _complete_rest(
        self, completions: Sequence[Completion], answers: list[_Ended]
    ) -> list[_Ended]:
        """Write what could not be written along with a claim that is made: each by itself."""
        left = [n for n, answer in enumerate(answers) if not isinstance(answer, _ANSWERS)]
        if not left:
            return answers
        written = dict(enumerate(answers))
        with suppress(Unavailable):  # then each has the error that it has
            again = await self.complete([completions[n] for n in left])
            written.update(zip(left, again, strict=True))
        return list(written.values())

    async def stop(self) -> None:
        """Take no more calls, and return when all that waited has been written and answered."""
        await asyncio.gather(
            self._submissions.stop(),
            self._claims.stop(),
            self._reports.stop(),
            self._completions.stop(),
            self._renewals.stop(),
            self._turns.stop(),
        )


async def _write_turns(ledger: Ledger, turns: Sequence[Turn]) -> Sequence[TurnAnswer | _Apart]:
    """Write turns in one transaction; if that fails, each is to go apart: nothing is written yet.

    A row that somebody holds, or that is broken, would else keep back all that came with it.
    """
    try:
        return await complete_and_claim(ledger, turns)
    except Exception as error:
        if isinstance(error, Unavailable) and not isinstance(error, LockTimeout):
            raise
        return [_Apart.APART] * len(turns)
