"""A key that tasks have from their inputs is there on every road that submits, or it is refused."""

from typing import Any

import msgspec
import pytest

from holdfast.errors import Invalid
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.model.submitting.spec import JobSpec, KeyOfInput, Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.workers.functions import AnnouncedFunction, FunctionOptions
from holdfast.operations.announce import announce
from holdfast.operations.datasets.triggers import put_trigger, start_triggered
from holdfast.operations.schedules.by_hand import backfill, run_now
from holdfast.operations.schedules.declare import Declared, declare
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.replay import Manner, replay
from holdfast.operations.submitting.rerun import rerun
from holdfast.operations.submitting.resume import resume
from holdfast.operations.submitting.store import Submitted, store_jobs
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import complete_submission
from holdfast.store.database import Transaction
from tests.audits import assert_audit_is_silent
from tests.datasets import Library
from tests.limits import most_held, set_limit
from tests.timetable import HOUR, MINUTE, Timetable, a_template, at
from tests.world import World

FIELD = "concurrency_key.input"
KEYED: dict[str, Any] = {"concurrency_key": {"input": "tenant"}}
ITSELF: dict[str, Any] = {"concurrency_key": {"input": ""}}
MIDNIGHT = at("2030-01-01T00:00")
LACKS = r"concurrency_key\.input: 'tenant' leads to nothing in inputs\[1\]"


async def say_of_function(ledger: Ledger, path: str | None, function: str = "app:work") -> None:
    """Announce that tasks of a function have their keys at a path."""
    key = None if path is None else KeyOfInput(path)
    options = FunctionOptions(queue="q", concurrency_key=key)
    made = await announce(ledger, "w", [AnnouncedFunction(path=function, options=options)])
    assert not made.refused


async def run_in_turn(world: World, count: int) -> None:
    """Do so many tasks, as many at once as limits let start."""
    done = 0
    while done < count:
        claims = await world.claim(count)
        assert claims, "somebody can always go on"
        for claim in claims:
            await world.succeed(claim)
        done += len(claims)


async def test_a_limit_per_key_holds_for_inputs_that_are_the_key(world: World) -> None:
    await set_limit(world.clock, "per key", "key", 2)
    await world.submit(["acme"] * 5 + ["other", 7, None], **ITSELF)
    for args in (["acme"], ["acme", 1]):
        await world.submit(entrypoint={"function": "app:work", "args": args}, **ITSELF)
    claims = await world.claim(20)
    assert [claim.input for claim in claims] == ['"acme"', '"acme"', '"other"', "7", "null"]
    for claim in claims:
        await world.succeed(claim)
    await run_in_turn(world, 5)
    assert await most_held(world.clock, "key") == {"acme": 2, "other": 1, "7": 1, None: 1}
    await assert_audit_is_silent(world.ledger.database)


async def test_one_job_and_a_batch_are_refused(ledger: Ledger, world: World) -> None:
    good, bad = a_template(inputs=[{"tenant": 1}], **KEYED), a_template(inputs=[{}, {}], **KEYED)
    others = a_template(chain="c", **KEYED), a_template(inputs=[{"tenant": [1]}], **KEYED)
    for submission in (bad, *others):
        with pytest.raises(Invalid) as refused:
            await submit_one(ledger, submission)
        assert refused.value.field == FIELD
    with pytest.raises(Invalid) as refused:
        await submit_batch(ledger, [good, bad])
    assert refused.value.field == FIELD
    assert await world.count("jobs") == 0
    assert (await submit_one(ledger, good)).is_new


async def test_a_path_that_was_announced_is_as_good_as_the_jobs_own(
    ledger: Ledger, world: World
) -> None:
    await say_of_function(ledger, "tenant")
    with pytest.raises(Invalid, match=r"nothing in entrypoint\.kwargs; name an argument"):
        await world.submit(queue=None, entrypoint={"function": "app:work", "kwargs": {"a": 1}})
    with pytest.raises(Invalid, match=LACKS):
        await world.submit([{"tenant": 1}, {}])
    for key in ("acme", {"input": None}, {"input": ""}):
        await world.submit(["x"], concurrency_key=key)
    await say_of_function(ledger, None)
    await world.submit([{}])


async def test_a_repeat_is_known_with_no_key_at_all(ledger: Ledger, world: World) -> None:
    fields: dict[str, Any] = {"concurrency_key": {"input": None}, "idempotency_key": "k"}
    first = await world.submit(**fields)
    await say_of_function(ledger, "tenant")
    assert await world.submit(**fields) == first


async def dead_letters(world: World) -> list[TaskId]:
    """Let two tasks die that have a key."""
    job_id = await world.submit([{"tenant": "a"}, {"tenant": "b"}], **KEYED)
    for claim in await world.claim(2):
        await world.fail(claim)
    return [TaskId(job_id, 0), TaskId(job_id, 1)]


async def test_an_edited_input_of_a_dead_letter_has_the_key_too(
    ledger: Ledger, world: World
) -> None:
    letter, other = await dead_letters(world)
    before = await world.dump()
    for dry_run in (True, False):
        for text, says in (
            ('{"tenent": "a"}', "input: has nothing at 'tenant', where the job's key is"),
            ('{"tenant": {}}', "input: has an object at 'tenant'"),
        ):
            with pytest.raises(Invalid, match=says):
                await replay(
                    ledger, [letter], actor="ann", dry_run=dry_run, manner=Manner(edited=text)
                )
    assert await world.dump() == before
    for task_id, text in ((letter, '{"tenant": "c"}'), (other, '{"tenant": null}')):
        await replay(ledger, [task_id], actor="ann", manner=Manner(edited=text))
    assert len(await world.claim(5)) == 2
    await assert_audit_is_silent(ledger.database)


async def test_a_corrected_input_has_the_key_too(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(
        [{"tenant": "a"}, {"tenant": "b"}], on_exhausted="fail", max_task_failures=1, **KEYED
    )
    after = await world.submit(depends_on=[str(job_id)])
    for claim in await world.claim(2):
        await world.fail(claim)
    await world.run_chores()
    corrected = {TaskId(job_id, 0): '{"tenant": "c"}', TaskId(job_id, 1): '{"tenent": "b"}'}
    before = await world.dump()
    for dry_run in (True, False):
        with pytest.raises(Invalid) as refused:
            await resume(ledger, after, actor="ann", inputs=corrected, dry_run=dry_run)
        assert refused.value.field == f"inputs[{job_id}.1]"
    assert await world.dump() == before
    corrected[TaskId(job_id, 1)] = '{"tenant": null}'
    await resume(ledger, after, actor="ann", inputs=corrected)
    await assert_audit_is_silent(ledger.database)


async def test_what_was_taken_in_before_is_run_again_as_it_was(
    ledger: Ledger, world: World
) -> None:
    """It has the key that it had; nobody could give it another one any more."""

    async def store(_: Ledger, tx: Transaction, jobs: list[Admitted]) -> None:
        await store_jobs(tx, jobs)

    unchecked = complete_submission(a_template(inputs=[1, 2], **KEYED), ledger.limits)
    [job] = await admit(ledger, [unchecked])
    await ledger.write(store, [job])
    for claim in await world.claim(2):
        await world.fail(claim)
    [made] = await replay(ledger, [TaskId(job.job_id, 0)], actor="ann")
    assert made.job_id is not None
    assert (await rerun(ledger, job.job_id, actor="ann")).num_tasks == 2


async def test_a_schedule_whose_jobs_would_be_refused_is_not_set(
    ledger: Ledger, world: World
) -> None:
    timetable = Timetable(world)
    for job in (a_template(**KEYED), a_template(inputs=[{"tenant": 1}, {}], **KEYED)):
        with pytest.raises(Invalid) as refused:
            await timetable.set(job=job, cron="0 3 * * *")
        assert refused.value.field == FIELD
    await say_of_function(ledger, "tenant")
    with pytest.raises(Invalid, match=FIELD):
        await timetable.set(cron="0 3 * * *")
    job = a_template(entrypoint={"function": "app.jobs:nightly"}, **KEYED)
    declared = Declared("app.jobs:nightly", ScheduleTerms(cron="0 3 * * *"), job)
    made = await declare(ledger, ["app.jobs"], [declared], actor="w1")
    assert FIELD in made.refused["app.jobs:nightly"]
    assert await world.count("schedules") == 0


async def test_a_firing_is_refused_when_its_key_came_later_and_the_next_goes_on(
    ledger: Ledger, world: World
) -> None:
    timetable = Timetable(world)
    await timetable.go_to(MIDNIGHT + MINUTE)
    await timetable.set(cron="0 * * * *")
    await say_of_function(ledger, "tenant")
    await timetable.go_to(MIDNIGHT + HOUR)
    await timetable.fire()
    with pytest.raises(Invalid, match=FIELD):
        await run_now(ledger, "s", actor="ann")
    await say_of_function(ledger, None)
    await timetable.go_to(MIDNIGHT + 2 * HOUR)
    await timetable.fire()
    first, second = await timetable.firings()
    assert (first.outcome, second.outcome) == ("refused", "fired")
    assert "concurrency_key.input: 'tenant' leads to nothing" in (first.problem or "")
    made = await backfill(ledger, "s", MIDNIGHT + HOUR, last=MIDNIGHT + HOUR, actor="ann")
    assert len(made.job_ids) == 1


async def test_a_trigger_says_why_its_job_is_refused_and_goes_on_when_it_is_mended(
    ledger: Ledger, world: World
) -> None:
    async def put(template: Submission) -> None:
        await put_trigger(ledger, "events", "look", submission=template, actor="ann")

    async def submit(submission: Submission) -> Submitted:
        return await submit_one(ledger, submission)

    library = Library(world)
    await library.create(versions=1)
    with pytest.raises(Invalid, match=FIELD):
        await put(a_template(inputs=[{}], **KEYED))
    await put(a_template())
    await say_of_function(ledger, "tenant")
    with pytest.raises(Invalid, match=FIELD):
        await put(a_template(priority=1))
    await library.cut_over(1)
    assert await start_triggered(ledger, submit) == 1
    [row] = await world.clock.fetch("select problem from holdfast.trigger_runs")
    assert "concurrency_key.input: 'tenant' leads to nothing" in row[0]
    assert await start_triggered(ledger, submit) == 0
    await put(a_template(concurrency_key="acme"))
    await world.clock.advance(31)
    await start_triggered(ledger, submit)
    [row] = await world.clock.fetch("select spec from holdfast.jobs")
    assert msgspec.json.decode(row[0], type=JobSpec).concurrency_key == "acme"


async def test_a_compensation_has_no_key_and_is_never_refused_for_one(world: World) -> None:
    job_id = await world.submit(
        [{"tenant": "a"}],
        compensation={"function": "app:undo"},
        on_exhausted="fail",
        max_attempts=1,
        **KEYED,
    )
    [claim] = await world.claim()
    await world.start(claim)
    await world.fail(claim, "PermanentError")
    await world.run_chores()
    [undo] = await world.claim()
    assert undo.task_id.job_id > job_id
    row = await world.job(undo.task_id.job_id)
    assert "concurrency_key" not in msgspec.json.decode(row["spec"])
