"""Try out a fleet, its work, policies, limits and shares in virtual time, from a seed.

    import holdfast.simulation as sim

    report = sim.run(sim.Plan(fleet=[...], arrivals=[...]), seed=7, days=30)
    print(report.as_text())

What decides is the code that decides in a server: `holdfast.rules`. See docs/simulation.md.
"""

from holdfast.model.limits.shares import ShareRule
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.submitting.policies import PolicyDefaults, PolicyLimits, TypePolicy
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.model.workers.resources import Capacity
from holdfast.simulation.plan import (
    DAY,
    HOUR,
    MINUTE,
    Arrivals,
    Duration,
    Exponential,
    Fixed,
    LogNormal,
    Outage,
    Plan,
    Schedule,
    Uniform,
    Work,
    Workers,
)
from holdfast.simulation.report import Fates, Fired, Held, Report, Usage, Waits
from holdfast.simulation.run import run

__all__ = [
    "DAY", "HOUR", "MINUTE", "Arrivals", "Capacity", "Duration", "Exponential", "Fates", "Fired",
    "Fixed", "Held", "LogNormal", "Outage", "Plan", "PolicyDefaults", "PolicyLimits", "Report",
    "Schedule", "ScheduleTerms", "ShareRule", "TypePolicy", "Uniform", "Usage", "UsageLimit",
    "Waits", "Work", "Workers", "run",
]  # fmt: skip
