"""The horizon watchdog: names who keeps vacuum from removing dead rows, and for how long.

Queues are tables whose rows come and go; one session that forgot its transaction makes every claim
step over the rows that died since. Any server sees that, and needs no special rights to name it.
"""

import logging
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

from holdfast.rules.reading.horizon import (
    KINDS,
    Holder,
    HorizonLimits,
    describe_holder,
    find_pinning,
    is_held,
    remedy_of,
)
from holdfast.store.database import Database
from holdfast.store.reads.upkeep.horizon import list_holders

log = logging.getLogger("holdfast.horizon")
LOOK_SECONDS = 15.0
# A crowd of sessions behind one lock would fill the log; the metrics tell of all.
NAMED_MAX = 10


class HorizonWatchdog:
    """Looks who holds the horizon; tells once when it is too long, and once when it is over."""

    def __init__(
        self,
        database: Database,
        registry: CollectorRegistry,
        limits: HorizonLimits | None = None,
        *,
        on_held: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._limits = limits or HorizonLimits()
        self._on_held = on_held
        self._pinning: dict[tuple[str, str], Holder] = {}
        self._seconds = Gauge(
            "holdfast_vacuum_horizon_age_seconds",
            "How long the oldest of a kind has kept vacuum from removing dead rows.",
            ("kind",),
            registry=registry,
        )
        self._xids = Gauge(
            "holdfast_vacuum_horizon_age_xids",
            "How many transactions back the oldest of a kind keeps dead rows.",
            ("kind",),
            registry=registry,
        )
        self._measure([])

    async def look(self) -> int:
        """Look once: measure, and log what has begun or ended to pin vacuum."""
        holders = await list_holders(self._database)
        self._measure(holders)
        self._on_held(is_held(holders))
        pinning = {
            (each.kind, each.name): each for each in find_pinning(holders, self._limits)[:NAMED_MAX]
        }
        for key, holder in pinning.items():
            if key not in self._pinning:
                log.warning("vacuum is held up: %s; %s", describe_holder(holder), remedy_of(holder))
        for key, holder in self._pinning.items():
            if key not in pinning:
                log.warning(
                    "vacuum is no longer held up by %s %s, last seen %d transactions back",
                    *(holder.kind, holder.name, holder.xids),
                )
        self._pinning = pinning
        return 0

    def _measure(self, holders: list[Holder]) -> None:
        for kind in KINDS:
            own = [each for each in holders if each.kind == kind]
            self._xids.labels(kind).set(max((each.xids for each in own), default=0))
            self._seconds.labels(kind).set(max((each.seconds or 0.0 for each in own), default=0.0))
