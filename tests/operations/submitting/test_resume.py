"""A broken graph goes on: what failed and what was killed in vain runs again, on what there is."""

import asyncio
import json
from typing import Any

import pytest

from holdfast.errors import IllegalMove, Invalid, KeyReused, NotFound, TooLarge
from holdfast.ledger.keys import request_key
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import JobState
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.submitting import resubmission
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.replay import replay
from holdfast.operations.submitting.rerun import rerun
from holdfast.operations.submitting.resume import Resumed, resume
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from holdfast.store.reads.work.tasks import list_continued
from tests.audits import assert_audit_is_silent
from tests.chunks import shrink_chunks
from tests.datasets import Library
from tests.operations.broken_graphs import after, broken_graph, states, waits_of, work
from tests.operations.letters import found
from tests.world import World

SUCCEEDED, KILLED = JobState.SUCCEEDED, JobState.KILLED


@pytest.mark.parametrize("asked", [0, 1, 2, 3])
async def test_what_failed_and_what_was_killed_in_vain_runs_again_wherever_one_asks(
    ledger: Ledger, world: World, asked: int
) -> None:
    extract, table, join, report = graph = await broken_graph(world)
    made = await resume(ledger, graph[asked], actor="ann")
    assert [(each.replay_of, each.num_tasks) for each in made] == [
        (extract, 1),
        (join, 1),
        (report, 1),
    ]
    again, joined, reported = [each.job_id for each in made]
    assert await waits_of(world, joined) == [table, again]
    assert await waits_of(world, reported) == [joined]
    positions = json.loads((await world.job(joined or 0))["spec"])["entrypoint"]["results"]
    assert [each["job"] for each in positions] == [str(again), str(table)]
    for new, old in zip((again, joined, reported), (extract, join, report), strict=True):
        first, second = await world.job(old), await world.job(new or 0)
        assert (second["replay_of"], second["correlation_id"]) == (old, first["correlation_id"])
        assert (await world.story(old, -1))[-1] == "replayed"
    assert await found(world) == []
    await work(world)
    assert await states(world, again, joined, reported) == [SUCCEEDED] * 3
    with pytest.raises(
        IllegalMove, match=f"cannot resume job {report}: it is run again by job {reported}"
    ):
        await resume(ledger, report, actor="ann")
    await assert_audit_is_silent(ledger.database)


async def test_a_corrected_input_is_run_and_told_of(ledger: Ledger, world: World) -> None:
    extract, *_ = await broken_graph(world)
    made = await resume(ledger, extract, actor="ann", inputs={TaskId(extract, 2): '"mended"'})
    task = await world.clock.fetch(
        "select input::text from holdfast.tasks where job_id = $1", made[0].job_id
    )
    assert [row[0] for row in task] == ['"mended"']
    [letter] = await world.dead_letters(open_only=False)
    assert (letter.replayed_as, letter.input_edited) == (made[0].job_id, True)
    [event] = await world.clock.fetch(
        "select payload ->> 'input_edited' from holdfast.events "
        "where job_id = $1 and type = 'replayed'",
        extract,
    )
    assert event[0] == f"{extract}.2"
    await work(world, "c")
    assert await states(world, *(each.job_id for each in made)) == [SUCCEEDED] * 3
    await assert_audit_is_silent(ledger.database)


async def test_a_resume_that_fails_again_is_resumed_where_it_stands(
    ledger: Ledger, world: World
) -> None:
    extract, _, _, report = await broken_graph(world)
    first = await resume(ledger, extract, actor="ann")
    await work(world, "c")
    assert (await states(world, *(each.job_id for each in first)))[1:] == [KILLED] * 2
    second = await resume(ledger, report, actor="ann")
    assert [each.replay_of for each in second] == [each.job_id for each in first]
    assert await waits_of(world, second[2].job_id) == [second[1].job_id]
    line = [extract, first[0].job_id, second[0].job_id]
    async with ledger.database.transaction() as tx:
        assert await list_continued(tx, second[0].job_id or 0) == line
    await work(world)
    assert await states(world, *(each.job_id for each in second)) == [SUCCEEDED] * 3
    await assert_audit_is_silent(ledger.database)


async def test_what_was_run_again_before_is_not_run_twice(ledger: Ledger, world: World) -> None:
    extract, _, join, report = await broken_graph(world)
    again = await replay(ledger, [TaskId(extract, 2)], actor="ann")
    made = await resume(ledger, join, actor="ann")
    assert [each.replay_of for each in made] == [join, report]
    assert again[0].job_id in await waits_of(world, made[0].job_id)
    await work(world)
    assert await states(world, *(each.job_id for each in made)) == [SUCCEEDED] * 2
    await assert_audit_is_silent(ledger.database)


async def test_a_rerun_that_has_succeeded_is_what_the_rest_goes_on_with(
    ledger: Ledger, world: World
) -> None:
    extract, _, join, report = await broken_graph(world)
    part = await rerun(ledger, extract, actor="ann", only_unsuccessful=True)
    await work(world)
    # Also when somebody asks for the rerun itself.
    made = await resume(ledger, part.job_id or 0, actor="ann")
    assert [each.replay_of for each in made] == [join, report]
    assert part.job_id in await waits_of(world, made[0].job_id)


async def test_what_a_person_has_cancelled_stays_so_unless_it_is_needed(
    ledger: Ledger, world: World
) -> None:
    extract = await world.submit(["a", "b"])
    unwanted, wanted = await world.submit(**after(extract)), await world.submit(**after(extract))
    assert await cancel_job(ledger, unwanted, "soft", actor="eve")
    # As if its parent had ended meanwhile: who was first to ask for it is what counts.
    assert await cancel_job(ledger, unwanted, "hard", actor="server")
    await work(world, "b")
    made = await resume(ledger, extract, actor="ann")
    assert [each.replay_of for each in made] == [extract, wanted]
    await work(world)
    [last] = await resume(ledger, unwanted, actor="ann")
    assert last.replay_of == unwanted
    assert await waits_of(world, last.job_id) == [made[0].job_id]


async def test_other_conditions_are_left_as_they_were_met(ledger: Ledger, world: World) -> None:
    first = await world.submit()
    alarm = await world.submit(depends_on=[{"job": str(first), "condition": "failed"}])
    tidy = await world.submit(depends_on=[{"job": str(first), "condition": "ended"}])
    never = await world.submit(depends_on=[{"job": str(alarm), "condition": "failed"}])
    await work(world, first)
    assert await states(world, alarm, tidy, never) == [SUCCEEDED, SUCCEEDED, KILLED]
    assert [each.replay_of for each in await resume(ledger, first, actor="ann")] == [first]
    [once_more] = await resume(ledger, never, actor="ann")
    await work(world)
    assert await states(world, once_more.job_id) == [KILLED]
    await assert_audit_is_silent(ledger.database)


async def test_what_was_undone_is_done_anew_and_whole(ledger: Ledger, world: World) -> None:
    fields = {
        "entrypoint": {"function": "app:work"},
        "queue": "q",
        "compensation": {"function": "app:undo"},
    }
    graph = [
        Submission(parse_spec(fields), parse_inputs(["out", "back"]), local_name="flight"),
        Submission(
            parse_spec(fields | {"depends_on": ["flight"]}), parse_inputs([1]), local_name="car"
        ),
        Submission(parse_spec(fields | {"depends_on": ["car"]}), parse_inputs(["bed", "view"])),
    ]
    flight, car, hotel = [answer.job_id for answer in await submit_batch(ledger, graph)]
    for claims in (2, 1):
        for claim in await world.claim(claims):
            await world.start(claim)
            await world.succeed(claim)
        await world.run_chores()
    for claim, is_good in zip(await world.claim(2), (True, False), strict=True):
        await world.start(claim)
        await (world.succeed(claim) if is_good else world.fail(claim, "PermanentError"))
    await world.run_chores()
    with pytest.raises(IllegalMove, match="being undone by its compensation"):
        await resume(ledger, hotel, actor="ann")
    await work(world)
    [(undone,)] = await world.clock.fetch("select count(*) from holdfast.undos where succeeded")
    assert undone == 3
    # What was undone is not continued: a part of it stands for nothing.
    await rerun(ledger, hotel, actor="ann", only_unsuccessful=True)
    made = await resume(ledger, flight, actor="ann")
    runs = [(each.replay_of, each.num_tasks) for each in made]
    assert runs == [(flight, 2), (car, 1), (hotel, 2)]
    assert await waits_of(world, made[2].job_id) == [made[1].job_id]
    assert (await world.job(made[2].job_id or 0))["graph_id"] == made[0].job_id
    await work(world)
    assert await states(world, *(each.job_id for each in made)) == [SUCCEEDED] * 3
    await assert_audit_is_silent(ledger.database)


async def test_what_still_runs_is_waited_for_and_what_broke_beside_it_is_left_alone(
    ledger: Ledger, world: World
) -> None:
    fields = {"entrypoint": {"function": "app:work"}, "queue": "q", "replicas": 1}

    def described(name: str, *waits: str, **given: Any) -> Submission:
        spec = parse_spec(fields | {"depends_on": list(waits)} | given)
        return Submission(spec, None, local_name=name)

    graph = [
        described("bad"),
        described("slow", queue="slow"),
        described("worse"),
        described("mine", "bad", "slow"),
        described("others", "slow", "worse"),
    ]
    bad, slow, worse, mine, _ = [answer.job_id for answer in await submit_batch(ledger, graph)]
    await work(world, bad, worse)
    made = await resume(ledger, mine, actor="ann")
    assert [each.replay_of for each in made] == [bad, mine]
    assert await waits_of(world, made[1].job_id) == [slow, made[0].job_id]
    [claim] = await world.claim(queue="slow")
    await world.succeed(claim)
    await work(world, made[1].job_id)
    [alone] = await resume(ledger, mine, actor="ann")
    assert alone.replay_of == made[1].job_id
    assert [(await world.job(each.job_id or 0))["graph_id"] for each in (*made, alone)] == [
        made[0].job_id,
        made[0].job_id,
        None,
    ]


async def test_a_dry_run_tells_and_does_nothing(ledger: Ledger, world: World) -> None:
    extract, _, join, report = await broken_graph(world)
    before = await world.dump()
    told = await resume(ledger, join, actor="ann", dry_run=True)
    assert told == [Resumed(job_id, None, 1, "work") for job_id in (extract, join, report)]
    assert await world.dump() == before


async def test_a_request_under_a_key_is_done_once(ledger: Ledger, world: World) -> None:
    extract, *_ = await broken_graph(world)
    keyed = request_key("resume", "ann", "k", request=[extract])
    answers = await asyncio.gather(
        *(resume(ledger, extract, actor="ann", keyed=keyed) for _ in range(3))
    )
    assert answers[0] == answers[1] == answers[2]
    assert await world.count("jobs") == 7
    other = request_key("resume", "ann", "k", request=[extract + 1])
    with pytest.raises(KeyReused):
        await resume(ledger, extract + 1, actor="ann", keyed=other)


async def test_of_two_that_resume_at_once_one_does_it(ledger: Ledger, world: World) -> None:
    # Without dead letters, which would be locked.
    first = await world.submit(["a", "b"], on_exhausted="fail")
    await world.submit(**after(first))
    await work(world, "b")
    answers = await asyncio.gather(
        *(resume(ledger, first, actor="ann") for _ in range(4)), return_exceptions=True
    )
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert len(refused) == 3
    for error in refused:
        assert isinstance(error, IllegalMove), error
        assert "already" in str(error)
    assert await world.count("jobs") == 4
    await assert_audit_is_silent(ledger.database)


async def test_what_cannot_be_resumed_is_refused_and_changes_nothing(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    extract, table, join, _ = await broken_graph(world)
    live = await world.submit(queue="elsewhere")
    good = await world.submit(queue="done")
    between = await world.submit(queue="done", **after(good))
    await world.submit(queue="done", **after(between))
    for _ in range(3):
        [claim] = await world.claim(queue="done")
        is_good = claim.task_id.job_id <= between
        await (world.succeed(claim) if is_good else world.fail(claim, "PermanentError"))
        await world.run_chores()
    stopping = await world.submit(queue="slow")
    [claim] = await world.claim(queue="slow")
    await world.start(claim)
    await world.cancel_job(stopping, "soft")
    await world.submit(compensation={"function": "app:undo"}, queue="c", on_exhausted="fail")
    [claim] = await world.claim(queue="c")
    await world.start(claim)
    await world.fail(claim, "PermanentError")
    await world.run_chores()
    [claim] = await world.claim(queue="c")
    compensation = claim.task_id.job_id
    await world.cancel_job(compensation)
    before = await world.dump()
    corrected = {TaskId(extract, 2): "1"}
    for job_id, inputs, error, words in (
        (99999, {}, NotFound, "there is no job 99999"),
        (live, {}, IllegalMove, "it is PENDING, and nothing that waits for it was killed in vain"),
        (good, {}, IllegalMove, "it is SUCCEEDED, and nothing"),
        (stopping, {}, IllegalMove, "still stopping"),
        (compensation, {}, Invalid, "replay its dead letter"),
        (
            join,
            corrected | {TaskId(extract, 1): "1"},
            Invalid,
            rf"inputs\[{extract}.1\]: is not run",
        ),
        (join, {TaskId(table, 0): "1"}, Invalid, f"tasks of job {extract} that did not succeed"),
        (extract, {TaskId(extract, 2): "{"}, Invalid, rf"inputs\[{extract}.2\]"),
    ):
        for dry_run in (False, True):
            with pytest.raises(error, match=words):
                await resume(ledger, job_id, actor="ann", inputs=inputs, dry_run=dry_run)
    with pytest.raises(Invalid, match="actor"):
        await resume(ledger, extract, actor="a\0")
    small = Ledger(ledger.database, limits=Limits(graph_jobs_max=2))
    with pytest.raises(TooLarge, match="jobs to be resumed"):
        await resume(small, extract, actor="ann")
    small = Ledger(ledger.database, limits=Limits(tasks_max=2))
    with pytest.raises(TooLarge, match="3 tasks is over the limit of 2 tasks"):
        await resume(small, extract, actor="ann")
    monkeypatch.setattr(resubmission, "INPUTS_BYTES_MAX", 0)
    with pytest.raises(TooLarge, match="inputs"):
        await resume(ledger, extract, actor="ann")
    assert await world.dump() == before


async def test_a_job_whose_output_is_sealed_is_resumed_where_it_may_write(
    ledger: Ledger, world: World
) -> None:
    library = Library(world)
    await library.create()
    job_id = await library.submit(version=1)
    await work(world, job_id)
    await library.cut_over(1)
    with pytest.raises(Invalid, match="rebind_outputs: version 1 of dataset events is"):
        await resume(ledger, job_id, actor="ann")
    await library.open()
    [made] = await resume(ledger, job_id, actor="ann", rebind=True)
    assert await states(world, made.job_id) == [JobState.PENDING]


async def test_large_jobs_are_resumed_in_chunks(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    extract = await world.submit(list("abcdefgh"))
    join = await world.submit(**after(extract, results=True))
    await work(world, *"abcdef")
    shrink_chunks(monkeypatch, 2)
    made = await resume(ledger, join, actor="ann")
    assert [(each.replay_of, each.num_tasks) for each in made] == [(extract, 6), (join, 1)]
    await work(world)
    assert await states(world, *(each.job_id for each in made)) == [SUCCEEDED] * 2
    await assert_audit_is_silent(ledger.database)
