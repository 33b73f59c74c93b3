"""Attempts whose code has asked for a later one: when, at what cost, and how often."""

import pytest

from holdfast.errors import Invalid
from holdfast.model.work.outcomes import PUT_OFF_MS_MAX, PutOff
from holdfast.model.work.states import TaskState
from holdfast.rules import retry
from tests.world import World


async def test_a_task_that_is_put_off_is_eligible_when_it_said(world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.start(mine)
    text = "RetryAfter: put off for 600 s at no cost"
    later = {"error": text, "error_class": "RetryAfter", "put_off": PutOff(600_000, free=True)}
    assert (await world.complete(mine, "failed", **later)).accepted
    [attempt] = (await world.task(mine.task_id)).attempts
    assert (attempt["state"], attempt["error_class"]) == (TaskState.FAILED, "RetryAfter")
    [row] = await world.clock.fetch(
        "select state, failure_count, extract(epoch from eligible_at - moved_at)::int"
        " from holdfast.tasks"
    )
    assert tuple(row) == (TaskState.PENDING, 0, 600)
    assert await world.claim() == []
    await world.pass_time(601)
    [again] = await world.claim()
    assert again.attempt == 1
    assert (await world.succeed(again)).accepted


async def test_when_enough_has_cost_nothing_it_costs_retries(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FREE_PUT_OFFS_MAX", 2)
    await world.submit(on_exhausted="fail", max_retries_failure=1)
    counts = []
    for _ in range(4):
        [mine] = await world.claim()
        await world.complete(mine, "failed", put_off=PutOff(0, free=True))
        task = await world.task(mine.task_id)
        [row] = await world.clock.fetch("select failure_count from holdfast.tasks")
        counts.append((row[0], task.finished))
    assert counts == [(0, False), (0, False), (1, False), (2, True)]


@pytest.mark.parametrize(
    ("status", "after_ms", "field"),
    [
        ("succeeded", 5, "put_off"),
        ("worker_failed", 5, "put_off"),
        ("failed", -1, "put_off.after_ms"),
        ("failed", PUT_OFF_MS_MAX + 1, "put_off.after_ms"),
    ],
)
async def test_what_is_put_off_for_no_good_time_is_refused(
    world: World, status: str, after_ms: int, field: str
) -> None:
    await world.submit()
    [mine] = await world.claim()
    before = await world.dump()
    with pytest.raises(Invalid, match=f"^{field}:"):
        await world.complete(mine, status, put_off=PutOff(after_ms))
    assert await world.dump() == before
