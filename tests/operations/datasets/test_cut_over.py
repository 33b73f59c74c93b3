"""Cut-overs: at once, recorded, repeatable, and back again."""

import pytest

from holdfast.errors import IllegalMove, Invalid, KeyReused, NotFound
from tests.audits import assert_audit_is_silent
from tests.datasets import Library, an_entry
from tests.world import World


@pytest.fixture
async def library(world: World) -> Library:
    """One dataset with two open versions."""
    library = Library(world)
    await library.create(versions=2)
    return library


async def test_a_cut_over_seals_counts_and_is_recorded(world: World, library: Library) -> None:
    await library.write(an_entry("a", size_bytes=3), an_entry("b", size_bytes=4), version=1)
    made = await library.cut_over(1, reason="first")
    assert (made.version, made.previous, made.changed) == (1, None, True)
    [version] = await world.clock.fetch("select * from holdfast.dataset_versions where version = 1")
    assert (version["state"], version["entries"], version["size_bytes"]) == ("sealed", 2, 7)
    assert version["cut_over_at"] == made.at
    await library.cut_over(2)
    back = await library.cut_over(1)
    assert (back.previous, back.changed) == (2, True)
    rows = await world.clock.fetch(
        "select number, version, previous, actor, reason, forced from holdfast.cut_overs "
        "order by number"
    )
    assert [tuple(row) for row in rows] == [
        (1, 1, None, "ann", "first", False), (2, 2, 1, "ann", None, False),
        (3, 1, 2, "ann", None, False),
    ]  # fmt: skip
    await assert_audit_is_silent(world.ledger.database)


async def test_what_is_current_already_is_left(world: World, library: Library) -> None:
    await library.cut_over(1)
    before = await world.dump()
    assert not (await library.cut_over(1)).changed
    assert await world.dump() == before


async def test_a_repeat_under_its_key_does_not_turn_back(library: Library) -> None:
    first = await library.cut_over(1, idempotency_key="k")
    await library.cut_over(2)
    assert await library.cut_over(1, idempotency_key="k") == first
    assert not (await library.cut_over(2)).changed
    with pytest.raises(KeyReused, match="was used for a different cut-over"):
        await library.cut_over(2, idempotency_key="k")


async def test_live_jobs_stand_in_the_way_unless_it_is_forced(
    world: World, library: Library
) -> None:
    job_id = await library.submit(version=1)
    before = await world.dump()
    with pytest.raises(IllegalMove, match=rf"not ended \({job_id}\); wait for them"):
        await library.cut_over(1)
    assert await world.dump() == before
    assert (await library.cut_over(1, force=True)).changed
    [row] = await world.clock.fetch("select forced from holdfast.cut_overs")
    assert row[0]
    await library.submit(version=2)
    [first, second] = await world.claim(2)
    await world.fail(first, "PermanentError")
    await library.commit(second, an_entry())
    assert (await library.cut_over(2)).changed
    await assert_audit_is_silent(world.ledger.database)


@pytest.mark.parametrize("version", [0, -1, 2**31])
async def test_what_is_no_version_is_refused(library: Library, version: int) -> None:
    with pytest.raises(Invalid, match="version: is out of range"):
        await library.cut_over(version)


async def test_what_is_not_there_is_not_found(library: Library) -> None:
    with pytest.raises(NotFound, match="there is no dataset events with a version 3"):
        await library.cut_over(3)
    with pytest.raises(NotFound, match="there is no dataset others"):
        await library.cut_over(1, "others")
