"""Datasets and versions: created, opened, based on each other, dropped."""

from typing import Any

import asyncpg
import pytest

from holdfast.errors import IllegalMove, Invalid, KeyReused, NotFound, TooLarge
from holdfast.operations.datasets import versions as datasets
from holdfast.operations.datasets.versions import create_dataset, open_version, sweep_dropped
from tests.audits import assert_audit_is_silent
from tests.datasets import Library, an_entry
from tests.world import World


@pytest.fixture
async def library(world: World) -> Library:
    """One dataset without a version."""
    library = Library(world)
    await library.create(versions=0)
    return library


async def test_creating_it_again_is_harmless(world: World, library: Library) -> None:
    made: dict[str, Any] = {"actor": "ben", "metadata": {"team": "search"}}
    found, is_new = await create_dataset(world.ledger, "users", **made)
    assert (is_new, found.created_by, found.current_version) == (True, "ben", None)
    assert (await create_dataset(world.ledger, "users", actor="eve"))[1] is False
    assert (await create_dataset(world.ledger, "users", **made))[1] is False
    with pytest.raises(IllegalMove, match="dataset users: it is there with other metadata"):
        await create_dataset(world.ledger, "users", actor="eve", metadata={"team": "ads"})
    for name in ("", "a/b", "x" * 101):
        with pytest.raises(Invalid):
            await create_dataset(world.ledger, name, actor="eve")


async def test_versions_count_from_one_and_a_key_opens_one(library: Library) -> None:
    assert [await library.open(), await library.open()] == [1, 2]
    assert [await library.open(idempotency_key="k") for _ in range(2)] == [3, 3]
    with pytest.raises(KeyReused):
        await library.open(idempotency_key="k", based_on=1)
    with pytest.raises(NotFound, match="there is no dataset others"):
        await library.open("others")


async def test_a_version_begins_with_the_entries_of_another(
    world: World, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    await library.open()
    await library.write(an_entry("a"), an_entry("b"))
    assert await library.open(based_on=1) == 2
    await library.write(an_entry("b", "new"), mode="replace", version=2)
    await library.write(an_entry("c"), version=2)
    assert await library.read(1) == {"a": "s3://bucket/a", "b": "s3://bucket/b"}
    assert await library.read(2) == {
        "a": "s3://bucket/a", "b": "new", "c": "s3://bucket/c",
    }  # fmt: skip
    with pytest.raises(NotFound, match="there is no dataset events with a version 9"):
        await library.open(based_on=9)
    await library.drop(2)
    with pytest.raises(IllegalMove, match="version 2 of dataset events: it is dropped"):
        await library.open(based_on=2)
    monkeypatch.setattr(datasets, "COPIED_MAX", 1)
    with pytest.raises(TooLarge, match="based_on: 2 entries is over the limit of 1 entries"):
        await library.open(based_on=1)
    await assert_audit_is_silent(world.ledger.database)


async def test_a_dropped_version_loses_its_entries_and_keeps_its_record(
    world: World, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "SWEPT_MAX", 2)
    await library.open()
    await library.write(*(an_entry(str(n)) for n in range(5)))
    await library.cut_over(1)
    await library.open()
    await library.cut_over(2)
    assert await library.drop(1)
    assert not await library.drop(1)
    assert [await sweep_dropped(world.ledger) for _ in range(4)] == [2, 2, 1, 0]
    assert await library.read(1) == {}
    [row] = await world.clock.fetch("select * from holdfast.dataset_versions where version = 1")
    assert (row["state"], row["entries"], row["dropped_by"]) == ("dropped", 5, "ann")
    assert await library.open() == 3
    with pytest.raises(IllegalMove, match="cut over to version 1 of dataset events: it is dropped"):
        await library.cut_over(1)
    await assert_audit_is_silent(world.ledger.database)


async def test_what_is_current_or_being_written_is_not_dropped(
    world: World, library: Library
) -> None:
    await library.open()
    job_id = await library.submit()
    with pytest.raises(IllegalMove, match=rf"being written by jobs .*\({job_id}\)"):
        await library.drop(1)
    await world.cancel_job(job_id)
    await library.cut_over(1)
    with pytest.raises(IllegalMove, match="it is the current one"):
        await library.drop(1)
    with pytest.raises(NotFound):
        await library.drop(9)


GUARDED = [
    ("a_dataset_is_named_plainly",
     "insert into datasets (name, created_at, created_by) values ('a/b', now(), 'x')"),
    ("the_current_version_is_sealed", "update datasets set current_version = 2"),
    ("there_is_a_current_version_from_the_first_cut_over_on",
     "update datasets set current_version = null"),
    ("a_version_is_filled_then_sealed_then_dropped",
     "update dataset_versions set state = 'open', cut_over_at = null, entries = null, "
     "size_bytes = null where version = 1"),
    ("a_version_is_filled_then_sealed_then_dropped",
     "update dataset_versions set entries = 9 where version = 1"),
    ("a_version_is_filled_then_sealed_then_dropped",
     "update dataset_versions set created_by = 'eve' where version = 2"),
    ("a_version_is_remembered", "delete from dataset_versions where version = 2"),
    ("the_current_version_is_not_dropped",
     "update dataset_versions set state = 'dropped', dropped_at = now(), dropped_by = 'x' "
     "where version = 1"),
    ("a_cut_over_is_history", "update cut_overs set actor = 'eve'"),
    ("a_cut_over_is_history", "delete from cut_overs"),
    ("a_job_stays_bound_to_its_version", "update job_outputs set version = 2"),
    ("a_commit_never_changes", "update commits set entries = 2"),
    ("a_task_commits_once", "insert into commits select * from commits"),
    ("a_commit_goes_with_a_success",
     "insert into commits values (2, 0, 0, 1, now()); set constraints all immediate"),
    ("entries_go_into_open_versions",
     "insert into dataset_entries select dataset, version, 'x', partition_key, uri, size_bytes, "
     "checksum, metadata, job_id, task_index, attempt, committed_at from dataset_entries"),
    ("entries_are_written_by_commits",
     "insert into dataset_entries select dataset, 2, 'x', partition_key, uri, size_bytes, "
     "checksum, metadata, 2, 0, 0, committed_at from dataset_entries"),
    ("a_version_has_a_key_once", "insert into dataset_entries select * from dataset_entries"),
    ("an_entry_never_changes", "update dataset_entries set uri = 'x'"),
    ("a_sealed_version_keeps_its_entries", "delete from dataset_entries"),
    ("a_trigger_runs_once_per_version",
     "insert into trigger_runs (dataset, trigger, version, requested_at, due_at) select 'events', "
     "'t', 1, now(), now() from generate_series(1, 2)"),
]  # fmt: skip


async def test_the_schema_refuses_what_must_never_happen(
    world: World, library: Library, database_url: str
) -> None:
    await library.open()
    await library.write(an_entry("a"))
    await library.cut_over(1)
    await library.open()
    await library.submit()
    connection = await asyncpg.connect(database_url)
    try:
        for constraint, statement in GUARDED:
            await connection.execute("begin; set local search_path = holdfast")
            with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refused:
                await connection.execute(statement)
            assert refused.value.constraint_name == constraint
            await connection.execute("rollback")
        with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refused:
            await connection.execute(
                "begin; update holdfast.dataset_versions set state = 'sealed', entries = 0, "
                "size_bytes = 0, cut_over_at = now() where version = 2; "
                "update holdfast.datasets set current_version = 2; commit"
            )
        assert refused.value.constraint_name == "every_cut_over_is_recorded"
    finally:
        await connection.close()
    assert await open_version(world.ledger, "events", actor="ann") == datasets.Opened(3)
