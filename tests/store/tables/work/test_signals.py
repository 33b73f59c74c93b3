"""The tables of signals through their functions."""

from datetime import timedelta

import asyncpg
import pytest

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.tables.work.signals import (
    PutSignal,
    WaitKey,
    ask_wait,
    find_wait,
    list_asked,
    park,
    put_signal,
    take_signal,
    time_out_wait,
)
from tests.world import World


async def put(tx: Transaction, task_id: TaskId, payload: str) -> PutSignal:
    return await put_signal(tx, *task_id, name="approval", payload=payload, key=None, sender="boss")


async def test_signals_end_waits_in_their_order(world: World, tx: Transaction) -> None:
    task_id = TaskId(await world.submit(), 0)
    assert await put(tx, task_id, "1") == PutSignal("sent", 0, 1)
    assert await put(tx, task_id, "2") == PutSignal("sent", 0, 2)
    for number in (1, 2, 3):
        key = WaitKey(task_id, "approval", number)
        assert await find_wait(tx, key) is None
        await ask_wait(tx, key, attempt=0, timeout=timedelta())
        taken = await take_signal(tx, key)
        assert taken == (str(number) if number < 3 else None)
        assert await time_out_wait(tx, key) == (number == 3)
        found = await find_wait(tx, key)
        assert found is not None
        assert (found.has_ended, found.payload) == (True, taken)
    assert await list_asked(tx, [(task_id, 0)]) == {}


async def test_an_open_wait_is_that_of_the_attempt_that_asked_last(
    world: World, tx: Transaction
) -> None:
    task_id = TaskId(await world.submit(), 0)
    for attempt in (0, 1):
        await ask_wait(tx, WaitKey(task_id, "yes", 1), attempt=attempt, timeout=None)
    assert await list_asked(tx, [(task_id, 0)]) == {}
    assert await list_asked(tx, [(task_id, 1)]) == {task_id: "yes"}
    await park(tx, [(task_id, 1)])  # nothing waits in line: nothing is put off
    found = await find_wait(tx, WaitKey(task_id, "yes", 1))
    assert found is not None
    assert (found.until, found.has_ended) == (None, False)


async def test_a_signal_ends_one_wait(world: World, tx: Transaction) -> None:
    task_id = TaskId(await world.submit(), 0)
    await put(tx, task_id, "1")
    for number in (1, 2):
        await ask_wait(tx, WaitKey(task_id, "approval", number), attempt=0, timeout=None)
    assert await take_signal(tx, WaitKey(task_id, "approval", 1)) == "1"
    with pytest.raises(asyncpg.UniqueViolationError, match="a_signal_ends_one_wait"):
        await tx.connection.execute(
            "update holdfast.signal_waits set signal_number = 1, ended_at = now() where number = 2"
        )
