"""Schedules as people read them, by name and page."""

from datetime import timedelta

import pytest

from holdfast.errors import NotFound
from holdfast.store.database import Database
from holdfast.store.reads import schedules as reads
from tests.timetable import MINUTE, Timetable, at
from tests.world import World

MIDNIGHT = at("2030-01-01T00:00")


async def test_lists_have_the_last_firings_and_what_was_missed(
    world: World, database: Database
) -> None:
    timetable = Timetable(world)
    await timetable.go_to(MIDNIGHT + timedelta(seconds=0.5))
    for name in ("b", "a", "c"):
        await timetable.set(name, cron="* * * * *", overlap="allow")
    for minutes in (1, 2, 10):
        await timetable.go_to(MIDNIGHT + minutes * MINUTE)
        await timetable.fire()
    async with database.transaction() as tx:
        rows = await reads.list_schedules(tx, after="a", count_max=5)
        assert [row.name for row in rows] == ["b", "c"]
        ids = [row.schedule_id for row in rows]
        last = await reads.list_last_firings(tx, ids, count_max=2)
        assert last[ids[0]][0].instant == MIDNIGHT + 10 * MINUTE
        assert {len(firings) for firings in last.values()} == {2}
        assert last[ids[0]][0].job_state is not None
        missed = await reads.count_misses(tx, ids)
        assert missed[ids[0]] == (7, MIDNIGHT + 9 * MINUTE)
        [miss] = await reads.list_last_misses(tx, ids[0], count_max=5)
        assert miss[:3] == (MIDNIGHT + 3 * MINUTE, MIDNIGHT + 9 * MINUTE, 7)
        page = await reads.list_firings(tx, ids[0], before=MIDNIGHT + 2 * MINUTE, count_max=5)
        assert [f.instant for f in page] == [MIDNIGHT + MINUTE]
        with pytest.raises(NotFound, match="schedule"):
            await reads.get_schedule(tx, "d")
