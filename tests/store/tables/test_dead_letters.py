"""The table of dead letters through its functions."""

from holdfast.model.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.tables.dead_letters import (
    DeadLetterFilter,
    NewDeadLetter,
    dead_letter_tasks,
    list_dead_letters,
    lock_dead_letters,
    mark_discarded,
    mark_replayed,
)
from tests.world import World

FIRST = TaskId(0, -1)
OPEN = DeadLetterFilter()


async def test_a_dead_letter_is_open_until_it_is_replayed_or_discarded(
    world: World, tx: Transaction
) -> None:
    job_id = await world.submit(["a", "b"], type="t")
    ids = [TaskId(job_id, index) for index in range(2)]
    new = [NewDeadLetter(task_id, "policy_violation", "me", "enough") for task_id in ids]
    await dead_letter_tasks(tx, new)
    letters = await list_dead_letters(tx, OPEN, after=FIRST, batch_max=9)
    assert [(letter.task_index, letter.type, letter.input) for letter in letters] == [
        (0, "t", '"a"'),
        (1, "t", '"b"'),
    ]
    await mark_replayed(tx, ids[:1], replayed_as=job_id)
    await mark_discarded(tx, ids[1:], actor="me")
    locked = await lock_dead_letters(tx, [*reversed(ids), TaskId(job_id, 9)])
    assert [letter.replayed_as for letter in locked.values()] == [job_id, None]
    assert [letter.discarded_at is None for letter in locked.values()] == [True, False]
    assert await list_dead_letters(tx, OPEN, after=FIRST, batch_max=9) == []
    any_letter = DeadLetterFilter(job_id=job_id, open_only=False)
    assert len(await list_dead_letters(tx, any_letter, after=ids[0], batch_max=9)) == 1
