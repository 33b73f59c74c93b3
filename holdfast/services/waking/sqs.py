"""Wake-ups by Amazon SQS, the server's end: one message for each task that can be claimed.

It runs after the commit and beside it: SQS may be slow, broken or away, and the server does not
notice. What was not sent is said; the reconciler will publish it again if nobody has come.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, Stopping
from holdfast.model.work.ids import TaskId
from holdfast.wire.sqs import BATCH_MAX, PREFIX, SqsConnection, SqsUnavailable, encode_hint

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchResultTypeDef

THREADS_MAX = 4
SENDING_MAX = 1000


class Unpublished(SqsUnavailable):
    """Some wake-ups were not sent; the tasks are in the ledger all the same."""

    def __init__(self, queue: str, task_ids: Sequence[TaskId], problem: str) -> None:
        super().__init__(f"{len(task_ids)} wake-ups for queue {queue} were not sent: {problem}")
        self.queue = queue
        self.task_ids = tuple(task_ids)


class SqsPublisher:
    """Sends hints to SQS from threads of its own."""

    # Workers that receive from SQS may wait nowhere else.
    only_leftovers = False

    def __init__(
        self,
        *,
        prefix: str = PREFIX,
        endpoint_url: str | None = None,
        region: str | None = None,
    ) -> None:
        self._connection = SqsConnection(prefix=prefix, endpoint_url=endpoint_url, region=region)
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="sqs-publisher")
        self._sending: set[asyncio.Future[None]] = set()
        self._is_closing = False

    async def publish(self, queue: str, task_ids: Sequence[TaskId]) -> None:
        """Send a hint for each task. Raises Unpublished, which names those that were not sent."""
        if self._is_closing:
            raise Stopping("shutting down; no more wake-ups are sent")
        if len(self._sending) >= SENDING_MAX:
            raise Unpublished(queue, task_ids, f"{SENDING_MAX} calls are waiting for SQS already")
        loop = asyncio.get_running_loop()
        sending = loop.run_in_executor(self._threads, self._send_all, queue, tuple(task_ids))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)
        # A caller that goes away does not take the count of what is under way with it.
        await asyncio.shield(sending)

    async def close(self) -> None:
        """Wait for what is being sent, which takes a bounded time, and end the threads."""
        self._is_closing = True
        if self._sending:
            await asyncio.wait(self._sending)
        self._threads.shutdown()
        self._connection.close()

    def _send_all(self, queue: str, task_ids: tuple[TaskId, ...]) -> None:
        failed: list[TaskId] = []
        problem = ""
        for start in range(0, len(task_ids), BATCH_MAX):
            try:
                refused, reason = self._send(queue, task_ids[start : start + BATCH_MAX])
            except HoldfastError as error:
                # Neither an absent SQS nor a queue that has no name there gets better by itself.
                failed.extend(task_ids[start:])
                problem = str(error)
                break
            if refused:
                failed.extend(refused)
                problem = reason
        if failed:
            raise Unpublished(queue, failed, problem)

    def _send(self, queue: str, task_ids: Sequence[TaskId]) -> tuple[list[TaskId], str]:
        """Send one batch; say which tasks SQS did not take, and why."""

        def send(client: "SQSClient", url: str) -> "SendMessageBatchResultTypeDef":
            return client.send_message_batch(
                QueueUrl=url,
                Entries=[
                    {"Id": str(number), "MessageBody": encode_hint(task_id)}
                    for number, task_id in enumerate(task_ids)
                ],
            )

        answer = self._connection.call(queue, send)
        sent = {entry["Id"] for entry in answer.get("Successful", [])}
        refused = [task for number, task in enumerate(task_ids) if str(number) not in sent]
        reasons = (entry.get("Message") for entry in answer.get("Failed", []))
        return refused, next(filter(None, reasons), "SQS gave no reason")
