"""Many want one name at once: one gets it, and all others are told who that is."""

import asyncio
from functools import partial
from uuid import uuid4

import asyncpg
import pytest

from holdfast.errors import IllegalMove, LeaseConflict, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.endpoints import (
    ENDPOINTS_MAX,
    get_endpoint,
    list_endpoints,
    register_endpoint,
    remove_endpoint,
)
from holdfast.operations.upkeep.prune import Retention, prune
from holdfast.store.database import Database, LockTimeout
from holdfast.store.tables.output.endpoints import Published
from tests.waiting import eventually, insist
from tests.world import World, fence_of

ROUNDS = 20


@pytest.fixture
async def rivals(world: World) -> list[Claim]:
    """Two tasks of two jobs, both claimed."""
    for _ in range(2):
        await world.submit(lease=120.0)
    return await world.claim(2)


async def publish(ledger: Ledger, claim: Claim, name: str) -> Published:
    """Publish the id of a task under a name."""
    fence, address = fence_of(claim), str(claim.task_id)
    return await insist(lambda: register_endpoint(ledger, fence, name, address=address))


async def find(ledger: Ledger, name: str) -> str:
    async with ledger.database.transaction() as tx:
        return (await get_endpoint(tx, name)).address


async def waited_for(world: World, call: asyncio.Task[object]) -> None:
    """Wait until a call waits for a lock, or has given up already."""

    async def is_waited_for() -> bool:
        [row] = await world.clock.fetch(
            "select exists (select from pg_stat_activity where datname = current_database() "
            "and wait_event_type = 'Lock')"
        )
        return bool(row[0]) or call.done()

    await eventually(is_waited_for)


async def test_of_two_that_want_a_name_at_once_exactly_one_gets_it(
    ledger: Ledger, rivals: list[Claim], database_url: str
) -> None:
    async with Database(database_url) as elsewhere:
        ledgers = (ledger, Ledger(elsewhere))
        for number in range(ROUNDS):
            name = f"race/{number}"
            answers = await asyncio.gather(
                *(publish(at, each, name) for at, each in zip(ledgers, rivals, strict=True)),
                return_exceptions=True,
            )
            [won] = [answer for answer in answers if isinstance(answer, Published)]
            [lost] = [answer for answer in answers if not isinstance(answer, Published)]
            assert isinstance(lost, IllegalMove)
            assert f"held by attempt {won.address}.0, " in str(lost)
            assert await find(ledger, name) == won.address


async def test_of_two_that_want_the_name_of_an_ended_one_exactly_one_gets_it(
    ledger: Ledger, world: World, rivals: list[Claim]
) -> None:
    await world.submit()
    [third] = await world.claim()
    for number in range(ROUNDS):
        await publish(ledger, third, f"race/{number}")
    await world.succeed(third)
    for number in range(ROUNDS):
        answers = await asyncio.gather(
            *(publish(ledger, claim, f"race/{number}") for claim in rivals),
            return_exceptions=True,
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["IllegalMove", "Published"]


async def test_one_that_waited_for_a_name_is_told_by_whom_it_was_taken(
    ledger: Ledger, world: World, rivals: list[Claim], database_url: str
) -> None:
    """The other one's lease begins only while this one waits for the name."""
    holding = await asyncpg.connect(database_url)

    async def meet() -> str:
        name = f"n{uuid4().hex}"
        late = TaskId(await world.submit(), 0)
        await holding.execute(
            "insert into holdfast.endpoints values ($1, 'gone', 1, 0, 0, $2, now())", name, uuid4()
        )
        async with holding.transaction():
            await holding.execute(
                "update holdfast.endpoints set address = 'x' where name = $1", name
            )
            fence = fence_of(rivals[0])
            waiting = asyncio.create_task(register_endpoint(ledger, fence, name, address="host:1"))
            await waited_for(world, waiting)
            claim = await world.claim_by_id(late, worker="w2")
            await holding.execute(
                "update holdfast.endpoints set job_id = $2, lease_token = $3 where name = $1",
                name,
                late.job_id,
                claim.lease_token,
            )
        with pytest.raises(IllegalMove) as refused:
            await waiting
        return str(refused.value).replace(str(late), "LATE")

    try:
        assert "held by attempt LATE.0, " in await insist(meet)
    finally:
        await holding.close()


async def test_an_attempt_that_ends_while_it_publishes_holds_nothing(
    ledger: Ledger, world: World, rivals: list[Claim]
) -> None:
    mine, other = rivals
    published, ended, _ = await asyncio.gather(
        publish(ledger, mine, "db"),
        insist(lambda: world.succeed(mine)),
        publish(ledger, other, "db"),
        return_exceptions=True,
    )
    assert isinstance(published, Published | LeaseConflict | IllegalMove)
    assert not isinstance(ended, BaseException)
    async with ledger.database.transaction() as tx:
        page = await list_endpoints(tx, page_size=10)
    assert {row.address for row in page.rows} <= {str(other.task_id)}
    await publish(ledger, other, "db")


async def test_names_taken_at_once_are_counted_one_after_the_other(
    ledger: Ledger, rivals: list[Claim]
) -> None:
    mine = rivals[0]
    for number in range(ENDPOINTS_MAX - 1):
        await publish(ledger, mine, f"n{number}")
    for _ in range(ROUNDS):
        answers = await asyncio.gather(
            *(publish(ledger, mine, name) for name in ("x", "y", "z")), return_exceptions=True
        )
        [won] = [answer for answer in answers if isinstance(answer, Published)]
        refused = [answer for answer in answers if isinstance(answer, TooLarge)]
        assert len(refused) == 2
        assert await insist(partial(remove_endpoint, ledger, fence_of(mine), won.name))


async def test_a_name_that_is_taken_over_while_it_is_pruned_stays(
    ledger: Ledger, world: World, rivals: list[Claim], database_url: str
) -> None:
    mine, other = rivals
    await publish(ledger, mine, "db")
    await world.succeed(mine)
    taking = await asyncpg.connect(database_url)
    try:
        async with taking.transaction():
            await taking.execute(
                "update holdfast.endpoints set job_id = $1, lease_token = $2",
                other.task_id.job_id,
                other.lease_token,
            )
            pruning = asyncio.create_task(prune(ledger, Retention()))
            await waited_for(world, pruning)
        assert isinstance(
            (await asyncio.gather(pruning, return_exceptions=True))[0], int | LockTimeout
        )
        assert await find(ledger, "db") == str(mine.task_id)
    finally:
        await taking.close()
