"""The enqueue reconciler's second half: wake-ups for tasks that have waited without one.

A message may be lost, or a task may have become ready in a transaction that told nobody. What
stands at the head of its queue for a while is published again, once a minute at most: a duplicate
costs a refused claim, a missing one would cost the task its time.
"""

import time
from datetime import timedelta

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.services.waking.wake_ups import TASKS_PER_HINT_MAX, WakeUpTransport
from holdfast.store.tables.work.ready import list_waited

WAITED = timedelta(seconds=5)
AGAIN_SECONDS = 60.0


class Republisher:
    """Remembers what it has published lately; a restart forgets it, which is harmless."""

    def __init__(
        self, ledger: Ledger, transport: WakeUpTransport, waited: timedelta = WAITED
    ) -> None:
        self._ledger = ledger
        self._transport = transport
        self._waited = waited
        self._published: dict[TaskId, float] = {}

    async def run(self) -> int:
        """Publish what has waited; returns how many tasks that were."""
        async with self._ledger.database.transaction() as tx:
            waited = await list_waited(tx, waited=self._waited, tasks_max=TASKS_PER_HINT_MAX)
        now = time.monotonic()
        found: dict[str, list[TaskId]] = {}
        recent = {t: at for t, at in self._published.items() if at > now - AGAIN_SECONDS}
        for task_id, queue in waited:
            if task_id not in recent:
                found.setdefault(queue, []).append(task_id)
        for queue, task_ids in found.items():
            await self._transport.publish(queue, task_ids)
            recent.update(dict.fromkeys(task_ids, now))
        self._published = recent
        return 0
