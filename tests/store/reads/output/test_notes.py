"""What user code has written, searched across jobs on a real ledger."""

from typing import Any

import pytest

from holdfast.operations.claiming.claim import Claim
from holdfast.operations.notes import Note, add_user_event
from holdfast.store.database import Database
from holdfast.store.reads.output import events, notes
from holdfast.store.reads.output.events import Event, Moment
from holdfast.store.reads.output.notes import list_notes, search_user_events
from tests.world import World, fence_of


async def write(world: World, claim: Claim, *kinds: str) -> None:
    """Write events of user code, a second apart."""
    for kind in kinds:
        await add_user_event(world.ledger, fence_of(claim), Note(kind, '{"rows": 3}'))
        await world.clock.advance(1)


async def search(
    database: Database, kind: str = "user", *, page_size: int = 100, **bounds: Any
) -> list[Event]:
    """Search page by page, however many it takes."""
    found: list[Event] = []
    following: Moment | None = bounds.pop("after", Moment())
    asked = {"correlation_id": None, "until": None} | bounds
    async with database.transaction() as tx:
        while following is not None:
            page, following = await search_user_events(
                tx, kind, **asked, after=following, page_size=page_size
            )
            found += page
    return found


@pytest.fixture
async def two_orders(world: World) -> list[int]:
    """Two jobs of one order and another one, whose code writes in turn."""
    job_ids = [await world.submit(correlation_id=order) for order in ("o1", "o1", "o2")]
    claims = {claim.task_id.job_id: claim for claim in await world.claim(3)}
    await write(world, claims[job_ids[0]], "loaded", "checked")
    await write(world, claims[job_ids[2]], "loaded")
    await write(world, claims[job_ids[1]], "loaded")
    await world.succeed(claims[job_ids[0]])
    return job_ids


@pytest.mark.parametrize("small", [True, False], ids=["by job", "by time"])
@pytest.mark.parametrize("page_size", [1, 100])
async def test_it_is_found_by_kind_time_and_correlation(
    database: Database,
    two_orders: list[int],
    monkeypatch: pytest.MonkeyPatch,
    *,
    page_size: int,
    small: bool,
) -> None:
    monkeypatch.setattr(events, "CORRELATED_TASKS_MAX", 100 if small else 0)
    monkeypatch.setattr(notes, "NOTES_EXAMINED_MAX", 2)
    first, second, other = two_orders

    async def found(kind: str = "user", **bounds: Any) -> list[tuple[int, str]]:
        listed = await search(database, kind, page_size=page_size, **bounds)
        assert {event.actor for event in listed} <= {"w1"}
        return [(event.job_id, event.type) for event in listed]

    whole = [
        (first, "user:loaded"),
        (first, "user:checked"),
        (other, "user:loaded"),
        (second, "user:loaded"),
    ]
    assert await found() == whole
    assert await found("user:checked") == whole[1:2]
    assert await found(correlation_id="o1") == [*whole[:2], whole[3]]
    assert await found("user:loaded", correlation_id="o1") == [whole[0], whole[3]]
    assert await found(correlation_id="nobody") == []
    _, late, *_ = await search(database)
    assert await found(after=Moment(late.ts)) == whole[1:]
    assert await found(until=late.ts) == whole[:1]
    assert await found(correlation_id="o1", until=late.ts) == whole[:1]


async def test_an_event_reads_the_same_in_a_search_and_in_its_job(
    database: Database, two_orders: list[int]
) -> None:
    async with database.transaction() as tx:
        listed = await list_notes(tx, two_orders[0], "user", after=Moment(), page_size=10)
    assert listed == (await search(database))[:2]
    assert listed == (await search(database, correlation_id="o1"))[:2]
    assert [event.payload for event in listed] == ['{"rows": 3}'] * 2
