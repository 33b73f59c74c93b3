"""What may stand around Postgres: a pooler, a standby, an SQS; each can be lost, and comes back."""

import asyncio
import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg

from holdfast.embedded import EmbeddedPostgres
from holdfast.wire.sqs import queue_name
from tests.pgbouncer import PgBouncer, running_pgbouncer
from tests.sqs import Sqs, connected, find_free_port, sqs_process
from tests.standby import copy, kill_whole, promote, wait_for_it

POOL_CONNECTIONS = 40
MESSAGES_MAX = 10
COPIES = 3


class Pooler:
    """A PgBouncer in transaction mode in front of a Postgres."""

    def __init__(self, postgres: EmbeddedPostgres, stack: ExitStack) -> None:
        self._postgres = postgres
        self._stack = stack
        self._running = self._start()

    @property
    def port(self) -> int:
        """Where it listens; another port each time that it was started."""
        return self._running.port

    def restart(self) -> None:
        """Kill it, with all connections through it, and start another."""
        with suppress(ProcessLookupError):
            os.kill(self._running.pid, signal.SIGKILL)
        self._running = self._start()

    def _start(self) -> PgBouncer:
        running = running_pgbouncer(self._postgres.url(), connections=POOL_CONNECTIONS)
        return self._stack.enter_context(running)


class Pair:
    """A Postgres and its synchronous standby, which takes its place when it is lost."""

    def __init__(self, primary: EmbeddedPostgres, folder: Path, stack: ExitStack) -> None:
        self.primary = primary
        self._folder = folder
        self._stack = stack
        self._count = 0
        self._standby = self._copy()

    def fail_over(self) -> None:
        """Kill the primary and make the standby the next one, which waits for no standby yet."""
        kill_whole(self.primary)
        asyncio.run(promote(self._standby))
        self.primary = self._standby
        with psycopg.connect(self.primary.url(), autocommit=True) as connection:
            connection.execute("alter system set synchronous_standby_names = ''")
            connection.execute("select pg_reload_conf()")

    def add_standby(self) -> None:
        """Give the primary a standby again."""
        self._standby = self._copy()

    def _copy(self) -> EmbeddedPostgres:
        self._count += 1
        folder = self._folder / f"standby-{self._count}"
        standby = self._stack.enter_context(copy(self.primary, folder))
        asyncio.run(wait_for_it(self.primary))
        return standby


class Messages:
    """An SQS that can die, with all that it holds, and that can be made to lie."""

    def __init__(self, queue: str, prefix: str, stack: ExitStack) -> None:
        self.port = find_free_port()
        self._queue = queue
        self._prefix = prefix
        self._stack = stack
        self._process = stack.enter_context(sqs_process(self.port))
        found = stack.enter_context(connected(f"http://127.0.0.1:{self.port}"))
        self.sqs = Sqs(found.endpoint_url, found.client, prefix)

    def restart(self) -> None:
        """Kill it; the next one knows nothing of it."""
        self._process.kill()
        self._process.wait()
        self._process = self._stack.enter_context(sqs_process(self.port))

    def repeat(self) -> bool:
        """Send messages that are there some more times, in another order; tells of any."""
        url = self._find()
        if url is None:
            return False
        client = self.sqs.client
        got = client.receive_message(
            QueueUrl=url, MaxNumberOfMessages=MESSAGES_MAX, VisibilityTimeout=0
        )
        messages = got.get("Messages", [])
        for message in reversed(messages):
            for _ in range(COPIES):
                client.send_message(QueueUrl=url, MessageBody=message["Body"])
        return bool(messages)

    def lose(self) -> bool:
        """Forget all messages; tells whether there was a queue that could."""
        url = self._find()
        if url is None:
            return False
        try:
            self.sqs.client.purge_queue(QueueUrl=url)
        except self.sqs.client.exceptions.PurgeQueueInProgress:  # once a minute, no oftener
            return False
        return True

    def _find(self) -> str | None:
        """Find the queue; None while no server has made it."""
        wanted = queue_name(self._queue, self._prefix)
        found = self.sqs.client.list_queues(QueueNamePrefix=wanted).get("QueueUrls", [])
        return found[0] if found else None
