"""Run functions within the worker process, off the loop that claims and reports.

worker's loop ── begin ──►  threads: import, unpickle, and call what is not async
     ▲     │                   │ a coroutine
     │     └─ known, plain ──► user loop: coroutines
     └─────────── ended ───────┴──┘        many at a time, either way
"""

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from holdfast.client.context import Connection, Context, current
from holdfast.worker.claimed.attempt import Attempt, StopMode
from holdfast.worker.claimed.attempt_context import AttemptContext
from holdfast.worker.claimed.batches import Batches
from holdfast.worker.claimed.call_threads import CallThreads
from holdfast.worker.claimed.interruptible import InterruptibleCall
from holdfast.worker.claimed.output_routing import keep_output, route_streams
from holdfast.worker.claimed.user_loop import UserLoop
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.attempt_outcome import HANDED_BACK, KILLED, Outcome, failure
from holdfast.worker.running.function import (
    BadCall,
    Callee,
    Functions,
    TaskStopped,
    arguments_of,
)
from holdfast.worker.running.returning import describe_return
from holdfast.worker.running.runnable import connect, lease_of
from holdfast.worker.running_code import RunningCode

log = logging.getLogger("holdfast.functions")
BLOCKED_SECONDS_MAX = 5.0
LOOK_EVERY_SECONDS = 0.5
_NO_KWARGS: Mapping[str, Any] = {}

# How it ended, or what has to run it instead.
Answer = Outcome | Literal["coroutine", "process", "batch"]


class FunctionCall:
    """The function of one attempt, from being handed to user code to its end."""

    __slots__ = (
        "args",
        "attempt",
        "callee",
        "context",
        "has_begun",
        "in_thread",
        "is_interrupted",
        "kwargs",
        "task",
        "variables",
    )

    def __init__(self, attempt: Attempt, variables: contextvars.Context) -> None:
        self.attempt = attempt
        self.variables = variables
        self.callee: Callee | None = None
        self.context: Context | None = None
        self.args: Sequence[Any] = ()
        self.kwargs: Mapping[str, Any] = _NO_KWARGS
        self.in_thread: InterruptibleCall[Answer] | None = None
        self.task: asyncio.Task[Outcome] | None = None
        self.has_begun = False
        self.is_interrupted = False

    def begin(self) -> bool:
        """Note that its code begins, once; False if its lease leaves no time for that."""
        now = boot_clock()
        if now >= self.attempt.stop_at:
            return False
        self.attempt.started_at = self.attempt.started_at or now
        return True

    def describe_error(self, error: BaseException) -> Outcome:
        """Describe an error: after a request to stop, or a drain, it is how it was stopped."""
        if self.attempt.stop is None:
            return HANDED_BACK if self.is_interrupted else failure(error)
        if isinstance(error, asyncio.CancelledError | TaskStopped):
            return KILLED
        return Outcome("killed", error=failure(error).error)

    def describe_value(self, value: Any) -> Outcome:
        """Describe what the function returned, and what it has written."""
        assert self.callee is not None
        assert self.context is not None
        return describe_return(self.callee, value, self.context)


class FunctionRunner:
    """Runs the functions of attempts; `on_end` hears of each on the loop that this was made on.

    It is given the outcome, or what broke the runner itself. What turns out to need a process of
    its own is given to `on_process` instead.
    """

    def __init__(
        self,
        server: str,
        *,
        threads_max: int,
        functions: Functions,
        code: RunningCode,
        write: Callable[[Attempt, bytes], None],
        on_end: Callable[[Attempt, Outcome | BaseException], None],
        on_process: Callable[[FunctionCall], None],
        on_unblocked: Callable[[], None],
    ) -> None:
        self._server = server
        self._code = code
        self._write = write
        self._on_end = on_end
        self._on_process = on_process
        self._on_unblocked = on_unblocked
        self._loop = asyncio.get_running_loop()
        self._functions = functions
        self._threads = CallThreads(threads_max, "holdfast-task")
        self._coroutines: UserLoop | None = None
        # What the user loop has not begun, and since when; whoever takes a call out here owns it.
        self._waiting: dict[FunctionCall, float] = {}
        self._looking: asyncio.TimerHandle | None = None
        self.is_blocked = False
        self._ended: deque[tuple[FunctionCall, Answer | BaseException]] = deque()
        self._is_collecting = False
        self._connection: Connection | None = None
        self._batches = Batches(
            self._threads,
            code=code,
            prepare=self._prepare,
            open_loop=lambda: self._open_user_loop().loop,
            write=write,
            on_end=self._end,
        )
        self._lock = threading.Lock()

    def begin(self, calls: Sequence[FunctionCall]) -> None:
        """Hand calls to user code: to threads, or to the user loop if nothing is to be prepared."""
        route_streams()
        coroutines = []
        in_threads = []
        for call in calls:
            call.callee = self._functions.find_known(call.attempt.job)
            if call.callee is not None and call.callee.isolation == "process":
                self._end(call, "process")
            elif call.callee is not None and call.callee.batch is not None:
                self._batches.add(call)
            elif call.callee is not None and call.callee.is_async:
                coroutines.append(call)
            else:
                call.in_thread = InterruptibleCall(partial(self._prepare_and_call, call))
                in_threads.append(partial(self._run_to_end, call))
        if in_threads:
            self._threads.submit(in_threads)
        if coroutines:
            self._queue(coroutines)

    def stop(self, call: FunctionCall, mode: StopMode) -> None:
        """Ask a call to stop: one that takes a context looks for itself, as long as it may."""
        callee = call.callee
        looks_itself = call.has_begun and callee is not None and callee.wants_context
        if not looks_itself or mode in ("hard", "lost"):
            self.interrupt(call)

    def interrupt(self, call: FunctionCall) -> None:
        """Have a call end: before it begins, or as soon as its code can be interrupted."""
        if self._batches.has(call):
            self._batches.interrupt(call)
            return
        call.is_interrupted = True
        if call.in_thread is not None:
            call.in_thread.interrupt()
        self._revoke(call)
        if call.task is not None:
            call.task.get_loop().call_soon_threadsafe(call.task.cancel)

    def close(self) -> None:
        """Let the idle threads go."""
        self._batches.close()
        self._threads.close()
        if self._looking is not None:
            self._looking.cancel()
        if self._coroutines is not None:
            self._coroutines.close()
        if self._connection is not None:
            self._connection.loop_thread.stop(self._connection.transport.__aexit__())

    def _run_to_end(self, call: FunctionCall) -> None:
        """Run a call in a thread; what breaks the runner itself is told, too."""
        answer: Answer | BaseException
        try:
            answer = self._run_in_thread(call)
        except BaseException as error:  # noqa: BLE001 - the thread has others to run
            answer = error
        self._end(call, answer)

    def _run_in_thread(self, call: FunctionCall) -> Answer:
        if call.is_interrupted:
            return call.describe_error(TaskStopped())
        noted = self._code.note_begin(*call.attempt.key)
        try:
            answer = call.variables.run(self._find, call)
            if answer is not None:
                return answer
            assert call.in_thread is not None
            answer, error = call.variables.run(call.in_thread)
        finally:
            self._code.note_end(noted)
        if error is not None:
            return call.describe_error(error)
        assert answer is not None
        return answer

    def _find(self, call: FunctionCall) -> Answer | None:
        """Import or unpickle what is called; None if it is to be called here.

        Nothing interrupts this: half an import would spoil the module for every later task.
        """
        if not call.begin():
            return HANDED_BACK
        try:
            if call.callee is None:
                call.callee = self._functions.find(call.attempt.job.entrypoint)
        except BadCall as problem:
            return problem.outcome
        except BaseException as error:  # noqa: BLE001 - whatever user code raises is its outcome
            return call.describe_error(error)
        if call.callee.batch is not None:
            return "batch"
        return "process" if call.callee.isolation == "process" else None

    def _prepare_and_call(self, call: FunctionCall) -> Answer:
        """Do in a thread what can be done there: to get the arguments, to call a function."""
        try:
            self._prepare(call)
        except BadCall as problem:
            return problem.outcome
        assert call.callee is not None
        if call.callee.is_async:
            return "coroutine"
        self._enter(call)
        # The result is made fit to be sent in the thread, too: that takes time, and user code.
        return call.describe_value(call.callee.function(*call.args, **call.kwargs))

    def _prepare(self, call: FunctionCall) -> None:
        """Get the arguments of a call, also those that are results of others. Raises BadCall."""
        assert call.callee is not None
        if call.attempt.job.entrypoint.results:
            call.callee = self._fill_in(call.callee, call.attempt)
        self._put_arguments(call, call.callee)

    def _enter(self, call: FunctionCall) -> None:
        """Have what is done from here on be done by the function: what it writes is its own."""
        current.set(call.context)
        keep_output.set(partial(self._write, call.attempt))
        call.has_begun = True

    def _fill_in(self, callee: Callee, attempt: Attempt) -> Callee:
        """Put the results of other jobs among the arguments. Raises BadCall."""
        from holdfast.worker.running.dependency_results import fetch_results, fill_in

        connection = self._connect()
        fetching = fetch_results(connection.transport, attempt.job.entrypoint, lease_of(attempt))
        found = connection.loop_thread.run(fetching)
        return fill_in(callee, attempt.job.entrypoint, found)

    def _put_arguments(self, call: FunctionCall, callee: Callee) -> None:
        """Put the arguments of a call together, which may unpickle them. Raises BadCall."""
        attempt = call.attempt
        call.context = AttemptContext(attempt, self._server, callee.codec, connection=self._connect)
        call.args, call.kwargs = arguments_of(
            callee,
            attempt.input,
            fan_out=attempt.job.fan_out,
            undoes=attempt.job.compensates_job_id is not None,
            context=call.context,
        )

    def _queue(self, calls: Sequence[FunctionCall]) -> None:
        """Give calls to the user loop, all of them at once."""
        coroutines = self._open_user_loop()
        now = boot_clock()
        self._waiting.update((call, now) for call in calls)
        coroutines.loop.call_soon_threadsafe(self._begin_coroutines, calls)

    def _open_user_loop(self) -> UserLoop:
        if self._coroutines is None:
            self._coroutines = UserLoop()
            self._look_for_blocked()
        return self._coroutines

    def _revoke(self, call: FunctionCall) -> None:
        """End a call that the user loop has not begun, if that is where it is."""
        if self._waiting.pop(call, None) is not None:
            self._end(call, call.describe_error(TaskStopped()))

    def _begin_coroutines(self, calls: Sequence[FunctionCall]) -> None:
        loop = asyncio.get_running_loop()
        begun = [call for call in calls if self._waiting.pop(call, None) is not None]
        for call in begun:
            call.task = loop.create_task(self._run_coroutine(call), context=call.variables)
            if call.is_interrupted:
                call.task.cancel()
        # Behind the first steps of all of them: most functions need no other.
        loop.call_soon(self._end_coroutines, begun)

    async def _run_coroutine(self, call: FunctionCall) -> Outcome:
        callee = call.callee
        assert callee is not None
        if not call.begin():
            return HANDED_BACK
        try:
            if call.context is None:
                self._put_arguments(call, callee)
        except BadCall as problem:
            return problem.outcome
        self._enter(call)
        noted = self._code.note_begin(*call.attempt.key)
        try:
            return call.describe_value(await callee.function(*call.args, **call.kwargs))
        except BaseException as error:  # noqa: BLE001 - whatever user code raises is its outcome
            return call.describe_error(error)
        finally:
            self._code.note_end(noted)

    def _end_coroutines(self, calls: Sequence[FunctionCall]) -> None:
        """End those of a batch that needed one step; the others end by themselves."""
        for call in calls:
            assert call.task is not None
            if call.task.done():
                self._end_coroutine(call, call.task)
            else:
                call.task.add_done_callback(partial(self._end_coroutine, call))

    def _end_coroutine(self, call: FunctionCall, task: asyncio.Task[Outcome]) -> None:
        if task.cancelled():  # before its first step
            self._end(call, call.describe_error(asyncio.CancelledError()))
        else:
            error = task.exception()
            self._end(call, task.result() if error is None else error)

    def _end(self, call: FunctionCall, answer: Answer | BaseException) -> None:
        """Have the worker's loop hear of the end of a call, with others; any thread may."""
        self._ended.append((call, answer))
        if not self._is_collecting:
            self._is_collecting = True
            self._loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        self._is_collecting = False  # first: what ends from here on asks for another turn
        while self._ended:
            call, answer = self._ended.popleft()
            if isinstance(answer, (Outcome, BaseException)):
                self._on_end(call.attempt, answer)
            elif call.is_interrupted:
                self._on_end(call.attempt, call.describe_error(TaskStopped()))
            elif answer == "process":
                self._on_process(call)
            elif answer == "batch":
                self._batches.add(call)
            else:
                self._queue([call])

    def _look_for_blocked(self) -> None:
        """Hand back what has waited too long for the user loop, and be blocked until it goes on."""
        assert self._coroutines is not None
        self._looking = self._loop.call_later(LOOK_EVERY_SECONDS, self._look_for_blocked)
        waiting = list(self._waiting.items())
        if not waiting or boot_clock() - waiting[0][1] < BLOCKED_SECONDS_MAX:
            return
        if not self.is_blocked:
            self.is_blocked = True
            where = self._coroutines.describe_position()
            log.warning("a coroutine blocks all others, nothing is claimed meanwhile:\n%s", where)
            self._coroutines.loop.call_soon_threadsafe(
                self._loop.call_soon_threadsafe, self._unblock
            )
        for call, _ in waiting:
            self.interrupt(call)

    def _unblock(self) -> None:
        self.is_blocked = False
        self._on_unblocked()

    def _connect(self) -> Connection:
        """Open what user code calls the server by: not the keeper's, which must not wait for it."""
        with self._lock:
            if self._connection is None:
                self._connection = connect(self._server, self._functions.codec)
            return self._connection
