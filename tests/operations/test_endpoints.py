"""Endpoints: published by whoever holds a live lease, found while it lives, and never longer."""

from typing import Any
from uuid import uuid4

import pytest

from holdfast.errors import IllegalMove, Invalid, LeaseConflict, NotFound, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.endpoints import (
    ADDRESS_LENGTH_MAX,
    ENDPOINTS_MAX,
    METADATA_BYTES_MAX,
    get_endpoint,
    list_endpoints,
    register_endpoint,
    remove_endpoint,
)
from holdfast.operations.upkeep.prune import Retention, prune
from holdfast.store.tables.output.endpoints import Published
from tests.gangs import a_gang
from tests.world import World, fence_of


@pytest.fixture
async def mine(world: World) -> Claim:
    """A task that has been claimed."""
    await world.submit(max_retries_failure=5, backoff={"base": 0.0})
    [claim] = await world.claim()
    return claim


@pytest.fixture
async def other(world: World, mine: Claim) -> Claim:
    """A task of another job that has been claimed too."""
    await world.submit()
    [claim] = await world.claim(worker="w2")
    return claim


async def publish(
    ledger: Ledger, claim: Claim | Fence, name: str = "db", *, address: str = "host:1"
) -> Published:
    fence = claim if isinstance(claim, Fence) else fence_of(claim)
    return await register_endpoint(ledger, fence, name, address=address)


async def find(ledger: Ledger, name: str = "db") -> str | None:
    """Look up a name; None if it is not found."""
    async with ledger.database.transaction() as tx:
        try:
            return (await get_endpoint(tx, name)).address
        except NotFound:
            return None


async def names(ledger: Ledger, prefix: str = "") -> list[str]:
    """List names, a few at a time."""
    found: list[str] = []
    after: str | None = ""
    async with ledger.database.transaction() as tx:
        while after is not None:
            page = await list_endpoints(tx, prefix, after=after, page_size=2)
            found += [row.name for row in page.rows]
            after = page.next_after
    return found


async def rows(world: World) -> list[Any]:
    """Read the whole table, what is stale included."""
    return await world.clock.fetch("select * from holdfast.endpoints order by name")


async def retry(world: World, claim: Claim) -> Claim:
    """Let an attempt fail, and claim the next one."""
    await world.fail(claim)
    await world.run_chores()
    return await world.claim_by_id(claim.task_id)


async def test_what_is_published_is_found(ledger: Ledger, mine: Claim) -> None:
    said = '{"protocol": "grpc"}'
    made = await register_endpoint(
        ledger, fence_of(mine), "models/ranker", address="10.0.0.7:80", metadata=said
    )
    assert (made.name, made.address) == ("models/ranker", "10.0.0.7:80")
    assert (TaskId(made.job_id, made.task_index), made.attempt) == (mine.task_id, mine.attempt)
    async with ledger.database.transaction() as tx:
        assert await get_endpoint(tx, "models/ranker") == made
        assert made.metadata == said
        assert (await list_endpoints(tx, page_size=10)).rows == [made]


async def test_what_nobody_has_published_is_not_found(ledger: Ledger, mine: Claim) -> None:
    await publish(ledger, mine)
    assert await find(ledger, "d") is None
    async with ledger.database.transaction() as tx:
        with pytest.raises(NotFound, match="there is no endpoint dbs"):
            await get_endpoint(tx, "dbs")


async def test_publishing_again_changes_the_address(ledger: Ledger, mine: Claim) -> None:
    await publish(ledger, mine, address="host:1")
    await publish(ledger, mine, address="host:2")
    assert await find(ledger) == "host:2"
    assert await names(ledger) == ["db"]


@pytest.mark.parametrize(
    "status", ["succeeded", "failed", "killed", "worker_failed", "handed_back"]
)
async def test_it_is_gone_with_the_end_of_its_attempt(
    ledger: Ledger, world: World, mine: Claim, status: str
) -> None:
    await publish(ledger, mine)
    await world.complete(mine, status)
    assert await find(ledger) is None
    assert await names(ledger) == []


async def test_it_is_gone_while_the_lease_is_ending(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    await publish(ledger, mine)
    await world.cancel_task(mine.task_id, "hard")
    assert await world.lease(mine.task_id) is not None
    assert await find(ledger) is None


async def test_it_is_gone_when_the_lease_has_run_out(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    await publish(ledger, mine)
    await world.pass_time(60)
    assert await find(ledger) is None


async def test_it_stays_while_its_attempt_is_asked_to_stop(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    await world.cancel_task(mine.task_id, "soft")
    await publish(ledger, mine)
    assert await find(ledger) == "host:1"


async def test_a_name_that_a_running_task_has_is_refused_and_says_who_has_it(
    ledger: Ledger, world: World, mine: Claim, other: Claim
) -> None:
    await publish(ledger, mine)
    before = await rows(world)
    with pytest.raises(IllegalMove) as refused:
        await publish(ledger, other, address="elsewhere:1")
    assert f"held by attempt {mine.task_id}.{mine.attempt}" in str(refused.value)
    assert await rows(world) == before


async def test_a_name_whose_holder_has_ended_can_be_had(
    ledger: Ledger, world: World, mine: Claim, other: Claim
) -> None:
    await publish(ledger, mine)
    await world.succeed(mine)
    await publish(ledger, other, address="elsewhere:1")
    assert await find(ledger) == "elsewhere:1"


async def test_a_name_whose_holder_is_ending_can_be_had(
    ledger: Ledger, world: World, mine: Claim, other: Claim
) -> None:
    await publish(ledger, mine)
    await world.cancel_task(mine.task_id, "hard")
    await publish(ledger, other, address="elsewhere:1")
    with pytest.raises(LeaseConflict):
        await publish(ledger, mine)
    assert await find(ledger) == "elsewhere:1"


async def test_the_next_attempt_takes_over_and_the_stale_one_cannot_take_it_back(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    await publish(ledger, mine)
    again = await retry(world, mine)
    assert await find(ledger) is None
    await publish(ledger, again, address="host:2")
    with pytest.raises(LeaseConflict):
        await publish(ledger, mine)
    with pytest.raises(LeaseConflict):
        await remove_endpoint(ledger, fence_of(mine), "db")
    assert await find(ledger) == "host:2"


async def test_a_stranger_publishes_and_removes_nothing(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    await publish(ledger, mine)
    before = await rows(world)
    for stranger in (
        Fence(mine.task_id, mine.attempt, uuid4()),
        Fence(mine.task_id, mine.attempt + 1, mine.lease_token),
        Fence(TaskId(mine.task_id.job_id, 1), mine.attempt, mine.lease_token),
    ):
        with pytest.raises(LeaseConflict):
            await publish(ledger, stranger)
        with pytest.raises(LeaseConflict):
            await remove_endpoint(ledger, stranger, "db")
    assert await rows(world) == before


async def test_what_is_removed_is_gone_and_free(ledger: Ledger, mine: Claim, other: Claim) -> None:
    await publish(ledger, mine)
    assert not await remove_endpoint(ledger, fence_of(other), "db")
    assert await find(ledger) == "host:1"
    assert await remove_endpoint(ledger, fence_of(mine), "db")
    assert not await remove_endpoint(ledger, fence_of(mine), "db")
    await publish(ledger, other)


async def test_placed_attempts_publish_too(ledger: Ledger, world: World) -> None:
    gang = await a_gang(world, replicas=2)
    await gang.place()
    await publish(ledger, gang.fences[0])
    with pytest.raises(IllegalMove):
        await publish(ledger, gang.fences[1])
    await gang.complete(m1="worker_failed")
    assert await find(ledger) is None


async def test_a_list_is_by_name_and_begins_as_asked(
    ledger: Ledger, world: World, mine: Claim, other: Claim
) -> None:
    for name in ("b", "a/2", "a/10", "a", "A", "a/z:9", "aa"):
        await publish(ledger, mine, name)
    for number in range(5):
        await publish(ledger, other, f"a/1{number + 1}")
    await world.succeed(other)
    assert await names(ledger) == ["A", "a", "a/10", "a/2", "a/z:9", "aa", "b"]
    assert await names(ledger, "a/") == ["a/10", "a/2", "a/z:9"]
    assert await names(ledger, "a/2") == ["a/2"]
    assert await names(ledger, "c") == []


async def test_an_attempt_has_a_hundred_names_at_most(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    for number in range(ENDPOINTS_MAX):
        await publish(ledger, mine, f"n{number}")
    with pytest.raises(TooLarge) as refused:
        await publish(ledger, mine, "one-more")
    assert (refused.value.field, refused.value.limit) == ("name", ENDPOINTS_MAX)
    await publish(ledger, mine, "n7", address="host:2")
    await remove_endpoint(ledger, fence_of(mine), "n8")
    await publish(ledger, mine, "one-more")
    again = await retry(world, mine)
    await publish(ledger, again, "n7")


BAD = [
    ("name", {"name": ""}),
    ("name", {"name": "-x"}),
    ("name", {"name": "a b"}),
    ("name", {"name": "a~"}),
    ("name", {"name": "a\x00b"}),
    ("name", {"name": "x" * 257}),
    ("address", {"address": ""}),
    ("address", {"address": "a\x00b"}),
    ("address", {"address": "x" * (ADDRESS_LENGTH_MAX + 1)}),
    ("metadata", {"metadata": "{"}),
    ("metadata", {"metadata": '"\\u0000"'}),
    ("metadata", {"metadata": f'"{"x" * METADATA_BYTES_MAX}"'}),
]


async def test_bad_input_names_its_field_and_changes_nothing(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    for field, fields in BAD:
        given: dict[str, Any] = {"name": "db", "address": "host:1"} | fields
        with pytest.raises(Invalid) as refused:
            await register_endpoint(ledger, fence_of(mine), given.pop("name"), **given)
        assert refused.value.field == field, fields
    bad_fence = Fence(mine.task_id, -1, mine.lease_token)
    for call in (publish(ledger, bad_fence), remove_endpoint(ledger, bad_fence, "db")):
        with pytest.raises(Invalid) as refused:
            await call
        assert refused.value.field == "attempt"
    assert await rows(world) == []
    async with ledger.database.transaction() as tx:
        with pytest.raises(Invalid):
            await get_endpoint(tx, "a b")
        with pytest.raises(Invalid):
            await list_endpoints(tx, "x" * 257, page_size=1)


async def test_what_its_attempt_has_outlived_is_pruned_and_nothing_else(
    ledger: Ledger, world: World, mine: Claim, other: Claim
) -> None:
    await publish(ledger, mine, "goes")
    await publish(ledger, other, "stays")
    await publish(ledger, mine, "ending")
    assert await prune(ledger, Retention()) == 0
    await world.cancel_task(mine.task_id, "hard")
    assert await prune(ledger, Retention()) == 2
    assert [row["name"] for row in await rows(world)] == ["stays"]
    assert await find(ledger, "stays") == "host:1"
