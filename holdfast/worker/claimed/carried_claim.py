"""A claim that goes to the server with completions, in one request; whoever asked waits for it."""

import asyncio
from collections.abc import Callable

from holdfast.client.refusals import as_exception
from holdfast.wire.answers import TaskClaimAnswer, TaskCompleteAnswer
from holdfast.wire.requests import TaskClaimRequest
from holdfast.worker.processes.clock import boot_clock


class NotCarried(Exception):
    """The completions came back without an answer to the claim: it has to go by itself."""


class CarriedClaim:
    """A request, and the answer that the sender of the completions brings.

    `on_late` gets what was claimed, and when it was asked for, if nobody waits for it any more.
    """

    def __init__(
        self, body: TaskClaimRequest, on_late: Callable[[TaskClaimAnswer, float], None]
    ) -> None:
        self.body = body
        self._on_late = on_late
        self.sent_at = 0.0
        self._answered: asyncio.Future[TaskClaimAnswer] = asyncio.get_running_loop().create_future()

    def note_sent(self) -> None:
        """Note when the request leaves: leases count from then on."""
        self.sent_at = boot_clock()

    def answer(self, answer: TaskCompleteAnswer) -> None:
        """Pass on what the server has said of the claim."""
        if self._answered.done():
            if answer.claim is not None:
                self._on_late(answer.claim, self.sent_at)
        elif answer.claim is not None:
            self._answered.set_result(answer.claim)
        elif answer.claim_error is not None:
            self._answered.set_exception(as_exception(answer.claim_error))
        else:
            self.give_up()

    def give_up(self) -> None:
        """Say that no answer comes this way; it may have been claimed all the same."""
        if not self._answered.done():
            self._answered.set_exception(NotCarried)

    async def wait(self) -> TaskClaimAnswer:
        """Wait for the answer. Raises what the server refuses, or NotCarried."""
        return await self._answered
