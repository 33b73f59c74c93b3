"""What is read of datasets: in order, in pages, and of one version at a time."""

import pytest

from holdfast.errors import IllegalMove, NotFound
from holdfast.store.reads import datasets
from tests.datasets import Library, an_entry
from tests.world import World


@pytest.fixture
async def library(world: World) -> Library:
    """One dataset with two open versions, three entries in each."""
    library = Library(world)
    await library.create(versions=2)
    await library.write(an_entry("a"), an_entry("b"), an_entry("c", metadata={"n": 1}), version=1)
    await library.write(an_entry("b"), an_entry("c", "new"), an_entry("d"), version=2)
    return library


async def test_datasets_are_listed_by_name_in_pages(world: World, library: Library) -> None:
    for name in ("users", "events.raw", "Events"):
        await library.create(name, 0)
    async with world.ledger.database.transaction() as tx:
        page = await datasets.list_datasets(tx, page_size=3)
        assert [row.name for row in page.rows] == ["Events", "events", "events.raw"]
        rest = await datasets.list_datasets(tx, after=page.next_after or "", page_size=3)
        assert ([row.name for row in rest.rows], rest.next_after) == (["users"], None)
        found = await datasets.list_datasets(tx, "events", page_size=9)
        assert [(row.name, row.newest_version) for row in found.rows] == [
            ("events", 2), ("events.raw", None),
        ]  # fmt: skip
        with pytest.raises(NotFound, match="there is no dataset others"):
            await datasets.get_dataset(tx, "others")


async def test_versions_and_cut_overs_are_listed_newest_first(
    world: World, library: Library
) -> None:
    await library.cut_over(1)
    await library.cut_over(2, reason="better")
    async with world.ledger.database.transaction() as tx:
        page = await datasets.list_versions(tx, "events", page_size=1)
        assert ([row.version for row in page.rows], page.next_after) == ([2], 2)
        rest = await datasets.list_versions(tx, "events", before=2, page_size=1)
        assert ([row.version for row in rest.rows], rest.next_after) == ([1], None)
        history = await datasets.list_cut_overs(tx, "events", page_size=1)
        assert (history.rows[0].version, history.rows[0].reason) == (2, "better")
        earlier = await datasets.list_cut_overs(
            tx, "events", before=history.next_after or 0, page_size=5
        )
        assert [row.number for row in earlier.rows] == [1]
        for read in (datasets.list_versions, datasets.list_cut_overs):
            with pytest.raises(NotFound):
                await read(tx, "others", page_size=1)
        with pytest.raises(NotFound):
            await datasets.list_triggers(tx, "others")


async def test_a_version_is_found_by_its_number_or_as_the_current_one(
    world: World, library: Library
) -> None:
    async with world.ledger.database.transaction() as tx:
        with pytest.raises(NotFound, match="there is no current version of dataset events"):
            await datasets.get_version(tx, "events", None)
        with pytest.raises(NotFound, match="there is no dataset events with a version 3"):
            await datasets.get_version(tx, "events", 3)
    await library.cut_over(1)
    async with world.ledger.database.transaction() as tx:
        current = await datasets.get_version(tx, "events", None)
        assert (current.version, current.state, current.entries) == (1, "sealed", 3)


async def test_entries_are_read_by_key_until_they_are_dropped(
    world: World, library: Library
) -> None:
    async with world.ledger.database.snapshot() as tx:
        version = await datasets.get_version(tx, "events", 1)
        page = await datasets.list_entries(tx, "events", version, page_size=2)
        assert ([row.key for row in page.rows], page.next_after) == (["a", "b"], "b")
        rest = await datasets.list_entries(tx, "events", version, after="b", page_size=2)
        assert [(row.key, row.metadata) for row in rest.rows] == [("c", '{"n": 1}')]
        assert rest.next_after is None
    await library.drop(1)
    async with world.ledger.database.snapshot() as tx:
        version = await datasets.get_version(tx, "events", 1)
        with pytest.raises(IllegalMove, match="cannot read version 1 of dataset events"):
            await datasets.list_entries(tx, "events", version, page_size=2)


@pytest.mark.parametrize("stretch", [1, 2, 1000])
async def test_versions_are_compared_in_pages(
    world: World, library: Library, stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "STRETCH", stretch)
    found, after = [], ""
    async with world.ledger.database.snapshot() as tx:
        old, new = [await datasets.get_version(tx, "events", number) for number in (1, 2)]
        for _ in range(10):
            page = await datasets.compare_versions(
                tx, "events", old, other=new, after=after, page_size=2
            )
            assert len(page.differences) <= 2
            found += [(each.kind, each.key) for each in page.differences]
            if page.next_after is None:
                break
            after = page.next_after
    assert found == [("removed", "a"), ("changed", "c"), ("added", "d")]
