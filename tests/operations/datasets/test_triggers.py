"""Jobs that a cut-over starts: once per version, whoever dies on the way."""

from typing import Any

import msgspec
import pytest

from holdfast.errors import Invalid, NotFound, TooLarge, Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.server_limits import ServerLimits
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.operations.datasets import triggers as dataset_triggers
from holdfast.operations.datasets.triggers import delete_trigger, put_trigger, start_triggered
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from tests.audits import assert_audit_is_silent
from tests.datasets import Library
from tests.world import World


def a_template(**fields: Any) -> Submission:
    """Describe the job that a cut-over starts."""
    spec = {"entrypoint": {"function": "app:work"}, "queue": "q", "environment": {"A": "1"}}
    inputs = fields.pop("inputs", None)
    return Submission(parse_spec(spec | fields), None if inputs is None else parse_inputs(inputs))


@pytest.fixture
async def library(world: World) -> Library:
    """One dataset with three open versions."""
    library = Library(world)
    await library.create(versions=3)
    return library


async def put(world: World, name: str = "look", **fields: Any) -> bool:
    template = a_template(**fields)
    return await put_trigger(world.ledger, "events", name, submission=template, actor="ann")


async def start(world: World) -> int:
    async def submit(submission: Submission) -> Submitted:
        return await submit_one(world.ledger, submission)

    return await start_triggered(world.ledger, submit)


async def runs(world: World) -> list[tuple[Any, ...]]:
    rows = await world.clock.fetch(
        "select trigger, version, job_id from holdfast.trigger_runs order by version, trigger"
    )
    return [tuple(row) for row in rows]


async def test_each_version_starts_its_job_once(world: World, library: Library) -> None:
    assert await put(world, inputs=[1, {"x": 1.5}])
    assert (await library.cut_over(1)).triggered == 1
    assert await start(world) == 1
    [(_, _, job_id)] = await runs(world)
    job = await world.job(job_id)
    spec = msgspec.json.decode(job["spec"])
    assert spec["environment"] == {
        "A": "1", "HOLDFAST_DATASET": "events", "HOLDFAST_DATASET_VERSION": "1",
    }  # fmt: skip
    assert (job["num_tasks"], job["idempotency_key"]) == (2, "holdfast:cut-over:events:look:1")
    assert await start(world) == 0
    assert not await put(world, "look", priority=3)
    await library.cut_over(2)
    assert (await library.cut_over(1)).triggered == 0
    await start(world)
    assert [(name, version) for name, version, _ in await runs(world)] == [("look", 1), ("look", 2)]
    assert await world.count("jobs") == 2
    await assert_audit_is_silent(world.ledger.database)


async def test_whoever_dies_before_noting_it_finds_the_job_again(
    world: World, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(world)
    await library.cut_over(1)

    async def die(*_: object) -> None:
        raise Unavailable("killed here")

    with monkeypatch.context() as dying:
        dying.setattr(dataset_triggers, "_note", die)
        with pytest.raises(Unavailable):
            await start(world)
    assert await runs(world) == [("look", 1, None)]
    await put(world, priority=7)  # what was submitted under the key stays what it is
    await start(world)
    [(_, _, job_id)] = await runs(world)
    assert await world.count("jobs") == 1
    assert (await world.job(job_id))["priority"] == 0
    await assert_audit_is_silent(world.ledger.database)


async def test_what_cannot_be_submitted_says_why_and_is_tried_again(
    world: World, library: Library
) -> None:
    await library.create("users", 0)
    await put(world, outputs=[{"dataset": "users"}])
    await library.cut_over(1)
    await start(world)
    [row] = await world.clock.fetch("select problem from holdfast.trigger_runs")
    assert "dataset users has no open version" in row[0]
    assert await start(world) == 0
    await library.open("users")
    await world.clock.advance(31)
    await start(world)
    assert (await runs(world))[0][2] is not None


async def test_an_owner_who_has_too_much_keeps_nobody_else_waiting(
    world: World, library: Library
) -> None:
    world.ledger.quotas.keep_to(ServerLimits(live_tasks_max=1), lambda _: None)
    await submit_one(world.ledger, a_template(owner="greedy"))
    await put(world, "a", owner="greedy")
    await library.cut_over(1)
    await world.clock.advance(1)
    await put(world, "b", owner="good")
    await library.cut_over(2)
    assert await start(world) == 3
    started = [run[:2] for run in await runs(world) if run[2] is not None]
    assert started == [("b", 2)]
    [row, _] = await world.clock.fetch(
        "select problem from holdfast.trigger_runs where trigger = 'a'"
    )
    assert "owner greedy" in row[0]
    world.ledger.quotas.keep_to(ServerLimits(live_tasks_max=0), lambda _: None)
    await world.clock.advance(31)
    await start(world)
    assert all(job_id is not None for _, _, job_id in await runs(world))


async def test_a_trigger_that_is_removed_starts_nothing_more(
    world: World, library: Library
) -> None:
    await put(world)
    await put(world, "other")
    await library.cut_over(1)
    assert await delete_trigger(world.ledger, "events", "look", actor="ann")
    assert not await delete_trigger(world.ledger, "events", "look", actor="ann")
    await start(world)
    assert [run[0] for run in await runs(world)] == ["other"]
    await library.cut_over(2)
    assert [run[:2] for run in await runs(world)] == [("other", 1), ("other", 2)]
    await assert_audit_is_silent(world.ledger.database)


async def test_what_can_be_no_template_is_refused(
    world: World, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fields, field in (
        ({"idempotency_key": "k"}, "spec.idempotency_key"),
        ({"depends_on": ["other"]}, "depends_on"),
        ({"priority": 10**9}, "priority"),
    ):
        with pytest.raises(Invalid, match=field):
            await put(world, **fields)
    with pytest.raises(Invalid, match="name: "):
        await put(world, "a/b")
    with pytest.raises(NotFound, match="there is no dataset others"):
        await put_trigger(world.ledger, "others", "x", submission=a_template(), actor="ann")
    with pytest.raises(NotFound, match="there is no dataset others"):
        await delete_trigger(world.ledger, "others", "x", actor="ann")
    small = Ledger(world.ledger.database, Limits(batch_tasks_max=1))
    with pytest.raises(TooLarge, match=r"spec\.inputs: 2 tasks"):
        await put_trigger(small, "events", "x", submission=a_template(inputs=[1, 2]), actor="ann")
    monkeypatch.setattr(dataset_triggers, "TRIGGERS_MAX", 1)
    await put(world)
    with pytest.raises(TooLarge, match="2 triggers"):
        await put(world, "other")
