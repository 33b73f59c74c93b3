"""The table of dead letters through its functions."""

from holdfast.model.work.ids import TaskId
from holdfast.operations.submitting.replay import replay
from holdfast.store.database import Transaction
from holdfast.store.reads.work.dead_letters import DeadLetterFilter, list_open_ids
from holdfast.store.tables.work.dead_letters import (
    NewDeadLetter,
    dead_letter_tasks,
    lock_dead_letters,
    mark_discarded,
    mark_replayed,
    measure_letter_inputs,
    read_letter_inputs,
    reopen_letters,
)
from tests.operations.letters import dead_inputs
from tests.world import World


async def test_a_dead_letter_is_open_until_it_is_replayed_or_discarded(
    world: World, tx: Transaction
) -> None:
    job_id = await world.submit(["a", "b"], type="t")
    ids = [TaskId(job_id, index) for index in range(2)]
    new = [NewDeadLetter(task_id, "policy_violation", "me", "enough") for task_id in ids]
    await dead_letter_tasks(tx, new)
    assert await read_letter_inputs(tx, ids) == dict(zip(ids, ['"a"', '"b"'], strict=True))
    assert (await measure_letter_inputs(tx, ids), await measure_letter_inputs(tx, [])) == (6, 0)
    assert await list_open_ids(tx, DeadLetterFilter(type="t"), count_max=9) == ids
    await mark_replayed(tx, {ids[0]: job_id})
    await mark_discarded(tx, ids[1:], actor="me")
    locked = await lock_dead_letters(tx, [*reversed(ids), TaskId(job_id, 9)])
    assert [letter.replayed_as for letter in locked.values()] == [job_id, None]
    assert [letter.discarded_at is None for letter in locked.values()] == [True, False]
    assert await list_open_ids(tx, DeadLetterFilter(), count_max=9) == []


async def test_letters_are_open_again_while_the_replay_they_were_given_to_has_not_started(
    world: World, tx: Transaction
) -> None:
    job_id = await dead_inputs(world, 2, 2)
    ids = [TaskId(job_id, index) for index in range(2)]
    first, other = [(await replay(world.ledger, [each], actor="me"))[0].job_id for each in ids]
    assert first is not None
    assert other is not None
    await reopen_letters(tx, [first, job_id])
    assert await list_open_ids(tx, DeadLetterFilter(), count_max=9) == ids[:1]
    await tx.connection.execute(
        "update holdfast.jobs set started_at = now() where job_id = $1", other
    )
    await reopen_letters(tx, [other])
    assert await list_open_ids(tx, DeadLetterFilter(), count_max=9) == ids[:1]
