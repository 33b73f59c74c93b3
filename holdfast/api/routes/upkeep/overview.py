"""The route of the first page: how the system does."""

from collections.abc import Callable
from dataclasses import asdict
from typing import TypeVar

from holdfast.api.convert import task_state, to_ms
from holdfast.api.route import Call, Route
from holdfast.model.access.roles import Role
from holdfast.model.work.states import ENDED_STATES
from holdfast.rules.quantiles import quantile_ms
from holdfast.rules.reading.attention import Attention as Found
from holdfast.services.measuring.overview import Chart
from holdfast.store.reads.upkeep.samples import Step
from holdfast.wire.overview import Attention, LiveTasks, Overview, OverviewQuery, Series

Value = TypeVar("Value")
_COUNTED = (
    "submitted", "succeeded", "failed", "worker_failed", "killed", "dead_lettered", "retried",
)  # fmt: skip


async def show_overview(call: Call[None, OverviewQuery]) -> Overview:
    """Show how the system does now, how it did within a window, and what needs attention."""
    window_seconds = call.query.window_seconds
    chart, findings = await call.runtime.overviews.read(window_seconds)
    known = [step.counts for _, step in chart.steps if step is not None]
    return Overview(
        now_ms=to_ms(chart.now),
        window_seconds=window_seconds,
        step_seconds=chart.step_seconds,
        tasks=_live(chart, findings.never_fits),
        ended={
            task_state(state): sum(getattr(counts, state.name.lower()) for counts in known)
            for state in sorted(ENDED_STATES)
        },
        workers=chart.workers,
        attention=[_attention(one) for one in findings.attention],
        series=_series(chart),
    )


def _live(chart: Chart, never_fits: int) -> LiveTasks:
    """Count tasks in line by what is in their way; the two looks may be seconds apart."""
    line = chart.line
    never = min(never_fits, line.free)
    counts = chart.live._replace(ready=line.free - never)._asdict()
    return LiveTasks(**counts, paused=line.paused, unserved=line.unserved, never_fits=never)


def _attention(one: Found) -> Attention:
    return Attention(**asdict(one) | {"job_ids": list(one.job_ids)})


def _series(chart: Chart) -> Series:
    def values(value: Callable[[Step], Value | None]) -> list[Value | None]:
        return [None if step is None else value(step) for _, step in chart.steps]

    counts = {
        name: values(lambda step, name=name: getattr(step.counts, name))  # type: ignore[misc]
        for name in _COUNTED
    }
    return Series(
        at_ms=[to_ms(at) for at, _ in chart.steps],
        **counts,
        depth=values(lambda step: step.depth),
        running=values(lambda step: step.running),
        wait_p50_ms=values(lambda step: quantile_ms(step.waits, 0.5)),
        wait_p95_ms=values(lambda step: quantile_ms(step.waits, 0.95)),
    )


ROUTES: tuple[Route, ...] = (
    Route("GET", "/api/overview", show_overview, Overview, Role.READ, query=OverviewQuery),
)
