"""Gather concurrent calls into one transaction; nobody waits for a timer.

While writes are in flight, calls that arrive are gathered; the next write takes them all. Two
writes may be in flight at once, so that the database works on one while the other is being put
together. Each call is answered after its commit, never before. Operations fold duplicates
themselves, because only they know what a duplicate is.

A write that fails is tried again in halves, so it must be one transaction, or harmless if repeated:
`weigh` and `weight_max` keep a batch to what the operation writes at once. What follows a commit is
no part of the write: it must not raise (`holdfast.ledger.news.after_commit`). A write that is made
of several transactions answers the items of one that failed with the error: they alone are tried
again.

    call ─┐            ┌─ write (one transaction) ─┐
    call ─┼─ waiting ──┤                           ├─ answers
    call ─┘            └─ write ...                ┘
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from holdfast.errors import Overloaded, Refused, Stopping, Unavailable
from holdfast.store.database import LockTimeout

Item = TypeVar("Item")
Answer = TypeVar("Answer")

LOCK_TIMEOUTS_MAX = 20
WRITERS_MAX = 2
HALVED_MIN = 200


class _Call(Generic[Item, Answer]):
    """One caller's items, and the answers that have come so far."""

    __slots__ = ("answers", "done", "items", "missing")

    def __init__(self, items: Sequence[Item], done: asyncio.Future[None]) -> None:
        self.items = items
        self.answers: list[Answer | Exception | None] = [None] * len(items)
        self.missing = len(items)
        self.done = done

    def answer(self, position: int, answer: Answer | Exception) -> None:
        self.answers[position] = answer
        self.missing -= 1
        if not self.missing and not self.done.done():
            self.done.set_result(None)


class _Entry(Generic[Item, Answer]):
    """One item on its way to the database."""

    __slots__ = ("call", "lock_timeouts", "position")

    def __init__(self, call: _Call[Item, Answer], position: int) -> None:
        self.call = call
        self.position = position
        self.lock_timeouts = 0

    @property
    def item(self) -> Item:
        return self.call.items[self.position]

    def answer(self, answer: Answer | Exception) -> None:
        self.call.answer(self.position, answer)


class Batcher(Generic[Item, Answer]):
    """The gathering point of one operation; batchers that share `slots` share the connections."""

    def __init__(
        self,
        write: Callable[[list[Item]], Awaitable[Sequence[Answer | Exception]]],
        *,
        slots: asyncio.Semaphore,
        batch_max: int = 1000,
        waiting_max: int = 100_000,
        weigh: Callable[[Item], int] = lambda _: 0,
        weight_max: int = 0,
    ) -> None:
        self._write = write
        self._weigh = weigh
        self._weight_max = weight_max
        self._slots = slots
        self._batch_max = batch_max
        self._waiting_max = waiting_max
        self._waiting: deque[_Entry[Item, Answer]] = deque()
        self._writers: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    async def call(self, items: Sequence[Item]) -> list[Answer | Exception]:
        """Write items together with whatever else waits; answers come after the commit.

        An item that cannot be written is answered with its error; the others are not touched by it.
        """
        if self._is_stopping:
            raise Stopping("shutting down; call another server")
        if len(self._waiting) + len(items) > self._waiting_max:
            raise Overloaded(f"{len(self._waiting)} requests are waiting already; slow down")
        if not items:
            return []
        call: _Call[Item, Answer] = _Call(items, asyncio.get_running_loop().create_future())
        for position in range(len(items)):
            self._waiting.append(_Entry(call, position))
        self._wake_writer()
        await call.done
        return [answer for answer in call.answers if answer is not None]

    async def stop(self) -> None:
        """Take no more calls, write what waits, and return when all of it is answered."""
        self._is_stopping = True
        while self._writers:
            await asyncio.wait(self._writers)

    def _wake_writer(self) -> None:
        if self._waiting and len(self._writers) < WRITERS_MAX:
            writer = asyncio.create_task(self._write_all())
            self._writers.add(writer)
            writer.add_done_callback(self._end_writer)

    def _end_writer(self, writer: asyncio.Task[None]) -> None:
        """Forget a writer; who called between its last look and this moment found it still here."""
        self._writers.discard(writer)
        self._wake_writer()

    async def _write_all(self) -> None:
        """Write until nothing waits."""
        while self._waiting:
            async with self._slots:
                batch = self._take()
                self._wake_writer()
                if batch:
                    await self._write_batch(batch)

    def _take(self) -> list[_Entry[Item, Answer]]:
        """Take what waits; half of it, if a slot is free for a second write beside this one."""
        share = len(self._waiting)
        if not self._slots.locked() and share > HALVED_MIN:
            share = -(-share // 2)
        batch: list[_Entry[Item, Answer]] = []
        weight = 0
        while self._waiting and len(batch) < min(share, self._batch_max):
            entry = self._waiting[0]
            weight += self._weigh(entry.item)
            if batch and weight > self._weight_max:
                break
            self._waiting.popleft()
            if not entry.call.done.done():  # else its caller has gone away meanwhile
                batch.append(entry)
        return batch

    async def _write_batch(self, batch: list[_Entry[Item, Answer]]) -> None:
        """Write a batch; if it cannot be written whole, halve it until the culprit is alone."""
        try:
            answers = await self._write([entry.item for entry in batch])
        except Exception as error:  # noqa: BLE001 - every caller gets the error that is its own
            await self._retreat(batch, error)
            return
        if len(answers) != len(batch):  # it is committed, so it is not tried again
            problem = AssertionError(f"{len(batch)} items were written, {len(answers)} answered")
            for entry in batch:
                entry.answer(problem)
            return
        unwritten: dict[Exception, list[_Entry[Item, Answer]]] = {}
        for entry, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception) and not isinstance(answer, Refused):
                unwritten.setdefault(answer, []).append(entry)
            else:
                entry.answer(answer)
        for reason, entries in unwritten.items():
            await self._retreat(entries, reason)

    async def _retreat(self, batch: list[_Entry[Item, Answer]], error: Exception) -> None:
        is_lock_timeout = isinstance(error, LockTimeout)
        if isinstance(error, Unavailable) and not is_lock_timeout:
            for entry in batch:
                entry.answer(error)
        elif len(batch) > 1:
            middle = len(batch) // 2
            await self._write_batch(batch[:middle])
            await self._write_batch(batch[middle:])
        elif is_lock_timeout and batch[0].lock_timeouts < LOCK_TIMEOUTS_MAX:
            # Somebody holds its row: the others go first.
            batch[0].lock_timeouts += 1
            self._waiting.append(batch[0])
        else:
            batch[0].answer(error)
