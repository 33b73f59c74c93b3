"""What people have done, by who, what, to what and since when."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.store.database import Database
from holdfast.store.reads.actions import ActionFilter, list_actions
from holdfast.store.tables.access.actions import NewAction, record_actions
from tests.world import World

DONE = [
    NewAction("ann", "cancel", "job", "1"),
    NewAction("bob", "cancel", "task", "1"),
    NewAction("ann", "pause_queue", "queue", "1"),
]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [2, 1, 0]),
        ({"actor": "ann"}, [2, 0]),
        ({"action": "cancel"}, [1, 0]),
        ({"subject_kind": "task"}, [1]),
        ({"subject_kind": "job", "subject": "1"}, [0]),
        ({"subject_kind": "job", "subject": "2"}, []),
        ({"actor": "ann", "action": "cancel"}, [0]),
    ],
)
async def test_they_are_listed_by_what_is_wanted(
    database: Database, wanted: dict[str, Any], found: list[int]
) -> None:
    async with database.transaction() as tx:
        await record_actions(tx, DONE)
        rows = await list_actions(tx, ActionFilter(**wanted), count_max=10)
    assert [row[2:6] for row in rows] == [DONE[number][:4] for number in found]


async def test_they_are_listed_since_a_time_and_page_by_page(
    world: World, database: Database
) -> None:
    async with database.transaction() as tx:
        await record_actions(tx, DONE[:1])
        await world.clock.advance(60)
        now = await tx.now()
        await record_actions(tx, DONE[1:])
        recent = ActionFilter(since=now - timedelta(seconds=30))
        newest, older = await list_actions(tx, recent, count_max=10)
        assert (newest.actor, older.actor) == ("ann", "bob")
        [oldest] = await list_actions(tx, ActionFilter(), before=older.action_id, count_max=10)
        assert oldest.subject_kind == "job"
