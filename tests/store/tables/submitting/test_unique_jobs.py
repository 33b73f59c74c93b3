"""Keys of unique jobs, taken in one call for all jobs of a transaction."""

import json
from typing import Any

import pytest

from holdfast.store.database import Database
from holdfast.store.tables.submitting.unique_jobs import FoundKey, WantedKey, take_unique_keys
from tests.world import World


def wanted(job_id: int, value: Any, **rule: Any) -> WantedKey:
    """Describe a job whose key is made of a value."""
    spec = {"type": "work", "owner": "ann", "unique": {"values": [value]} | rule}
    return WantedKey(job_id, json.dumps(spec), None, "ann")


@pytest.mark.parametrize("value", [1, "x", None, {"a": [1, {}]}])
async def test_keys_are_those_of_values(database: Database, world: World, value: Any) -> None:
    async with database.transaction() as tx:
        now = await tx.now()
        jobs = [wanted(1, value), wanted(2, [value]), wanted(3, value)]
        found = await take_unique_keys(tx, jobs, now=now)
    assert found == [FoundKey(None, None, None)] * 2 + [FoundKey("first", 1, None)]
    assert await world.count("unique_jobs") == 2


async def test_of_those_that_come_together_the_last_replaces_the_others(
    database: Database, world: World
) -> None:
    async with database.transaction() as tx:
        jobs = [
            wanted(1, 1),
            wanted(2, 1),
            wanted(3, 1, on_conflict="replace"),
            wanted(4, 1, on_conflict="refuse"),
            wanted(5, 1, on_conflict="replace"),
        ]
        found = await take_unique_keys(tx, jobs, now=await tx.now())
    assert [(key.answer, key.holder) for key in found] == [
        ("first", 5),
        ("first", 5),
        ("first", 5),
        ("refused", 5),
        (None, None),
    ]
    [row] = await world.clock.fetch("select job_id from holdfast.unique_jobs")
    assert row[0] == 5
