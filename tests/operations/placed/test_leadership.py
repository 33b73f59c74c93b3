"""One leader among the servers: a term is renewed, runs out, is given up, and fences its deeds."""

import asyncio

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.operations.placed.leadership import Deposed, Term, hold_term, lead, resign
from holdfast.store.database import LockTimeout
from tests.world import World


async def a_term(ledger: Ledger, leader: str = "one") -> Term:
    """Begin or renew a term."""
    term = await lead(ledger, leader)
    assert term is not None, "somebody else leads"
    return term


async def hold(ledger: Ledger, term: Term) -> None:
    """Begin a transaction of a term, and end it."""
    async with ledger.database.transaction() as tx:
        await hold_term(tx, term)


async def test_the_first_to_ask_leads_and_the_others_do_not(ledger: Ledger) -> None:
    assert await lead(ledger, "one") == Term("one", 1)
    assert await lead(ledger, "other") is None


async def test_of_many_that_ask_at_once_one_leads(ledger: Ledger) -> None:
    async def ask(leader: str) -> Term | None:
        for _ in range(20):
            try:
                return await lead(ledger, leader)
            except LockTimeout:  # they wait for each other, and on a slow machine for long
                continue
        return None

    asked = await asyncio.gather(*(ask(f"s{n}") for n in range(6)))
    [term] = [term for term in asked if term is not None]
    assert term.epoch == 1


async def test_a_term_that_is_renewed_keeps_its_epoch_and_goes_on(
    ledger: Ledger, world: World
) -> None:
    term = await a_term(ledger)
    for _ in range(3):
        await world.clock.advance(6)
        assert await lead(ledger, "one") == term
        assert await lead(ledger, "other") is None


async def test_a_term_that_has_run_out_goes_to_whoever_asks(ledger: Ledger, world: World) -> None:
    old = await a_term(ledger)
    await world.clock.advance(11)
    new = await a_term(ledger, "other")
    assert new.epoch == old.epoch + 1
    assert await lead(ledger, "one") is None


async def test_a_term_that_has_run_out_is_still_held_until_somebody_else_leads(
    ledger: Ledger, world: World
) -> None:
    term = await a_term(ledger)
    await world.clock.advance(60)
    await hold(ledger, term)
    assert await lead(ledger, "one") == term


async def test_who_resigns_is_followed_at_once_and_never_in_the_same_epoch(
    ledger: Ledger,
) -> None:
    first = await a_term(ledger)
    await resign(ledger, "one")
    second = await a_term(ledger)
    await resign(ledger, "one")
    third = await a_term(ledger, "other")
    assert [first.epoch, second.epoch, third.epoch] == [1, 2, 3]


async def test_who_does_not_lead_cannot_resign(ledger: Ledger) -> None:
    term = await a_term(ledger)
    await resign(ledger, "other")
    await hold(ledger, term)
    assert await lead(ledger, "other") is None


@pytest.mark.parametrize("end", ["taken over", "resigned"])
async def test_a_deposed_leader_can_do_nothing(ledger: Ledger, world: World, end: str) -> None:
    term = await a_term(ledger)
    if end == "resigned":
        await resign(ledger, "one")
    else:
        await world.clock.advance(11)
        await a_term(ledger, "other")
    with pytest.raises(Deposed, match="the term 1 of one is over"):
        await hold(ledger, term)


async def test_neither_the_epoch_nor_the_name_alone_is_enough(ledger: Ledger) -> None:
    term = await a_term(ledger)
    for stranger in (Term("other", term.epoch), Term("one", term.epoch + 1), Term("one", 0)):
        with pytest.raises(Deposed):
            await hold(ledger, stranger)


async def test_whoever_takes_over_waits_for_what_the_leader_has_begun(
    ledger: Ledger, world: World
) -> None:
    term = await a_term(ledger)
    await world.clock.advance(11)
    async with ledger.database.transaction() as tx:
        await hold_term(tx, term)
        with pytest.raises(LockTimeout):
            await lead(ledger, "other")
    assert await lead(ledger, "other") == Term("other", 2)


async def test_who_resigns_lets_the_next_one_wait_for_what_was_begun(
    ledger: Ledger, world: World
) -> None:
    term = await a_term(ledger)
    async with ledger.database.transaction() as tx:
        await hold_term(tx, term)
        await resign(ledger, "one")
        with pytest.raises(LockTimeout):
            await lead(ledger, "other")
    assert await lead(ledger, "other") == Term("other", 2)


async def test_what_a_leader_does_keeps_nobody_from_renewing_its_term(ledger: Ledger) -> None:
    term = await a_term(ledger)
    async with ledger.database.transaction() as tx, ledger.database.transaction() as other:
        await hold_term(tx, term)
        await hold_term(other, term)
        assert await lead(ledger, "one") == term


async def test_a_leader_that_is_gone_is_followed_before_its_term_runs_out(ledger: Ledger) -> None:
    old = await a_term(ledger)
    assert await lead(ledger, "other", is_gone=lambda leader: leader == "someone") is None
    new = await lead(ledger, "other", is_gone=lambda leader: leader == "one")
    assert new == Term("other", old.epoch + 1)
    with pytest.raises(Deposed):
        await hold(ledger, old)
    # It was not gone at all: it loses the term, and nothing else.
    assert await lead(ledger, "one") is None
