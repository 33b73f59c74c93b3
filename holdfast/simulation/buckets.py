"""The limits of a run: what each of their buckets has spent. The rules say what is left."""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.model.limits.usage_limits import CONCURRENCY, WINDOW_MARGIN, UsageLimit
from holdfast.model.submitting.spec import JobSpec
from holdfast.rules.limits.usage import (
    BucketState,
    check_held,
    check_limit_name,
    complete_limit,
    find_room,
)


class BucketKey(NamedTuple):
    """A bucket goes by its limit and by whose it is."""

    limit: str
    value: str


class Bucket:
    """What is known of one bucket, as far as its kind of limit needs it."""

    __slots__ = ("filled_at", "held", "limit", "starts", "tokens")

    def __init__(self, limit: UsageLimit) -> None:
        self.limit = limit
        self.held = 0
        self.tokens: float | None = None
        self.filled_at: datetime | None = None
        self.starts: deque[tuple[datetime, int]] = deque()

    def find_free(self, now: datetime) -> tuple[float, datetime | None]:
        """Ask the rule how much is left, and when there will be more, if that is known."""
        if self.limit.period is not None:
            span = timedelta(seconds=self.limit.period * WINDOW_MARGIN)
            while self.starts and self.starts[0][0] + span <= now:
                self.starts.popleft()
        spent = float(sum(slots for _, slots in self.starts))
        oldest = self.starts[0][0] if self.starts else None
        state = BucketState(self.held, self.tokens, self.filled_at, spent, oldest)
        return find_room(self.limit, state, now)

    def take(self, slots: int, now: datetime) -> None:
        """Let a task start."""
        if self.limit.kind == CONCURRENCY:
            self.held += slots
        elif self.limit.kind == "window":
            self.starts.append((now, slots))
        else:
            self.tokens, self.filled_at = self.find_free(now)[0] - slots, now

    def give_back(self, slots: int) -> None:
        """Take note that an attempt is gone; what has started has started."""
        if self.limit.kind == CONCURRENCY:
            self.held -= slots


class Buckets:
    """All buckets of all limits, made when somebody asks."""

    def __init__(self, limits: Mapping[str, UsageLimit]) -> None:
        self._limits: dict[str, UsageLimit] = {}
        for name, limit in limits.items():
            check_limit_name(name)
            complete = complete_limit(limit)
            check_held(complete, self._limits.values())
            self._limits[name] = complete
        self._buckets: dict[BucketKey, Bucket] = {}

    def find_keys(self, spec: JobSpec) -> tuple[BucketKey, ...]:
        """List the buckets that tasks of a job ask."""
        values = {
            "queue": spec.queue,
            "type": spec.type,
            "owner": spec.owner,
            "key": spec.concurrency_key if isinstance(spec.concurrency_key, str) else None,
        }
        return tuple(
            BucketKey(name, value)
            for name, limit in self._limits.items()
            if (value := values.get(limit.scope)) is not None
            and limit.only_for in (None, value)
            and limit.in_queue in (None, spec.queue)
            and limit.in_type in (None, spec.type)
        )

    def find_full(self, keys: Iterable[BucketKey], slots: int, now: datetime) -> BucketKey | None:
        """Find the first bucket that has not so many slots left."""
        for key in keys:
            if self._bucket(key).find_free(now)[0] < slots:
                return key
        return None

    def when_open(self, key: BucketKey, now: datetime) -> datetime | None:
        """Say when a bucket will have more, if that is a matter of time."""
        return self._bucket(key).find_free(now)[1]

    def take(self, keys: Iterable[BucketKey], slots: int, now: datetime) -> None:
        """Let a task start."""
        for key in keys:
            self._bucket(key).take(slots, now)

    def give_back(self, keys: Iterable[BucketKey], slots: int) -> None:
        """Take note that the attempt of a task is gone."""
        for key in keys:
            self._bucket(key).give_back(slots)

    def _bucket(self, key: BucketKey) -> Bucket:
        if (bucket := self._buckets.get(key)) is None:
            bucket = self._buckets[key] = Bucket(self._limits[key.limit])
        return bucket
