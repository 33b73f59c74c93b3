"""A resume after replays of some dead letters: what these made good is not run a second time."""

import json

import pytest

from holdfast.errors import IllegalMove, Invalid
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import JobState
from holdfast.operations.submitting.replay import Manner, replay
from holdfast.operations.submitting.rerun import rerun
from holdfast.operations.submitting.resume import resume
from holdfast.store.tables.work.jobs import hold_jobs
from tests.api.face import Face
from tests.audits import assert_audit_is_silent
from tests.operations.broken_graphs import after, states, waits_of, work
from tests.world import World

SUCCEEDED = JobState.SUCCEEDED


async def broken(world: World, *fail: str) -> tuple[int, int]:
    """Run an extract over six inputs, of which some fail, and a join that waits for it in vain."""
    extract = await world.submit(list("abcdef"))
    join = await world.submit(**after(extract, results=True))
    await work(world, *fail)
    return extract, join


async def letters_of(world: World, job_id: int) -> list[TaskId]:
    """List the open dead letters of a job."""
    return [row.id for row in await world.dead_letters() if row.job_id == job_id]


async def replay_some(ledger: Ledger, task_ids: list[TaskId]) -> int:
    [made] = await replay(ledger, task_ids, actor="ann")
    assert made.job_id is not None
    return made.job_id


async def inputs_of(world: World, job_id: int | None) -> list[str]:
    rows = await world.clock.fetch(
        "select input::text from holdfast.tasks where job_id = $1 order by task_index", job_id
    )
    return [json.loads(row[0]) for row in rows]


async def results_of(face: Face, job_id: int | None, page_size: int = 100) -> list[str]:
    """Read the results of a job as its dependents get them, page by page."""
    path, found = f"/api/jobs/{job_id}/results?page_size={page_size}", []
    token: str | None = ""
    while token is not None:
        said = await face.get(path + (f"&page_token={token}" if token else ""))
        assert said.status == 200, said
        found += [result["result"] for result in said.json["results"]]
        token = said.json["next_page_token"]
    return found


async def test_what_a_replay_of_some_made_good_is_not_run_again(
    ledger: Ledger, world: World, quiet_face: Face
) -> None:
    extract, join = await broken(world, "b", "c", "e")
    part = await replay_some(ledger, [TaskId(extract, 1), TaskId(extract, 4)])
    await work(world)
    with pytest.raises(IllegalMove, match="SUCCEEDED, and nothing that waits for it"):
        await resume(ledger, part, actor="ann")
    with pytest.raises(Invalid, match=rf"inputs\[{extract}.1\]"):
        await resume(ledger, join, actor="ann", inputs={TaskId(extract, 1): "1"}, dry_run=True)
    made = await resume(ledger, join, actor="ann")
    assert [(each.replay_of, each.num_tasks) for each in made] == [(extract, 1), (join, 1)]
    assert await inputs_of(world, made[0].job_id) == ["c"]
    assert await waits_of(world, made[1].job_id) == [made[0].job_id]
    await work(world)
    assert await states(world, *(each.job_id for each in made)) == [SUCCEEDED] * 2
    for page_size in (1, 2, 3, 100):
        assert await results_of(quiet_face, made[0].job_id, page_size) == list("abcdef")
    await assert_audit_is_silent(ledger.database)


async def test_a_job_made_good_by_several_replays_is_not_run_again_at_all(
    ledger: Ledger, world: World, quiet_face: Face
) -> None:
    extract, join = await broken(world, *"abcdef")
    letters = await letters_of(world, extract)
    made = await replay(ledger, letters, actor="ann", manner=Manner(canary=2))
    with pytest.raises(IllegalMove, match=f"job {made[0].job_id}: it is still running tasks of"):
        await resume(ledger, join, actor="ann")
    await work(world)
    [again] = await resume(ledger, extract, actor="ann")
    assert again.replay_of == join
    rest = made[1].job_id
    assert await waits_of(world, again.job_id) == [rest]
    await work(world)
    assert await states(world, again.job_id) == [SUCCEEDED]
    for page_size in (1, 3, 100):
        assert await results_of(quiet_face, rest, page_size) == list("abcdef")
    with pytest.raises(IllegalMove, match=f"run again by job {rest} already"):
        await resume(ledger, extract, actor="ann")
    await assert_audit_is_silent(ledger.database)


async def test_a_replay_that_stands_in_is_only_held_so_several_may_build_on_it_at_once(
    ledger: Ledger, world: World
) -> None:
    extract, join = await broken(world, "b", "c")
    parts = [await replay_some(ledger, [TaskId(extract, index)]) for index in (1, 2)]
    await work(world)
    async with ledger.database.transaction() as tx:
        assert set(await hold_jobs(tx, parts)) == set(parts)
        [again] = await resume(ledger, join, actor="ann")
    with pytest.raises(IllegalMove, match=f"run again by job {again.job_id} already"):
        await resume(ledger, join, actor="ann")
    await assert_audit_is_silent(ledger.database)


async def test_results_are_those_of_the_replays_that_counted_when_it_was_resumed(
    ledger: Ledger, world: World, quiet_face: Face
) -> None:
    async def undo(job_id: int) -> None:
        await world.clock.advance(1)
        await world.clock.fetch(
            "insert into holdfast.undos (job_id, graph_id, cause_job_id, requested_at) "
            "values ($1, $1, $1, holdfast.now())",
            job_id,
        )
        await world.clock.advance(1)

    extract, join = await broken(world, "b", "c", "e")
    parts = [await replay_some(ledger, [TaskId(extract, index)]) for index in (1, 2)]
    await work(world)
    await undo(parts[0])
    made = await resume(ledger, join, actor="ann")
    assert await inputs_of(world, made[0].job_id) == ["b", "e"]
    await work(world)
    await undo(parts[1])
    for page_size in (1, 2, 100):
        assert await results_of(quiet_face, made[0].job_id, page_size) == list("abcdef")


async def test_what_failed_in_a_replay_and_succeeded_in_the_next_is_made_good(
    ledger: Ledger, world: World, quiet_face: Face
) -> None:
    extract, join = await broken(world, *"bcde")
    first = await replay_some(ledger, [TaskId(extract, 1), TaskId(extract, 2)])
    await work(world, "c")
    second = await replay_some(ledger, [TaskId(first, 1)])
    await replay_some(ledger, [TaskId(extract, 3)])
    await work(world, "d")
    made = await resume(ledger, join, actor="ann")
    assert await inputs_of(world, made[0].job_id) == ["d", "e"]
    # Made good by a replay that came later than the resume: that has run it itself.
    await work(world, "e")
    again = await resume(ledger, join, actor="ann")
    assert await inputs_of(world, again[0].job_id) == ["e"]
    await work(world)
    assert await results_of(quiet_face, again[0].job_id, 2) == list("abcdef")
    assert await states(world, second, again[1].job_id) == [SUCCEEDED] * 2
    await assert_audit_is_silent(ledger.database)


async def test_a_replay_that_continues_another_stands_for_the_whole_job_once_it_has_to(
    ledger: Ledger, world: World, quiet_face: Face
) -> None:
    extract, join = await broken(world, "b", "c", "e")
    first = await replay_some(ledger, [TaskId(extract, 1), TaskId(extract, 2)])
    await replay_some(ledger, [TaskId(extract, 4)])
    await work(world, "c")
    last = await replay_some(ledger, [TaskId(first, 1)])
    await work(world)
    assert await results_of(quiet_face, last) == ["b", "c"]
    [again] = await resume(ledger, join, actor="ann")
    assert (again.replay_of, await waits_of(world, again.job_id)) == (join, [last])
    for page_size in (1, 2, 100):
        assert await results_of(quiet_face, last, page_size) == list("abcdef")
    await work(world)
    assert await states(world, again.job_id) == [SUCCEEDED]
    await assert_audit_is_silent(ledger.database)


async def test_a_replay_on_which_others_build_keeps_its_results(
    ledger: Ledger, world: World, quiet_face: Face
) -> None:
    extract, join = await broken(world, "b", "c", "e")
    first = await replay_some(ledger, [TaskId(extract, 1), TaskId(extract, 2)])
    await replay_some(ledger, [TaskId(extract, 4)])
    await work(world, "c")
    last = await replay_some(ledger, [TaskId(first, 1)])
    await world.submit(**after(last, results=True))
    await work(world)
    with pytest.raises(IllegalMove, match=f"job {last}: it is .* run job {extract} again"):
        await resume(ledger, join, actor="ann")
    assert await results_of(quiet_face, last) == ["b", "c"]
    whole = await rerun(ledger, extract, actor="ann", only_unsuccessful=True)
    [again] = await resume(ledger, join, actor="ann")
    assert await waits_of(world, again.job_id) == [whole.job_id]
    await assert_audit_is_silent(ledger.database)


async def test_a_replay_lets_what_waited_go_on(
    ledger: Ledger, world: World, quiet_face: Face
) -> None:
    extract, join = await broken(world, "b", "c")
    asked = {"filter": {"job_id": str(extract)}, "resume": True}
    path = "/api/dead-letters:replay"
    dry = (await quiet_face.post(path, asked | {"dry_run": True})).json
    assert (dry["killed_in_vain"], dry["waited_for"]) == (1, [str(extract)])
    assert dry["resumed"] == []
    keyed = asked | {"idempotency_key": "once"}
    done, again = [(await quiet_face.post(path, keyed)).json for _ in range(2)]
    assert (done["replays"], done["resumed"]) == (again["replays"], again["resumed"])
    [resumed] = done["resumed"]
    assert (resumed["replay_of"], done["not_resumed"]) == (str(join), {})
    [made] = done["replays"]
    assert await waits_of(world, int(resumed["job_id"])) == [int(made["job_id"])]
    await work(world)
    assert await states(world, int(resumed["job_id"])) == [SUCCEEDED]
    assert await results_of(quiet_face, int(made["job_id"])) == list("abcdef")
    await assert_audit_is_silent(ledger.database)
