"""What every operation is given: the database, the limits, and the specs at hand."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.errors import Unavailable
from holdfast.ledger.lending import Lending, NobodyWaits
from holdfast.ledger.news import News, after_commit
from holdfast.ledger.positions import Positions
from holdfast.ledger.quotas import Quotas
from holdfast.model.submitting.spec import Limits
from holdfast.store.database import Database, JobChanged
from holdfast.store.specs import SpecCache
from holdfast.store.tables.submitting.policies import NO_CHANGES

Answer = TypeVar("Answer")
RUNS_MAX = 20


class Ledger:
    """One database and how submissions to it are limited."""

    def __init__(self, database: Database, limits: Limits | None = None) -> None:
        self.database = database
        self.limits = limits or Limits()
        self.specs = SpecCache()
        self.policies = NO_CHANGES
        self.quotas = Quotas(database)
        self.partitions_end = 0
        # Queues in whose line a claim has met tasks that name resources.
        self.sized_queues: set[str] = set()
        self.positions = Positions()
        self.lending: Lending = NobodyWaits()
        self.on_commit: Callable[[News], None] = _ignore

    async def write(
        self, change: Callable[..., Awaitable[Answer]], *arguments: Any, **named: Any
    ) -> Answer:
        """Run a change in one transaction; again, if a job ended under it while it was deciding."""
        for _ in range(RUNS_MAX):
            try:
                async with self.database.transaction() as tx:
                    tx.news = News()
                    answer = await change(self, tx, *arguments, **named)
            except JobChanged:
                continue
            self.tell(tx.news)
            return answer
        raise Unavailable("jobs kept ending while their tasks were being moved; try again")

    def tell(self, news: News) -> None:
        """Pass on what has been committed."""
        with after_commit():
            for job in news.stored_jobs:
                if job.spec is not None:
                    self.specs.remember(job.job_id, job.spec)
            self.on_commit(news)


def _ignore(_: News) -> None:
    """Tell nobody: a ledger without a server around it."""
