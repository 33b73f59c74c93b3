"""What users describe: a fleet, the work that comes to it, and what operators have decided."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from statistics import NormalDist
from typing import Any, Protocol

import msgspec

from holdfast.errors import Invalid
from holdfast.model.limits.shares import ShareRule
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.submitting.policies import TypePolicy
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.model.workers.resources import AttributeValue, Capacity

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
_P95 = NormalDist().inv_cdf(0.95)


class Duration(Protocol):
    """How long something takes, in seconds."""

    def draw(self, random: Random) -> float:
        """Draw one."""


class Fixed(msgspec.Struct, frozen=True):
    """Always the same."""

    seconds: float

    def draw(self, random: Random) -> float:
        """Give it."""
        return self.seconds


class Exponential(msgspec.Struct, frozen=True):
    """Without memory, like the time until something breaks."""

    mean: float

    def draw(self, random: Random) -> float:
        """Draw one."""
        return random.expovariate(1.0 / self.mean)


class LogNormal(msgspec.Struct, frozen=True):
    """Most are near the median, few take very long: as tasks mostly are."""

    median: float
    p95: float

    def draw(self, random: Random) -> float:
        """Draw one."""
        sigma = math.log(self.p95 / self.median) / _P95
        return self.median * math.exp(sigma * random.gauss(0.0, 1.0))


class Uniform(msgspec.Struct, frozen=True):
    """Anything between two bounds."""

    least: float
    most: float

    def draw(self, random: Random) -> float:
        """Draw one."""
        return random.uniform(self.least, self.most)


class Outage(msgspec.Struct, frozen=True):
    """Away from `at` on, seconds after the beginning, for so many seconds."""

    at: float
    seconds: float


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """Workers that are alike. Those with queues claim from them, the others are placed on.

    Each breaks about once in `mtbf` seconds and is back after `repair`; all are away in `outages`.
    """

    name: str
    count: int
    capacity: Capacity
    attributes: Mapping[str, AttributeValue] = {}
    queues: Sequence[str] = ()
    # Of claimed work: how many tasks at once.
    slots: int = 8
    mtbf: float | None = None
    repair: Duration = Fixed(300.0)
    outages: Sequence[Outage] = ()


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs of one kind are like: a spec as it is submitted, and what its tasks do.

    `owners` and `keys` draw one for each job, by weight. A job has `tasks` inputs, or its spec says
    how many replicas. An attempt takes `start` to begin and `runs` from there, and fails with the
    chance `fails`, half way through on average.
    """

    spec: Mapping[str, Any]
    runs: Duration
    tasks: int | None = None
    owners: Mapping[str, float] = {}
    keys: Mapping[str, float] = {}
    start: Duration = Fixed(0.5)
    fails: float = 0.0


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that come at random, about one in `every` seconds; from `since` on, until `until`."""

    name: str
    work: Work
    every: float
    since: float = 0.0
    until: float = math.inf


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that come by a schedule, described as the real ones are."""

    name: str
    work: Work
    terms: ScheduleTerms


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run follows from, with a seed.

    `limits` go by their names, `policies` by type, `shares` by queue (placed work has none: "").
    In `outages` no server is there: nothing is given out, and nobody hears how attempts end.
    """

    fleet: Sequence[Workers]
    arrivals: Sequence[Arrivals] = ()
    schedules: Sequence[Schedule] = ()
    policies: Mapping[str, TypePolicy] = {}
    limits: Mapping[str, UsageLimit] = {}
    shares: Mapping[str, ShareRule] = {}
    outages: Sequence[Outage] = ()
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def check(self) -> None:
        """Refuse what cannot be meant. Raises Invalid."""
        for kind, items in (
            ("fleet", self.fleet),
            ("arrivals", self.arrivals),
            ("schedules", self.schedules),
        ):
            names = [item.name for item in items]
            if len(set(names)) < len(names):
                raise Invalid(kind, "has two of one name; each needs a name of its own")
        for workers in self.fleet:
            if workers.count < 1 or (workers.mtbf is not None and workers.mtbf <= 0):
                raise Invalid("fleet", f"{workers.name}: count and mtbf are more than 0")
        for arrivals in self.arrivals:
            if arrivals.every <= 0:
                raise Invalid("arrivals", f"{arrivals.name}: every is more than 0")
        if self.start.tzinfo is None:
            raise Invalid("start", "has no time zone; write tzinfo=UTC")
