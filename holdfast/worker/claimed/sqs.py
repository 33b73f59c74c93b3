"""Wake-ups by Amazon SQS, the worker's end: messages are received, held, then deleted.

Each queue has one long poll in flight at most, in a thread. What a poll brings goes into stock,
from where receive() takes it, one message of each queue in turn. What nobody takes soon is made
visible again, so that neither a busy worker nor a cancelled receive() keeps a message to itself.

    poll ── stock ──┬── taken: extended at half of its time ──┬── deleted
                    └── not taken within a second ────────────┴── released: visible at once
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import Invalid, Stopping
from holdfast.model.work.ids import TaskId
from holdfast.wire.sqs import (
    ANSWER_SECONDS,
    BATCH_MAX,
    PREFIX,
    SqsConnection,
    SqsUnavailable,
    decode_hint,
    queue_name,
)

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import (
        ChangeMessageVisibilityBatchResultTypeDef,
        ReceiveMessageResultTypeDef,
    )

Answer = TypeVar("Answer")

log = logging.getLogger("holdfast.sqs")
VISIBILITY_SECONDS_MAX = 12 * 60 * 60
WAIT_SECONDS_MAX = 20
THREADS_FOR_CHANGES = 4
STOCK_SECONDS = 1.0
BODY_LENGTH_LOGGED_MAX = 200


@dataclass(frozen=True)
class Message:
    """A hint that was received; the receipt handle stands for this one delivery of it."""

    queue: str
    task_id: TaskId
    receipt_handle: str


@dataclass
class _Holding:
    """A message that is invisible to others because of us."""

    message: Message
    received_at: float
    due_at: float
    is_taken: bool = False


class SqsInbox:
    """Receives wake-ups from several queues, and keeps those invisible that are in work."""

    def __init__(
        self,
        queues: Sequence[str],
        *,
        prefix: str = PREFIX,
        endpoint_url: str | None = None,
        region: str | None = None,
        visibility_seconds: int = 120,
        wait_seconds: int = 10,
    ) -> None:
        _check_number("visibility_seconds", visibility_seconds, VISIBILITY_SECONDS_MAX)
        _check_number("wait_seconds", wait_seconds, WAIT_SECONDS_MAX)
        if not queues:
            raise Invalid("queues", "names no queue; name one at least")
        for queue in queues:
            queue_name(queue, prefix)
        self._turn = deque(dict.fromkeys(queues))
        self._visibility_seconds = visibility_seconds
        self._wait_seconds = wait_seconds
        self._stock_seconds = min(STOCK_SECONDS, visibility_seconds / 4)
        threads = len(self._turn) + THREADS_FOR_CHANGES
        self._connection = SqsConnection(
            prefix=prefix,
            endpoint_url=endpoint_url,
            region=region,
            answer_seconds=wait_seconds + ANSWER_SECONDS,
            connections_max=threads,
        )
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sqs-inbox")
        self._polls: dict[str, asyncio.Task[SqsUnavailable | None]] = {}
        self._stock: dict[str, deque[Message]] = {queue: deque() for queue in self._turn}
        self._holdings: dict[str, _Holding] = {}
        self._problems: dict[str, str] = {}
        # A release must not be overtaken by an extension that is on its way already.
        self._changing = asyncio.Lock()
        self._closing = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def receive(self, messages_max: int) -> list[Message]:
        """Wait for messages, for the time of one long poll; there may be none.

        Raises SqsUnavailable if a queue could not be asked and the others had nothing.
        """
        if messages_max < 1:
            raise Invalid("messages_max", f"is {messages_max}; ask for one message at least")
        if self._closing.is_set():
            raise Stopping("the inbox is closed")
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name="sqs-keeper")
        self._start_polls(messages_max)
        pending = set(self._polls.values())
        problem: SqsUnavailable | None = None
        while not (taken := self._take(messages_max)) and pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            problem = next((found for poll in done if (found := poll.result())), problem)
        if not taken and problem:
            raise problem
        return taken

    async def delete(self, message: Message) -> None:
        """Delete a message for good. If SQS fails it comes back, and its claim will be refused."""
        self._holdings.pop(message.receipt_handle, None)
        await self._change(message.queue, _deletion(message.receipt_handle))

    async def release(self, message: Message) -> None:
        """Make a message visible to others at once, or after its time if SQS fails."""
        self._holdings.pop(message.receipt_handle, None)
        async with self._changing:
            await self._set_visibility([message], 0)

    async def close(self) -> None:
        """Release what is held and end polls and threads; takes as long as a poll may take."""
        self._closing.set()
        if self._polls:
            await asyncio.wait(self._polls.values())
        if self._keeper is not None:
            await self._keeper
        held = [holding.message for holding in self._holdings.values()]
        self._holdings.clear()
        await self._set_visibility(held, 0)
        self._threads.shutdown()
        self._connection.close()

    def _start_polls(self, messages_max: int) -> None:
        """Ask each queue that is not being asked and has nothing in stock, for a fair share."""
        share = max(1, min(BATCH_MAX, -(-messages_max // len(self._turn))))
        for queue in self._turn:
            if queue not in self._polls and not self._stock[queue]:
                poll = asyncio.create_task(self._poll(queue, share), name=f"sqs-poll-{queue}")
                self._polls[queue] = poll

    async def _poll(self, queue: str, count: int) -> SqsUnavailable | None:
        try:
            messages = await self._in_thread(lambda: self._fetch(queue, count))
        except SqsUnavailable as error:
            self._note_problem(queue, error)
            return error
        finally:
            del self._polls[queue]
        self._problems.pop(queue, None)
        now = asyncio.get_running_loop().time()
        for message in messages:
            holding = _Holding(message, received_at=now, due_at=now + self._stock_seconds)
            self._holdings[message.receipt_handle] = holding
        self._stock[queue].extend(messages)
        return None

    def _fetch(self, queue: str, count: int) -> list[Message]:
        """Wait for messages of one queue, in a thread; delete those that nobody can read."""

        def receive(client: "SQSClient", url: str) -> "ReceiveMessageResultTypeDef":
            return client.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=count,
                WaitTimeSeconds=self._wait_seconds,
                VisibilityTimeout=self._visibility_seconds,
            )

        messages = []
        for received in self._connection.call(queue, receive).get("Messages", []):
            body, handle = received.get("Body", ""), received["ReceiptHandle"]
            try:
                messages.append(Message(queue, decode_hint(body), handle))
            except Invalid as error:
                shown = body[:BODY_LENGTH_LOGGED_MAX]
                log.warning("queue %s: message %r is no hint, deleted: %s", queue, shown, error)
                self._delete_unread(queue, handle)
        return messages

    def _delete_unread(self, queue: str, handle: str) -> None:
        try:
            self._connection.call(queue, _deletion(handle))
        except SqsUnavailable as error:
            self._note_problem(queue, error)

    def _take(self, messages_max: int) -> list[Message]:
        """Take messages from stock, one of each queue in turn."""
        taken: list[Message] = []
        empty = 0
        while len(taken) < messages_max and empty < len(self._turn):
            queue = self._turn[0]
            self._turn.rotate(-1)
            if not self._stock[queue]:
                empty += 1
                continue
            empty = 0
            message = self._stock[queue].popleft()
            holding = self._holdings[message.receipt_handle]
            holding.is_taken = True
            holding.due_at = holding.received_at + self._visibility_seconds / 2
            taken.append(message)
        return taken

    async def _keep(self) -> None:
        """Extend what is in work and release what nobody took, until the inbox is closed."""
        loop = asyncio.get_running_loop()
        while not self._closing.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._stock_seconds / 2):
                    await self._closing.wait()
            now = loop.time()
            due = [holding for holding in self._holdings.values() if holding.due_at <= now]
            for holding in due:
                if not holding.is_taken:
                    self._stock[holding.message.queue].remove(holding.message)
                    del self._holdings[holding.message.receipt_handle]
            async with self._changing:
                await self._set_visibility([h.message for h in due if not h.is_taken], 0)
                await self._extend([h.message for h in due if h.is_taken])

    async def _extend(self, messages: list[Message]) -> None:
        # Some may have been deleted or released while this round waited for its turn.
        held = [message for message in messages if message.receipt_handle in self._holdings]
        asked_at = asyncio.get_running_loop().time()
        for handle in await self._set_visibility(held, self._visibility_seconds):
            if holding := self._holdings.get(handle):
                holding.due_at = asked_at + self._visibility_seconds / 2

    async def _set_visibility(self, messages: Sequence[Message], seconds: int) -> list[str]:
        """Set from now on how long messages stay invisible; list the handles it was done for."""
        of_queue: dict[str, list[Message]] = defaultdict(list)
        for message in messages:
            of_queue[message.queue].append(message)
        batches = [
            (queue, held[start : start + BATCH_MAX])
            for queue, held in of_queue.items()
            for start in range(0, len(held), BATCH_MAX)
        ]
        changed = [self._set_visibility_of_batch(*batch, seconds) for batch in batches]
        return [handle for handles in await asyncio.gather(*changed) for handle in handles]

    async def _set_visibility_of_batch(
        self, queue: str, messages: Sequence[Message], seconds: int
    ) -> list[str]:
        def change(client: "SQSClient", url: str) -> "ChangeMessageVisibilityBatchResultTypeDef":
            return client.change_message_visibility_batch(
                QueueUrl=url,
                Entries=[
                    {
                        "Id": str(number),
                        "ReceiptHandle": message.receipt_handle,
                        "VisibilityTimeout": seconds,
                    }
                    for number, message in enumerate(messages)
                ],
            )

        answer = await self._change(queue, change)
        if answer is None:
            return []
        for failed in answer.get("Failed", []):
            if failed.get("SenderFault"):
                # Deleted, expired or held for twelve hours: it cannot be extended ever again.
                self._holdings.pop(messages[int(failed["Id"])].receipt_handle, None)
        done = answer.get("Successful", [])
        return [messages[int(entry["Id"])].receipt_handle for entry in done]

    async def _change(
        self, queue: str, request: "Callable[[SQSClient, str], Answer]"
    ) -> Answer | None:
        """Make a request whose failure changes nothing that matters: the message comes back."""
        try:
            return await self._in_thread(lambda: self._connection.call(queue, request))
        except SqsUnavailable as error:
            self._note_problem(queue, error)
            return None

    async def _in_thread(self, work: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _note_problem(self, queue: str, error: SqsUnavailable) -> None:
        """Log a problem once, until it changes or the queue can be polled again."""
        if self._problems.get(queue) != str(error):
            self._problems[queue] = str(error)
            log.warning("queue %s: %s", queue, error)


def _deletion(handle: str) -> "Callable[[SQSClient, str], None]":
    def delete(client: "SQSClient", url: str) -> None:
        client.delete_message(QueueUrl=url, ReceiptHandle=handle)

    return delete


def _check_number(field: str, number: int, number_max: int) -> None:
    if type(number) is not int or not 1 <= number <= number_max:
        raise Invalid(field, f"{number!r} is not a whole number from 1 to {number_max}")
