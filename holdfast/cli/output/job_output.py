"""The output of a whole job as it comes: every task, every attempt, until the job has ended.

events ── an attempt begins ──► a reader of its own ──► chunks, in the order they arrive
"""

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing

import msgspec

from holdfast.client.both import BoundStream
from holdfast.client.client import FOLLOW_MS, Client
from holdfast.client.pages import read_pages
from holdfast.wire.requests import LogQuery, TaskListQuery
from holdfast.wire.status import LogChunk, TaskPage

REQUESTS_MAX = 16
READERS_MAX = 1000
# With more readers than requests each waits for a little while, and then it is another's turn.
TURN_MS = 500
PAGE_SIZE = 1000
LAST_WORDS_SECONDS_MAX = 10.0
BEGINNING = "0-0"
NO_ATTEMPT = -1
_BEGINS = ("claimed", "placed")
_ENDS = ("succeeded", "failed", "killed", "worker_failed", "unschedulable", "dead_lettered")


def follow_job(
    client: Client,
    job_id: str,
    *,
    since: Mapping[int, int] | None = None,
    tail: int | None = None,
) -> Generator[LogChunk, None, None]:
    """Read what a job's tasks write until it has ended; `since` names each task's first attempt.

    As long as nothing has begun, a chunk of attempt -1 comes now and then.
    """
    chunks: BoundStream[..., LogChunk] = BoundStream(_follow, client)
    return chunks(job_id, since or {}, lines=tail)


async def _follow(
    client: Client, job_id: str, since: Mapping[int, int], *, lines: int | None
) -> AsyncGenerator[LogChunk, None]:
    tail = _Tail(client, job_id, since, lines=lines)
    watching = asyncio.create_task(tail.watch())
    try:
        while (chunk := await tail.chunks.get()) is not None:
            yield chunk
            tail.chunks.task_done()
        await watching
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


class _Tail:
    """Watches a job, and has a reader for each attempt."""

    def __init__(
        self, client: Client, job_id: str, since: Mapping[int, int], *, lines: int | None
    ) -> None:
        # Of attempts that have begun before, so many lines; of later ones, all that they write.
        self._old_lines = lines
        self._begun_before = dict(since)
        self._client = client
        self._job_id = job_id
        self._seen = {index: attempt - 1 for index, attempt in since.items()}
        self._requests = asyncio.Semaphore(REQUESTS_MAX)
        self._room = asyncio.Semaphore(READERS_MAX)
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._has_begun = asyncio.Event()
        # None: nothing more will come.
        self.chunks: asyncio.Queue[LogChunk | None] = asyncio.Queue()

    async def watch(self) -> None:
        """Begin to read each attempt as it begins, and see the last ones to their end."""
        try:
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(self._announce_waiting())
                events = self._client.follow_events.aio(job_id=self._job_id, after=BEGINNING)
                async with aclosing(events):
                    async for event in events:
                        if event.task_index >= 0 and event.type in _BEGINS:
                            await self._begin(group, event.task_index, event.attempt)
                        elif event.task_index < 0 and event.type in _ENDS:
                            break
                await self._begin_unnoticed(group)
                await self._hear_last_words()
                waiting.cancel()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            self.chunks.put_nowait(None)

    async def _announce_waiting(self) -> None:
        nothing = LogChunk(f"{self._job_id}.0", NO_ATTEMPT, 0, 0, b"", is_complete=False)
        while not self._has_begun.is_set():
            try:
                await asyncio.wait_for(self._has_begun.wait(), FOLLOW_MS / 1000)
            except TimeoutError:
                self.chunks.put_nowait(nothing)

    async def _begin(self, group: asyncio.TaskGroup, index: int, attempt: int) -> None:
        if attempt > self._seen.get(index, NO_ATTEMPT):
            self._seen[index] = attempt
            self._has_begun.set()
            await self._room.acquire()
            reading = self._read(index, attempt, self._readers.get(index))
            self._readers[index] = group.create_task(reading)

    async def _begin_unnoticed(self, group: asyncio.TaskGroup) -> None:
        """Look for attempts that began while the job ended: the log may have them after its end."""
        path, query = f"/api/jobs/{self._job_id}/tasks", TaskListQuery(page_size=PAGE_SIZE)
        async for page in read_pages(self._client.read, path, TaskPage, query=query):
            for task in page.tasks:
                await self._begin(group, task.task_index, task.current_attempt_id)

    async def _hear_last_words(self) -> None:
        """Give attempts that the job's end has ended the time to say so."""
        if self._readers:
            _, late = await asyncio.wait(self._readers.values(), timeout=LAST_WORDS_SECONDS_MAX)
            for reader in late:
                reader.cancel()

    async def _read(self, index: int, attempt: int, before: asyncio.Task[None] | None) -> None:
        """Read one attempt to its end; that of the attempt before it comes first."""
        path = f"/api/tasks/{self._job_id}.{index}/logs"
        is_old = attempt == self._begun_before.get(index)
        query = LogQuery(attempt, follow=True, tail=self._old_lines if is_old else None)
        try:
            if before is not None:
                await asyncio.wait([before])
            is_complete = False
            while not is_complete:
                async with self._requests:
                    wait_ms = FOLLOW_MS if len(self._readers) <= REQUESTS_MAX else TURN_MS
                    query = msgspec.structs.replace(query, wait_ms=wait_ms)
                    chunk = await self._client.read(path, LogChunk, query=query)
                    if chunk.content or chunk.is_complete:
                        self.chunks.put_nowait(chunk)
                        await self.chunks.join()  # no further than the one who reads this
                query = msgspec.structs.replace(query, offset=chunk.next_offset, tail=None)
                is_complete = chunk.is_complete
        finally:
            self._room.release()
            if self._readers.get(index) is asyncio.current_task():
                del self._readers[index]
