"""The demo's story: five jobs, and the workers that take them through the ledger.

Nothing runs user code yet, so the workers are played in this process. They go through the same
operations as any worker will, and nothing else: every line on the screen is an event they caused.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.cli.screen import Screen
from holdfast.errors import LeaseConflict, Refused, Unavailable
from holdfast.model.spec import Submission
from holdfast.model.states import JobState, TaskState
from holdfast.operations.cancel import cancel_job
from holdfast.operations.claim import Claim, ClaimRequest, claim
from holdfast.operations.complete import Completed, Completion, Status, complete
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.ledger import Ledger
from holdfast.operations.register import Registration, register
from holdfast.operations.renew import Renewed, renew
from holdfast.operations.report import Fence, Report, report
from holdfast.operations.requeue import requeue_due
from holdfast.operations.submit import submit_one
from holdfast.rules.submission import parse_inputs, parse_spec

HOST = "demo-host"
WORK_SECONDS = 0.15
CLAIM_ROUNDS_MAX = 200


@dataclass(frozen=True, slots=True)
class Played:
    """How a job was meant to end, and what there is to say about it."""

    job_id: int
    state: JobState
    attempts: int
    remark: str


class Worker:
    """A worker played in this process."""

    def __init__(self, ledger: Ledger, screen: Screen, worker_id: str) -> None:
        self.worker_id = worker_id
        self._ledger = ledger
        self._screen = screen

    async def register(self, replaces: str | None = None) -> int:
        """Say who it is, and whom it replaces; returns how many attempts that ended."""
        name = self.worker_id.partition("/")[0]
        ended = await register(
            self._ledger, Registration(self.worker_id, name, HOST, replaces=replaces)
        )
        await self._screen.show_news()
        return ended

    async def claim(self, queue: str, count: int = 1) -> list[Claim]:
        """Claim tasks, asking again while their backoff lasts, and report that they run."""
        for _ in range(CLAIM_ROUNDS_MAX):
            [answer] = await claim(self._ledger, [ClaimRequest(self.worker_id, (queue,), count)])
            if isinstance(answer, Refused):
                raise answer
            if answer:
                running = [Report(fence_of(claimed), TaskState.RUNNING) for claimed in answer]
                await report(self._ledger, running)
                await self._screen.show_news()
                return answer
            await asyncio.sleep(0.05)
            await requeue_due(self._ledger)
        raise Unavailable(f"nothing became ready in queue {queue}")

    async def renew(self, claimed: Claim) -> Renewed:
        """Renew a lease."""
        [answer] = await renew(self._ledger, [fence_of(claimed)])
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def end(self, claims: Sequence[Claim], status: Status, **fields: Any) -> None:
        """Work for a moment, then report how the attempts ended."""
        await asyncio.sleep(WORK_SECONDS)
        answers = await complete(
            self._ledger, [Completion(fence_of(claimed), status, **fields) for claimed in claims]
        )
        await self._screen.show_news()
        for answer in answers:
            if isinstance(answer, Refused):
                raise answer
            assert isinstance(answer, Completed)


def fence_of(claimed: Claim) -> Fence:
    """Take from a claim what its holder must present."""
    return Fence(claimed.task_id, claimed.attempt, claimed.lease_token)


class Story:
    """The five jobs, one after the other."""

    def __init__(self, ledger: Ledger, screen: Screen) -> None:
        self._ledger = ledger
        self._screen = screen
        self._a = Worker(ledger, screen, "worker-a/1")
        self._b = Worker(ledger, screen, "worker-b/1")

    async def play(self) -> list[Played]:
        """Play everything; returns how each job was meant to end."""
        await self._a.register()
        await self._b.register()
        return [
            await self.fan_out(),
            await self.flaky(),
            await self.poison(),
            await self.cancelled(),
            await self.lost_worker(),
        ]

    async def fan_out(self) -> Played:
        """One task per input, shared by two workers."""
        self._screen.title("A job over six inputs, shared by two workers")
        job_id = await self._submit("thumbnails", inputs=[f"{n}.jpg" for n in range(6)])
        first, second = await self._a.claim("thumbnails", 3), await self._b.claim("thumbnails", 3)
        await self._a.end(first, "succeeded", result='"256x256"')
        await self._b.end(second, "succeeded", result='"256x256"')
        return Played(job_id, JobState.SUCCEEDED, 6, "one per input")

    async def flaky(self) -> Played:
        """A task that succeeds on its third attempt."""
        self._screen.title("A flaky task: two retries allowed, both needed")
        job_id = await self._submit("fetch-rates", max_retries_failure=2, backoff={"base": 0.2})
        for _ in range(2):
            await self._a.end(
                await self._a.claim("fetch-rates"), "failed", error="connection reset", exit_code=1
            )
        await self._b.end(await self._b.claim("fetch-rates"), "succeeded")
        return Played(job_id, JobState.SUCCEEDED, 3, "third time lucky")

    async def poison(self) -> Played:
        """An input that can never succeed is put aside; the others do not suffer."""
        self._screen.title("A poison input: retrying would not help, so it is put aside")
        rows = [
            {"sku": "A1", "price": 5},
            {"sku": "B2", "price": "five"},
            {"sku": "C3", "price": 7},
        ]
        job_id = await self._submit("import-prices", inputs=rows, max_retries_failure=3)
        good, bad, also_good = await self._a.claim("import-prices", 3)
        await self._a.end(
            [bad],
            "failed",
            error="price 'five' is not a number",
            error_class="ValidationError",
        )
        await self._a.end([good, also_good], "succeeded")
        return Played(job_id, JobState.DEAD_LETTERED, 3, "one bad input")

    async def cancelled(self) -> Played:
        """A long task is asked to stop, hears it when it renews its lease, and stops."""
        self._screen.title("A long task, cancelled: it hears of it when it renews its lease")
        job_id = await self._submit("train-model")
        [claimed] = await self._b.claim("train-model")
        await cancel_job(self._ledger, job_id, "soft", actor="operator", reason="no longer needed")
        await follow_up_all(self._ledger)
        await self._screen.show_news()
        renewed = await self._b.renew(claimed)
        self._screen.say(f"{self._b.worker_id} renews, is told to stop ({renewed.cancel}), stops")
        await self._b.end([claimed], "killed", exit_code=143)
        return Played(job_id, JobState.KILLED, 1, "asked to stop")

    async def lost_worker(self) -> Played:
        """A worker dies; its next incarnation takes over, and the dead one is refused."""
        self._screen.title("A worker dies: its next incarnation takes over at once")
        job_id = await self._submit("nightly-report")
        lost = await self._a.claim("nightly-report")
        self._screen.say(f"{self._a.worker_id} is gone, its lease with it")
        successor = Worker(self._ledger, self._screen, "worker-a/2")
        await successor.register(replaces=self._a.worker_id)
        taken_over = await successor.claim("nightly-report")
        try:
            await self._a.end(lost, "succeeded")
        except LeaseConflict:
            self._screen.say(
                f"{self._a.worker_id} reports success after all: refused, it has no lease"
            )
        await successor.end(taken_over, "succeeded")
        return Played(job_id, JobState.SUCCEEDED, 2, "its worker died")

    async def _submit(self, name: str, inputs: list[Any] | None = None, **fields: Any) -> int:
        spec = parse_spec(
            {"name": name, "queue": name, "entrypoint": {"function": "demo:work"}} | fields
        )
        submission = Submission(spec, None if inputs is None else parse_inputs(inputs))
        job_id = (await submit_one(self._ledger, submission)).job_id
        self._screen.watch(job_id, name)
        await self._screen.show_news()
        return job_id
