"""The attempts that a worker has: begun where each belongs, stopped, and reported when they end."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from holdfast.client.codec import read_codec
from holdfast.client.transport import Transport
from holdfast.model.submitting.spec import Entrypoint
from holdfast.tracing.current import describe
from holdfast.worker.allowing import CallLimit
from holdfast.worker.claimed.attempt import Attempt, StopMode
from holdfast.worker.claimed.book import Book
from holdfast.worker.claimed.completions import Completions
from holdfast.worker.claimed.function_output import FunctionOutputs
from holdfast.worker.claimed.function_runner import FunctionCall, FunctionRunner
from holdfast.worker.claimed.lease_keeper import Keeper
from holdfast.worker.claimed.options import WorkerOptions
from holdfast.worker.claimed.process_runner import ProcessRunner
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.attempt_outcome import HANDED_BACK, KILLED, Outcome, failure
from holdfast.worker.running.compensated_call import CompensatedCalls
from holdfast.worker.running.failure_lines import log_failure
from holdfast.worker.running.function import BadCall, Functions
from holdfast.worker.running.spans import begin_run, end_run
from holdfast.worker.watchdog_handle import WatchdogLost

log = logging.getLogger("holdfast.attempts")
CLAIM_MAX = 500
UNACKNOWLEDGED_MAX = 5000
ISOLATED_MIN = 4
ISOLATED_SECONDS_MAX = 5.0


class Changes:
    """Wakes whoever waits until something is different."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wake everybody who waits."""
        self._event.set()

    async def wait(self) -> None:
        """Wait for the next change."""
        self._event.clear()
        await self._event.wait()


class RunningAttempts:
    """What runs here, where, and how much more may."""

    def __init__(
        self,
        options: WorkerOptions,
        worker_id: str,
        *,
        transport: Transport,
        keeper: Keeper,
        completions: Completions,
        processes: ProcessRunner,
        outputs: FunctionOutputs,
        on_lost: Callable[[Attempt], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._options = options
        codec = read_codec(options.codec)
        self._worker_id = worker_id
        self._keeper = keeper
        self._completions = completions
        self._processes = processes
        self._outputs = outputs
        self._compensated = CompensatedCalls(transport, codec)
        self._on_lost = on_lost
        self._on_failure = on_failure
        self.changes = Changes()
        self.book = options.book or Book(options.capacity)
        self._functions = FunctionRunner(
            options.server,
            threads_max=options.concurrency,
            functions=Functions(self._limit_of, codec=codec),
            code=options.code,
            write=outputs.write,
            on_end=self._end_function,
            on_process=self._move_to_process,
            on_unblocked=self.changes.notify,
        )
        self._running: dict[Attempt, FunctionCall | asyncio.Task[Outcome | None]] = {}
        self._suspects: set[Attempt] = set()  # of those that run
        self._reserved = 0
        self._met_suspects = False
        self._isolated = asyncio.Semaphore(max(ISOLATED_MIN, os.cpu_count() or 1))
        # Those that must go and do not: the others have to go, too, and then this process.
        self.stuck: set[Attempt] = set()
        self.is_leaving = False

    def __len__(self) -> int:
        return len(self._running)

    def room(self) -> int:
        """Count the tasks that one claim may ask for; none beside one that is suspect."""
        if self.is_leaving or self.stuck or self._functions.is_blocked:
            return 0
        if self._count_unreported() >= UNACKNOWLEDGED_MAX or self._suspects:
            return 0
        if self._met_suspects:
            # More of them may follow: one by one, so that none is fetched to be handed back.
            return 0 if self._reserved or self._running else 1
        concurrency = self._options.concurrency
        free = concurrency - len(self._running) - self._reserved
        return min(free, -(-concurrency // 2), CLAIM_MAX)

    @contextmanager
    def reserve(self, room: int) -> Iterator[None]:
        """Keep room free while a claim for it is under way."""
        self._reserved += room
        try:
            yield
        finally:
            self._reserved -= room
            self.changes.notify()

    def begin(self, attempts: Sequence[Attempt]) -> None:
        """Begin to run what was claimed; the keeper holds it before any of its code runs."""
        suspects = [attempt for attempt in attempts if attempt.is_suspect]
        self._met_suspects = bool(suspects) or (self._met_suspects and not attempts)
        # One suspect at a time, and alone: others, of this claim and of the one beside it, may run
        # elsewhere meanwhile. So may all, if this worker is about to leave, and what came so late
        # that its lease would run out here.
        excess = suspects if self._suspects else suspects[1:]
        spare = [a for a in attempts if self.stuck or a in excess or _is_too_late(a)]
        spare += self.book.take([a for a in attempts if a not in spare])
        if spare:
            self.hand_back(spare)
            attempts = [attempt for attempt in attempts if attempt not in spare]
        self._suspects.update(attempt for attempt in suspects if attempt not in spare)
        for attempt in attempts:
            variables = copy_context()
            attempt.span = variables.run(
                begin_run, attempt, attempt.trace_parent, worker_id=self._worker_id
            )
            job = attempt.job
            refusal = self._options.allowed.find_refusal(
                job.entrypoint, self._options.name, variables=job.environment
            )
            if refusal is not None:
                self._begin_task(attempt, variables, _end_at_once(refusal))
            elif self._is_function_here(attempt) and attempt.job.compensates_job_id is None:
                attempt.in_process = True
                self._running[attempt] = FunctionCall(attempt, variables)
            else:
                self._begin_task(attempt, variables, self._run(attempt, variables))
        self._begin_functions(attempts)

    def hand_back(self, attempts: Sequence[Attempt]) -> None:
        """Give attempts back that have not begun."""
        for attempt in attempts:
            attempt.is_over = True
            self._completions.add(attempt, HANDED_BACK)
        self._keeper.hold(attempts)

    def stop(self, attempt: Attempt, mode: StopMode) -> None:
        """Ask an attempt to stop, in the way that its code can hear."""
        running = self._running.get(attempt)
        if isinstance(running, FunctionCall):
            self._functions.stop(running, mode)
        elif running is not None and attempt.on_stop is not None:
            attempt.on_stop(mode)
        elif running is not None:
            running.cancel()  # it has not begun yet

    def interrupt_all(self) -> None:
        """Have everything end, to be handed back."""
        for running in list(self._running.values()):
            if isinstance(running, FunctionCall):
                self._functions.interrupt(running)
            else:
                running.cancel()

    async def wait_for_others(self, ends_at: float) -> None:
        """Wait until nothing runs but what is stuck, or until a time of this loop."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(ends_at):
                while len(self._running) > len(self.stuck):
                    await self.changes.wait()

    def close(self) -> None:
        """Let go of what functions run on."""
        self._functions.close()

    def _is_function_here(self, attempt: Attempt) -> bool:
        """Tell whether it is a function that may run within this process."""
        needs_process = attempt.is_suspect or attempt.must_isolate
        may_share = not needs_process and self._options.isolation != "process"
        return may_share and attempt.job.entrypoint.is_function

    def _count_unreported(self) -> int:
        """Count the attempts that are over and that the server has not heard the end of."""
        return len(self._completions) + len(self._outputs)

    def _begin_functions(self, attempts: Sequence[Attempt]) -> None:
        """Have leases kept, and then user code begin."""
        calls = [c for a in attempts if isinstance(c := self._running[a], FunctionCall)]
        try:
            self._keeper.hold(attempts)
        except WatchdogLost as error:
            self._on_failure(error)
            for call in calls:
                self._end(call.attempt, HANDED_BACK)
        else:
            self._functions.begin(calls)

    def _begin_task(
        self,
        attempt: Attempt,
        variables: Context,
        work: Coroutine[Any, Any, Outcome | None],
    ) -> None:
        task = asyncio.create_task(work, context=variables)
        self._running[attempt] = task
        # Not within the task: one that is cancelled before its first step has no within.
        task.add_done_callback(partial(self._end_task, attempt))

    async def _run(self, attempt: Attempt, variables: Context) -> Outcome | None:
        """Run what does not simply call a function here; None if it has come to that after all."""
        if attempt.is_suspect:
            await self._wait_until_alone()
        if attempt.job.compensates_job_id is not None:
            try:
                attempt.input = await self._compensated.complete(attempt)
            except BadCall as problem:
                return problem.outcome
        if _is_too_late(attempt):
            return HANDED_BACK
        if not self._is_function_here(attempt):
            return await self._run_process(attempt)
        attempt.in_process = True
        # A copy: this task is within its variables, and no thread may enter them meanwhile.
        self._running[attempt] = FunctionCall(attempt, variables.copy())
        self._begin_functions([attempt])
        return None

    async def _run_process(self, attempt: Attempt) -> Outcome:
        would_share = attempt.job.entrypoint.is_function and self._options.isolation != "process"
        if not (attempt.must_isolate and would_share):
            return await self._start_process(attempt)
        async with self._permit_to_isolate():
            if _is_too_late(attempt):
                return HANDED_BACK
            return await self._start_process(attempt)

    async def _start_process(self, attempt: Attempt) -> Outcome:
        limit = self._limit_of(attempt.job.entrypoint)
        return await self._processes.run(
            attempt, limit, self._options.imports, codec=self._options.codec
        )

    def _limit_of(self, entrypoint: Entrypoint) -> CallLimit | None:
        return self._options.allowed.limit(entrypoint, self._options.name)

    @asynccontextmanager
    async def _permit_to_isolate(self) -> AsyncIterator[None]:
        """Wait until another process may start; a crash may leave hundreds that each need one.

        It is for the start, and for short ones: whoever runs on may wait for others that need it.
        """
        await self._isolated.acquire()
        with ExitStack() as held:
            held.callback(self._isolated.release)
            started = asyncio.get_running_loop().call_later(ISOLATED_SECONDS_MAX, held.close)
            try:
                yield
            finally:
                started.cancel()

    async def _wait_until_alone(self) -> None:
        """Wait until this worker holds no other claim: none that runs, none that is unreported."""
        while len(self._running) > 1 or self._count_unreported() or self._reserved:
            await self.changes.wait()

    def _move_to_process(self, call: FunctionCall) -> None:
        """Run a function in a process of its own, which it asked for when it was found."""
        attempt = call.attempt
        attempt.in_process = False
        self._begin_task(attempt, call.variables, self._start_process(attempt))

    def _end_function(self, attempt: Attempt, answer: Outcome | BaseException) -> None:
        if not isinstance(answer, Outcome):
            answer = self._describe_fault(attempt, answer)
        self._end(attempt, answer)

    def _end_task(self, attempt: Attempt, task: asyncio.Task[Outcome | None]) -> None:
        if task.cancelled():
            self._end(attempt, HANDED_BACK if attempt.stop is None else KILLED)
        elif (error := task.exception()) is not None:
            self._end(attempt, self._describe_fault(attempt, error))
        elif (outcome := task.result()) is not None:
            self._end(attempt, outcome)

    def _end(self, attempt: Attempt, outcome: Outcome) -> None:
        del self._running[attempt]
        self.book.give_back(attempt)
        self.stuck.discard(attempt)
        self._suspects.discard(attempt)
        attempt.is_over, attempt.ended_at = True, boot_clock()
        attempt.on_stop = attempt.on_renewed = None
        end_run(attempt.span, outcome)
        log_failure(attempt, outcome)
        if attempt.stop == "lost":
            self._outputs.discard(attempt)
            self._on_lost(attempt)
        elif attempt.output is None:
            self._completions.add(attempt, outcome)
        else:
            self._outputs.finish(attempt, partial(self._completions.add, attempt, outcome))
        self.changes.notify()

    def _describe_fault(self, attempt: Attempt, error: BaseException) -> Outcome:
        if isinstance(error, WatchdogLost):
            self._on_failure(error)
            return HANDED_BACK
        log.critical(
            "task %s attempt %d broke its worker",
            *attempt.key,
            exc_info=error,
            extra=describe(attempt),
        )
        return Outcome("worker_failed", error=f"a fault of the worker: {failure(error).error}")


def _is_too_late(attempt: Attempt) -> bool:
    """Tell whether too little of the lease is left to begin: the claim was answered late."""
    return boot_clock() >= attempt.stop_at - attempt.margin


async def _end_at_once(outcome: Outcome) -> Outcome:
    return outcome
