"""How much is kept for each owner: specs, inputs, results, logs and checkpoints.

Postgres is asked range by range of jobs; one in which nothing is live any more is asked once.
"""

from collections import Counter

from holdfast.store.database import Database
from holdfast.store.reads.limits.owners import count_bytes, list_ranges


class StoredBytes:
    """What was found by the last count, and what has come since."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._by_range: dict[int, dict[str, int]] = {}
        self._settled: set[int] = set()
        self._counted: Counter[str] = Counter()
        self._since: Counter[str] = Counter()

    def of(self, owner: str) -> int:
        """Say how much is kept for an owner, as far as is known."""
        return self._counted[owner] + self._since[owner]

    def largest(self) -> int:
        """Say how much is kept for the owner with the most."""
        return max((self.of(owner) for owner in {*self._counted, *self._since}), default=0)

    def add(self, sizes: Counter[str]) -> None:
        """Note what has come in just now."""
        self._since.update(sizes)

    async def count(self) -> None:
        """Count what may have changed since the last time."""
        before = self._since.copy()
        ranges = await list_ranges(self._database)
        for jobs in ranges:
            if jobs.first_job_id not in self._settled:
                self._by_range[jobs.first_job_id] = await count_bytes(self._database, jobs)
                if not jobs.may_change:
                    self._settled.add(jobs.first_job_id)
        there = {jobs.first_job_id for jobs in ranges}
        self._settled &= there
        self._by_range = {first: found for first, found in self._by_range.items() if first in there}
        self._counted = Counter()
        for found in self._by_range.values():
            self._counted.update(found)
        self._since -= before
