"""Dead letters: who goes there, how they are found, and how they come back as new jobs."""

from typing import Any

import pytest

from holdfast.errors import IllegalMove, Invalid, NotFound
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.dead_letters import dead_letter_task, discard
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.submitting.replay import replay
from tests.operations.letters import dead_inputs, found
from tests.world import World

DEAD = TaskState.DEAD_LETTERED


async def test_an_operator_dead_letters_a_pending_task(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(on_exhausted="fail")
    await dead_letter_task(ledger, TaskId(job_id, 0), actor="ann", reason="malformed")
    assert await world.story(job_id) == ["dead_lettered"]
    assert await world.job_state(job_id) == DEAD
    [letter] = await world.dead_letters()
    assert (letter.reason_code, letter.attempts) == ("policy_violation", 0)
    assert (letter.last_error, letter.stage) == ("malformed", None)
    assert (await world.job(job_id))["error"] == "malformed"


async def test_an_operator_dead_letters_a_task_that_waits_for_its_retry(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(max_retries_failure=1)
    [mine] = await world.claim()
    await world.fail(mine)
    await dead_letter_task(ledger, TaskId(job_id, 0), actor="ann", reason="malformed")
    assert await world.count("waiting") == 0
    [letter] = await world.dead_letters()
    assert (letter.attempts, letter.last_error, letter.stage) == (1, "malformed", "exec")


@pytest.mark.parametrize(
    ("state", "stage"), [(TaskState.ASSIGNED, "fetch"), (TaskState.RUNNING, "exec")]
)
async def test_an_operator_dead_letters_an_open_task_with_two_events(
    ledger: Ledger, world: World, state: TaskState, stage: str
) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    if state == TaskState.RUNNING:
        await world.start(mine)
    await dead_letter_task(ledger, mine.task_id, actor="ann", reason="poison")
    assert (await world.story(job_id))[-2:] == ["killed", "dead_lettered"]
    task = await world.task(mine.task_id)
    assert (task.state, task.attempts[0]["state"]) == (DEAD, TaskState.KILLED)
    assert (await world.lease(mine.task_id))["ending"]  # type: ignore[index]
    [letter] = await world.dead_letters()
    assert (letter.last_error, letter.stage) == ("poison", stage)
    assert not (await world.succeed(mine)).accepted
    assert (await world.task(mine.task_id)).state == DEAD


async def test_both_events_of_an_operators_call_carry_the_operator(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit()
    await world.claim()
    await dead_letter_task(ledger, TaskId(job_id, 0), actor="ann")
    rows = await world.clock.fetch(
        "select actor from holdfast.events where type in ('killed', 'dead_lettered') "
        "and task_index >= 0"
    )
    assert [row[0] for row in rows] == ["ann", "ann"]


async def test_a_finished_task_cannot_be_dead_lettered(ledger: Ledger, world: World) -> None:
    done = await world.submit()
    await world.succeed((await world.claim())[0])
    killed = await world.submit()
    await world.cancel_job(killed)
    dead = await dead_inputs(world, 1, 1)
    before = await world.dump()
    for job_id in (done, killed, dead):
        with pytest.raises(IllegalMove):
            await dead_letter_task(ledger, TaskId(job_id, 0), actor="ann")
    with pytest.raises(NotFound):
        await dead_letter_task(ledger, TaskId(done, 1), actor="ann")
    assert await world.dump() == before


async def test_a_dead_replica_ends_its_siblings(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(replicas=2)
    [mine] = await world.claim()
    await dead_letter_task(ledger, TaskId(job_id, 1), actor="ann")
    await follow_up_all(ledger)
    assert await world.job_state(job_id) == DEAD
    assert (await world.task(mine.task_id)).state == TaskState.KILLED


async def test_letters_are_found_by_what_they_are(ledger: Ledger, world: World) -> None:
    first = await dead_inputs(world, 2, 2, type="resize", queue="a")
    second = await dead_inputs(world, 1, 1, type="mail", queue="b")
    [mine] = await _claimed(world, type="mail", queue="c")
    await world.complete(mine, "failed", error_class="ValidationError", stage="input")
    third = mine.task_id
    both = [TaskId(first, 0), TaskId(first, 1)]
    assert await found(world) == [*both, TaskId(second, 0), third]
    assert await found(world, type="resize") == both
    assert await found(world, queue="b") == [TaskId(second, 0)]
    assert await found(world, type="mail", queue="c") == [third]
    assert await found(world, reason_code="validation_failed") == [third]
    assert await found(world, stage="input") == [third]
    assert await found(world, job_id=first) == both
    assert await found(world, job_id=10**6) == []


async def test_a_letter_is_replayed_once(ledger: Ledger, world: World) -> None:
    job_id = await dead_inputs(world, 2, 2)
    await replay(ledger, [TaskId(job_id, 0)], actor="ann")
    before = await world.dump()
    with pytest.raises(IllegalMove, match="replayed as job"):
        await replay(ledger, [TaskId(job_id, 1), TaskId(job_id, 0)], actor="ann")
    with pytest.raises(IllegalMove):
        await discard(ledger, [TaskId(job_id, 0)], actor="ann")
    assert await world.dump() == before


async def test_a_discarded_letter_stays_readable_and_is_settled(
    ledger: Ledger, world: World
) -> None:
    job_id = await dead_inputs(world, 1, 1)
    await discard(ledger, [TaskId(job_id, 0)], actor="ann")
    assert await found(world) == []
    [letter] = await world.dead_letters(open_only=False)
    assert letter.discarded_at is not None
    for again in (replay, discard):
        with pytest.raises(IllegalMove, match="discarded"):
            await again(ledger, [TaskId(job_id, 0)], actor="ann")


async def test_bad_words_and_unknown_ids_change_nothing(ledger: Ledger, world: World) -> None:
    job_id = await dead_inputs(world, 1, 1)
    task_id = TaskId(job_id, 0)
    before = await world.dump()
    for ids in ([], [task_id, task_id], [task_id] * 10_001):
        with pytest.raises(Invalid, match="task_ids"):
            await replay(ledger, ids, actor="ann")
    for call in (replay, discard):
        with pytest.raises(Invalid, match="actor"):
            await call(ledger, [task_id], actor="\x00")
        with pytest.raises(Invalid, match="task_id"):
            await call(ledger, [TaskId(0, 0)], actor="ann")
        with pytest.raises(NotFound):
            await call(ledger, [task_id, TaskId(job_id, 7)], actor="ann")
    with pytest.raises(Invalid, match="reason"):
        await dead_letter_task(ledger, task_id, actor="ann", reason="\x00")
    with pytest.raises(Invalid, match="task_id"):
        await dead_letter_task(ledger, TaskId(1, -1), actor="ann")
    assert await world.dump() == before


async def _claimed(world: World, **fields: Any) -> Any:
    await world.submit(**fields)
    return await world.claim(queue=fields["queue"])
