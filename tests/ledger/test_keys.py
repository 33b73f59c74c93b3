"""Idempotency keys: one change per key, and everybody who repeats it hears the first answer."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.errors import Invalid, KeyReused, NotFound
from holdfast.ledger.keys import (
    RequestKey,
    keep_answer,
    recall,
    request_key,
    take_key,
    wait_turn,
    write_once,
)
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.dead_letters import dead_letter_task, discard
from holdfast.operations.ending.cancel import cancel_job, cancel_task
from holdfast.operations.submitting.replay import replay
from holdfast.operations.upkeep.prune import Retention, prune
from holdfast.store.database import Database, LockTimeout, Transaction
from tests.world import World

Ask = Callable[[Ledger, TaskId], Coroutine[Any, Any, object]]
HOUR = 3600


def key_of(request: Any, *, key: str = "k", caller: str = "ann") -> RequestKey:
    """Describe a request under a key."""
    keyed = request_key("cut-over", caller, key, request=request)
    assert keyed is not None
    return keyed


async def count(_: Ledger, tx: Transaction, calls: list[int]) -> list[int]:
    """Change something that can be counted."""
    calls.append(len(calls))
    return list(calls)


async def test_the_same_key_returns_the_first_answer(ledger: Ledger) -> None:
    calls: list[int] = []
    first = await write_once(ledger, key_of(7), count, calls, returns=list[int])
    again = await write_once(ledger, key_of(7), count, calls, returns=list[int])
    assert (first, again, calls) == ([0], [0], [0])
    assert await write_once(ledger, None, count, calls, returns=list[int]) == [0, 1]
    assert await recall(ledger, key_of(7), list[int]) == [0]
    assert await recall(ledger, key_of(7, key="new"), list[int]) is None
    assert await recall(ledger, None, list[int]) is None


async def test_a_different_request_under_the_key_is_refused(ledger: Ledger, world: World) -> None:
    calls: list[int] = []
    await write_once(ledger, key_of(7), count, calls, returns=list[int])
    before = await world.dump()
    with pytest.raises(KeyReused, match="'k' was used for a different cut-over") as refused:
        await write_once(ledger, key_of(8), count, calls, returns=list[int])
    assert (refused.value.field, refused.value.job_id) == ("idempotency_key", None)
    assert (calls, await world.dump()) == ([0], before)
    await write_once(ledger, key_of(8, caller="bob"), count, calls, returns=list[int])
    assert calls == [0, 1]


@pytest.mark.parametrize("key", ["", "\x00", "k" * 257])
def test_a_key_is_a_name(key: str) -> None:
    with pytest.raises(Invalid) as refused:
        request_key("cancel", "ann", key, request=None)
    assert refused.value.field == "idempotency_key"


async def test_a_refused_change_leaves_its_key_free(ledger: Ledger, world: World) -> None:
    with pytest.raises(NotFound):
        await cancel_job(ledger, 1, "soft", actor="ann", idempotency_key="k")
    assert await world.count("idempotency_keys") == 0
    job_id = await world.submit()
    assert job_id == 1
    assert await cancel_job(ledger, 1, "soft", actor="ann", idempotency_key="k")


async def test_who_comes_second_waits_and_gets_the_first_answer(
    ledger: Ledger, database_url: str
) -> None:
    calls: list[int] = []
    waits = 0

    async def second() -> list[int]:
        nonlocal waits
        while True:
            try:
                return await other.write(claim_key)
            except LockTimeout:
                waits += 1
                if waits == 2:
                    may_go_on.set()

    async def claim_key(_: Ledger, tx: Transaction) -> list[int]:
        assert not await take_key(tx, key_of(7)), "the key was free while somebody held it"
        return calls

    may_go_on = asyncio.Event()
    async with Database(database_url) as database:
        other = Ledger(database)
        async with ledger.database.transaction() as tx:
            assert await take_key(tx, key_of(7))
            asking = asyncio.create_task(
                write_once(other, key_of(7), count, calls, returns=list[int])
            )
            watching = asyncio.create_task(second())
            # Two waits for a lock have run out: who asked under the key has begun again.
            await asyncio.wait_for(may_go_on.wait(), 20)
            await keep_answer(tx, key_of(7), [41])
        assert await asyncio.wait_for(asking, 20) == [41]
        await asyncio.wait_for(watching, 20)
    assert calls == []


async def test_waiting_has_an_end() -> None:
    tries = 0

    async def busy() -> None:
        nonlocal tries
        tries += 1
        raise LockTimeout("held")

    with pytest.raises(Exception, match="the cut-over under this key is still under way"):
        await wait_turn(key_of(7), busy)
    assert tries == 20


async def lock_all(tx: Transaction, table: str) -> None:
    """Take the rows of a small table."""
    await tx.connection.execute(f"select from holdfast.{table} for update")


@pytest.mark.parametrize(
    ("table", "ask"),
    [
        ("dead_letters", lambda ledger, letter: replay(ledger, [letter], actor="ann")),
        ("dead_letters", lambda ledger, letter: discard(ledger, [letter], actor="ann")),
        ("jobs", lambda ledger, letter: cancel_job(ledger, letter.job_id, "soft", actor="ann")),
    ],
)
async def test_who_needs_rows_in_others_hands_waits_for_seconds(
    ledger: Ledger, database_url: str, world: World, table: str, ask: Ask
) -> None:
    letter = await dead_letter(world)
    async with Database(database_url) as database:
        async with ledger.database.transaction() as tx:
            await lock_all(tx, table)
            asking = asyncio.create_task(ask(Ledger(database), letter))
            for _ in range(2):  # whoever asked at the same moment would have been refused by now
                with pytest.raises(LockTimeout):
                    async with database.transaction() as other:
                        await lock_all(other, table)
            assert not asking.done()
        await asyncio.wait_for(asking, 20)


async def test_a_dry_run_of_a_replay_waits_for_nobody(
    ledger: Ledger, database_url: str, world: World
) -> None:
    letter = await dead_letter(world)
    async with Database(database_url) as database, ledger.database.transaction() as tx:
        await lock_all(tx, "dead_letters")
        [tried] = await replay(Ledger(database), [letter], actor="ann", dry_run=True)
    assert tried.task_ids == (letter,)


async def test_rows_are_not_waited_for_without_end() -> None:
    async def busy() -> None:
        raise LockTimeout("held")

    with pytest.raises(LockTimeout, match="held, and has been for seconds; try again"):
        await wait_turn(None, busy)


async def test_two_connections_racing_with_one_key_replay_once(
    ledger: Ledger, database_url: str, world: World
) -> None:
    letters = [await dead_letter(world) for _ in range(2)]
    keyed = request_key("replay", "ann", "k", request=letters)
    async with Database(database_url) as database:
        answers = await asyncio.gather(
            *(
                replay(mine, letters, actor="ann", keyed=keyed)
                for mine in [ledger, Ledger(database)] * 3
            )
        )
    assert all(answer == answers[0] for answer in answers)
    assert await world.count("jobs") == 4
    with pytest.raises(KeyReused):
        await replay(
            ledger,
            letters[:1],
            actor="ann",
            keyed=request_key("replay", "ann", "k", request=letters[:1]),
        )


async def dead_letter(world: World) -> TaskId:
    """Make a dead letter."""
    await world.submit()
    [mine] = await world.claim()
    await world.fail(mine)
    return mine.task_id


async def test_a_dry_run_of_a_replay_takes_no_key(ledger: Ledger, world: World) -> None:
    letter = await dead_letter(world)
    keyed = request_key("replay", "ann", "k", request=[letter])
    [tried] = await replay(ledger, [letter], actor="ann", dry_run=True, keyed=keyed)
    [made] = await replay(ledger, [letter], actor="ann", keyed=keyed)
    assert (tried.job_id, made.job_id is None) == (None, False)


async def test_a_repeated_cancel_is_told_what_the_first_one_did(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(inputs=[1, 2])
    for _ in range(2):
        assert await cancel_task(ledger, TaskId(job_id, 0), "hard", actor="a", idempotency_key="t")
        assert await cancel_job(ledger, job_id, "soft", actor="a", idempotency_key="j")
    assert not await cancel_job(ledger, job_id, "soft", actor="a")
    with pytest.raises(KeyReused, match="different cancel"):
        await cancel_job(ledger, job_id, "hard", actor="a", idempotency_key="j")
    assert (await world.job(job_id))["cancel_mode"] == "soft"


async def test_a_repeated_burial_and_a_repeated_discard_change_nothing(
    ledger: Ledger, world: World
) -> None:
    letter = TaskId(await world.submit(), 0)
    for _ in range(2):
        await dead_letter_task(ledger, letter, actor="a", idempotency_key="k")
    for _ in range(2):
        await discard(ledger, [letter], actor="a", idempotency_key="k")
    assert (await world.task(letter)).state == TaskState.DEAD_LETTERED
    with pytest.raises(KeyReused, match="different dead-letter"):
        await dead_letter_task(ledger, letter, actor="a", reason="other", idempotency_key="k")


async def test_a_key_is_forgotten_after_its_time(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(replicas=2)
    assert await cancel_job(ledger, job_id, "soft", actor="a", idempotency_key="k")
    await world.clock.advance(HOUR + 1)
    await prune(ledger, Retention())
    assert await world.count("idempotency_keys") == 0
    assert not await cancel_job(ledger, job_id, "soft", actor="a", idempotency_key="k")
