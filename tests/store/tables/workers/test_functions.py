"""The table of functions through its functions."""

import asyncio

from holdfast.ledger.ledger import Ledger
from holdfast.model.workers.functions import AnnouncedFunction, FunctionOptions
from holdfast.store.database import Database, Transaction
from holdfast.store.tables.submitting.policies import load_policies
from holdfast.store.tables.workers.functions import (
    advance_functions,
    announce_functions,
    drop_old_functions,
    find_function,
    list_functions,
    list_functions_beyond,
    read_function_options,
)
from tests.waiting import eventually
from tests.world import World

FIRST = AnnouncedFunction(path="a:b", options=FunctionOptions(queue="q"), doc="Does it.")
SECOND = AnnouncedFunction(path="a:c")


async def test_only_what_is_new_is_written(world: World, tx: Transaction) -> None:
    assert await announce_functions(tx, [SECOND, FIRST], announced_by="w1") == ["a:b", "a:c"]
    assert await announce_functions(tx, [FIRST], announced_by="w2") == []
    stored = await find_function(tx, "a:b")
    assert stored is not None
    assert (stored.read(), stored.announced_by) == (FIRST, "w1")
    other = AnnouncedFunction(path="a:b", options=FunctionOptions(queue="r"), doc="Does it.")
    assert await announce_functions(tx, [other], announced_by="w2") == ["a:b"]
    said = AnnouncedFunction(path="a:b", options=other.options, doc="Does it well.")
    assert await announce_functions(tx, [said], announced_by="w3") == []
    found = await list_functions(tx, after="", batch_max=9)
    assert [(each.path, each.announced_by) for each in found] == [("a:b", "w3"), ("a:c", "w1")]
    assert [each.path for each in await list_functions(tx, after="a:b", batch_max=9)] == ["a:c"]
    assert await find_function(tx, "a:d") is None


async def test_once_an_hour_it_is_written_that_a_function_is_still_there(world: World) -> None:
    changed_at = set()
    for hours, announced_by in ((0, "w1"), (1, "w1"), (1, "w3")):
        await world.clock.advance(hours * 3600)
        async with world.ledger.database.transaction() as tx:
            assert bool(await announce_functions(tx, [FIRST], announced_by=announced_by)) == (
                hours == 0
            )
            stored = await find_function(tx, "a:b")
        assert stored is not None
        assert stored.announced_by == announced_by
        changed_at.add(stored.changed_at)
    assert len(changed_at) == 1  # it is the same function as ever


async def test_what_another_has_changed_meanwhile_is_changed_back_with_a_word(world: World) -> None:
    database = world.ledger.database
    other = AnnouncedFunction(path="a:b", options=FunctionOptions(queue="r"))
    async with database.transaction() as tx:
        await announce_functions(tx, [FIRST], announced_by="w1")
    await world.clock.advance(2 * 3600)

    async def repeat() -> list[str]:
        async with database.transaction() as tx:
            return await announce_functions(tx, [FIRST], announced_by="w1")

    async with database.transaction() as tx:
        await announce_functions(tx, [other], announced_by="w2")
        repeating = asyncio.create_task(repeat())
        await eventually(lambda: is_anybody_waiting(database))
    assert await repeating == ["a:b"]


async def is_anybody_waiting(database: Database) -> bool:
    async with database.connection() as connection:
        return bool(await connection.fetchval("select true from pg_locks where not granted"))


async def test_those_that_were_announced_last_are_kept(tx: Transaction) -> None:
    await announce_functions(tx, [FIRST], announced_by="w")
    await announce_functions(tx, [SECOND], announced_by="w")
    assert await drop_old_functions(tx, functions_max=1) == 1
    assert [each.path for each in await list_functions(tx, after="", batch_max=9)] == ["a:c"]


async def test_a_change_of_options_is_a_change_of_the_book(ledger: Ledger) -> None:
    async with ledger.database.transaction() as tx:
        await announce_functions(tx, [FIRST], announced_by="w")
        await advance_functions(tx)
    functions = {"a:b": FIRST.options}
    assert await load_policies(ledger.database) == (1, {}, functions)
    assert await read_function_options(ledger.database) == functions


async def test_who_is_kept_to_queues_leaves_alone_what_is_announced_for_others(
    tx: Transaction,
) -> None:
    await announce_functions(tx, [FIRST, SECOND], announced_by="w1")
    mine = [
        AnnouncedFunction(path=path, options=FunctionOptions(queue="r")) for path in ("a:b", "a:c")
    ]
    assert await announce_functions(tx, mine, announced_by="w2", queues=["r"]) == []
    beyond = await list_functions_beyond(tx, ["a:b", "a:c", "a:d"], queues=["r"])
    assert beyond == {"a:b": "q", "a:c": None}
    assert await announce_functions(tx, mine, announced_by="w2", queues=["q", "r"]) == ["a:b"]
    assert await list_functions_beyond(tx, ["a:b"], queues=["r"]) == {}
