"""Small worlds whose numbers can be worked out by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import holdfast.simulation as sim
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.model.workers.resources import Capacity

COMMAND = {"entrypoint": {"command": ["work"]}, "type": "work"}
MAIL = {"entrypoint": {"function": "app:send"}, "type": "mail", "queue": "mail"}
START = datetime(2026, 1, 5, tzinfo=UTC)


def work(spec: dict[str, Any], runs: float, **rest: Any) -> sim.Work:
    """Describe work that takes this long, and no time to begin."""
    return sim.Work(spec=spec, runs=sim.Fixed(runs), start=sim.Fixed(0.0), **rest)


def once(name: str, what: sim.Work, at: float = 60.0) -> sim.Schedule:
    """Have one job come at a time."""
    moment = START + timedelta(seconds=at)
    terms = ScheduleTerms(every=86_400.0, start_at=moment, end_at=moment)
    return sim.Schedule(name=name, work=what, terms=terms)


def placed(count: int = 1, cpu: float = 1.0, **rest: Any) -> sim.Workers:
    """Describe workers of placed work."""
    return sim.Workers(name="w", count=count, capacity=Capacity(cpu=cpu), **rest)


def play(days: float = 1.0, seed: int = 1, **fields: Any) -> sim.Report:
    """Play a plan out that begins on a Monday."""
    return sim.run(sim.Plan(start=START, **fields), seed=seed, days=days)
