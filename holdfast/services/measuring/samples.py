"""What a server counts for the charts: in memory as it happens, and written down every few seconds.

What was counted since the last write is lost if the process is killed; nothing else depends on it.
"""

import asyncio
import logging
from bisect import bisect_left
from collections import Counter
from uuid import uuid4

from holdfast.errors import Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.work.states import ENDED_STATES, TaskState
from holdfast.rules.quantiles import BOUNDS_SECONDS
from holdfast.services.measuring.metrics import Metrics
from holdfast.store.reads.work.attempts import count_leases
from holdfast.store.reads.work.tasks import count_pending
from holdfast.store.tables.upkeep.samples import Counts, Tally, add_sample

log = logging.getLogger("holdfast.samples")
# Twice per shortest step, so that none goes by without a row.
EVERY_SECONDS = 5.0
LAST_SECONDS_MAX = 2.0
_SUBMITTED = Counts._fields.index("submitted")
_RETRIED = Counts._fields.index("retried")
_POSITIONS = {state: Counts._fields.index(state.name.lower()) for state in ENDED_STATES}


class Samples:
    """One server's counts since it last wrote them down."""

    def __init__(self, ledger: Ledger, metrics: Metrics) -> None:
        self.server_id = uuid4().hex
        self._ledger = ledger
        self._type_of = metrics.type_of
        self._tally = Tally()

    def count(self, news: News) -> None:
        """Count what a transaction did."""
        tally = self._tally
        tally.counts[_SUBMITTED] += sum(job.submitted for job in news.stored_jobs)
        for (start, end), count in news.moves.items():
            position = _POSITIONS.get(TaskState(end))
            if position is not None:
                tally.counts[position] += count
            elif end == TaskState.PENDING and start in ENDED_STATES:
                tally.counts[_RETRIED] += count
            if end == TaskState.DEAD_LETTERED and start in _POSITIONS:
                # One end, counted once: how the attempt ended is told by its dead letter.
                arrived = sum(moved for (_, to), moved in news.moves.items() if to == start)
                tally.counts[_POSITIONS[TaskState(start)]] -= min(count, arrived)
        for state, count in news.pauses.items():  # neither an end nor a retry
            tally.counts[_POSITIONS[TaskState(state)]] -= count
            tally.counts[_RETRIED] -= count
        for (worker_id, state), count in news.ends.items():
            tally.ends[worker_id, TaskState(state).name.lower()] += count
        # Of thousands of tasks, most are of a few jobs.
        of_job = {
            job_id: tally.of_type(self._type_of(job_id))
            for job_id in {job_id for times in (news.waits, news.runs) for job_id, _ in times}
        }
        for job_id, seconds in news.waits:
            position = bisect_left(BOUNDS_SECONDS, seconds)
            tally.waits[position] += 1
            of_job[job_id].waits[position] += 1
        for job_id, seconds in news.runs:
            of_job[job_id].runs[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        # Those that failed before their code ran are in no list of runs.
        ended = Counter(job_id for job_id, _ in news.runs)
        ended.update(job_id for job_id, has_run in news.failures if not has_run)
        failed = Counter(job_id for job_id, _ in news.failures)
        for job_id, attempts in ended.items():
            of_type = tally.of_type(self._type_of(job_id))
            of_type.attempts += attempts
            of_type.failures += failed[job_id]

    async def write(self) -> int:
        """Write down what was counted; what cannot be written is kept for the next time."""
        tally, self._tally = self._tally, Tally()
        is_written = False
        try:
            async with self._ledger.database.transaction() as tx:
                depth, _, _ = await count_pending(tx)
                running, _ = await count_leases(tx)
                await add_sample(tx, self.server_id, tally, depth=depth, running=running)
            is_written = True
        finally:
            if not is_written:
                self._tally.add(tally)
        return 0

    async def close(self) -> None:
        """Write down the last of it, unless Postgres is away."""
        try:
            async with asyncio.timeout(LAST_SECONDS_MAX):
                await self.write()
        except (Unavailable, TimeoutError) as error:
            log.warning("the last seconds will be missing in the charts: %s", error)
