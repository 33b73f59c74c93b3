"""How many live tasks and how much in store each owner may have, checked when jobs come in.

Postgres is counted now and then, and what this server has taken in since is added, so that a
submission costs no query. Before one is refused it is counted again, for tasks may have ended; a
repeat under an idempotency key is never refused, for its job is there.
One server never lets in more tasks than the limit; several together may, by what the others have
let in since the last count. What is in store is counted once a minute, and only inputs are added in
between; what attempts report is never refused.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from math import inf

from holdfast.errors import LimitReached
from holdfast.ledger.stored_bytes import StoredBytes
from holdfast.model.limits.server_limits import ServerLimits
from holdfast.model.submitting.spec import Submission
from holdfast.store.database import Database
from holdfast.store.reads.limits.owners import count_live_tasks
from holdfast.store.tables.work.jobs import find_by_key

LOOK_SECONDS = 5.0
# Nobody is near the limit: it is enough to look once in a while.
CALM_SECONDS = 60.0
COUNT_SECONDS_MIN = 1.0
BYTES_SECONDS = 60.0
# Tasks end any moment, but what is in store goes with retention alone.
RETRY_AFTER_SECONDS = {"live_tasks_max": 5, "stored_bytes_max": 60}


class Quotas:
    """What owners have, as far as this server knows."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._limits = ServerLimits(live_tasks_max=0)
        self.stored = StoredBytes(database)
        self._stored_at = -inf
        self._note: Callable[[str], None] = lambda _: None
        self._counted: dict[str, int] = {}
        self._counted_at = -inf
        self._counting = asyncio.Lock()
        # Taken in since the last count began; by then it may not have been stored yet.
        self._since: Counter[str] = Counter()
        self._arriving: Counter[str] = Counter()

    def keep_to(self, limits: ServerLimits, note: Callable[[str], None]) -> None:
        """Keep owners to the limits of a server, and tell what was refused."""
        self._limits = limits
        self._note = note

    @asynccontextmanager
    async def room_for(self, submissions: Sequence[Submission]) -> AsyncIterator[None]:
        """Store all of these within a block, if their owners may have them; or LimitReached."""
        for refusal in (await self.find_over(dict(enumerate(submissions)))).values():
            raise refusal
        with self.arriving(submissions):
            yield

    async def find_over(self, submissions: Mapping[int, Submission]) -> dict[int, LimitReached]:
        """Find those, by position, with which their owners would have too much."""
        if not self._is_limited:
            return {}
        over = self._pass_over(submissions)
        is_old = time.monotonic() - self._counted_at >= COUNT_SECONDS_MIN
        if is_old and any(name == "live_tasks_max" for name, _ in over.values()):
            await self._count()
            over = self._pass_over(submissions)
        if over and (repeats := await self._find_repeats(submissions)):
            new = {k: each for k, each in submissions.items() if k not in repeats}
            over = self._pass_over(new)
        for name, _ in over.values():
            self._note(name)
        return {
            position: self._limits.refusal(
                name, f"owner {owner}", retry_after=RETRY_AFTER_SECONDS[name]
            )
            for position, (name, owner) in over.items()
        }

    @contextmanager
    def arriving(self, submissions: Iterable[Submission]) -> Iterator[None]:
        """Count what is stored within a block, unless that fails."""
        if not self._is_limited:
            yield
            return
        wanted: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for submission in submissions:
            wanted[_owner_of(submission)] += submission.num_tasks
            if self._limits.stored_bytes_max:
                sizes[_owner_of(submission)] += _size_of(submission)
        self._arriving.update(wanted)
        try:
            yield
            self._since.update(wanted)
            if sizes:
                self.stored.add(sizes)
        finally:
            _take_away(self._arriving, wanted)

    async def look(self) -> int:
        """Count again if it is time; one step of a chore."""
        if self._limits.live_tasks_max:
            most = max((self._known(owner) for owner in self._counted), default=0)
            is_calm = 2 * most < self._limits.live_tasks_max
            if time.monotonic() - self._counted_at >= (CALM_SECONDS if is_calm else LOOK_SECONDS):
                await self._count()
        if self._limits.stored_bytes_max and time.monotonic() - self._stored_at >= BYTES_SECONDS:
            await self.stored.count()
            self._stored_at = time.monotonic()
        return 0

    def largest(self) -> int:
        """Say how many live tasks the owner with the most has."""
        return max((self._known(owner) for owner in self._counted.keys() | self._since), default=0)

    @property
    def _is_limited(self) -> bool:
        return bool(self._limits.live_tasks_max or self._limits.stored_bytes_max)

    async def _find_repeats(self, submissions: Mapping[int, Submission]) -> set[int]:
        """Find those, by position, whose owners have a job under their keys."""
        keys = {
            position: (submission.spec.owner, submission.spec.idempotency_key)
            for position, submission in submissions.items()
            if submission.spec.idempotency_key is not None
        }
        if not keys:
            return set()
        async with self._database.transaction() as tx:
            known = await find_by_key(tx, list(keys.values()))
        return {position for position, key in keys.items() if key in known}

    def _pass_over(self, submissions: Mapping[int, Submission]) -> dict[int, tuple[str, str]]:
        """Let in what fits, in order; returns of what does not the limit, and the owner."""
        tasks_max, bytes_max = self._limits.live_tasks_max, self._limits.stored_bytes_max
        let_in: Counter[str] = Counter()
        over: dict[int, tuple[str, str]] = {}
        for position, submission in submissions.items():
            owner, more = _owner_of(submission), submission.num_tasks
            if submission.compensates_job_id is not None:
                continue  # what is to be undone is undone
            if tasks_max and self._known(owner) + let_in[owner] + more > tasks_max:
                over[position] = "live_tasks_max", owner
            elif bytes_max and self.stored.of(owner) + _size_of(submission) > bytes_max:
                over[position] = "stored_bytes_max", owner
            else:
                let_in[owner] += more
        return over

    def _known(self, owner: str) -> int:
        return self._counted.get(owner, 0) + self._since[owner] + self._arriving[owner]

    async def _count(self) -> None:
        async with self._counting:
            before = self._since.copy()
            began_at = time.monotonic()
            self._counted = await count_live_tasks(self._database)
            _take_away(self._since, before)
            self._counted_at = began_at


def _owner_of(submission: Submission) -> str:
    return submission.spec.owner or ""


def _size_of(submission: Submission) -> int:
    return sum(map(len, submission.inputs or ()))


def _take_away(counts: Counter[str], gone: Counter[str]) -> None:
    counts.subtract(gone)
    for owner in gone:
        if not counts[owner]:
            del counts[owner]
