"""Five weeks of two servers, of which one or the other dies while it fires, and of outages.

In them a leap day, clocks that are put forward in New York and Berlin, and back in Sydney.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from random import Random

import pytest

from holdfast.errors import Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.operations.schedules.fire import fire_due
from holdfast.rules.schedules.instants import due_at, instants_after
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.rules.schedules.test_turn import plain_turn
from tests.timetable import Timetable, at
from tests.world import World

BEGIN, END = at("2028-02-28T00:00:00.5"), at("2028-04-03T00:00")
SCHEDULES = {
    "berlin": ScheduleTerms(cron="30 2 * * *", tz="Europe/Berlin", catch_up="all"),
    "new york": ScheduleTerms(cron="0,30 2 * * *", tz="America/New_York", catch_up="one"),
    "sydney": ScheduleTerms(cron="*/30 2 * * *", tz="Australia/Sydney"),
    "leap day": ScheduleTerms(cron="0 12 29 2 *", tz="Europe/Paris", catch_up="one"),
    "interval": ScheduleTerms(every=5 * 3600, start_at=BEGIN, catch_up="all", catch_up_max=2),
    "spread": ScheduleTerms(cron="0 */12 * * *", jitter=3600.0, catch_up="one"),
}
OVERLAP = {"overlap": "allow"}


def terms_of(name: str) -> ScheduleTerms:
    """Give the terms of a schedule; jobs of this story are never done."""
    fields = {field: getattr(SCHEDULES[name], field) for field in ScheduleTerms.__struct_fields__}
    return ScheduleTerms(**fields | OVERLAP)


class Plain:
    """What should become of one schedule, by all its instants and the moments of looks."""

    def __init__(self, name: str) -> None:
        self.name, self.terms = name.replace(" ", "-"), terms_of(name)
        self.coming = list(instants_after_until(self.terms, BEGIN, END + timedelta(days=9)))
        self.fired: list[datetime] = []
        self.missed = 0

    def look(self, now: datetime) -> None:
        """Decide about what has come."""
        come = 0
        while due_at(self.name, self.terms, self.coming[come]) <= now:
            come += 1
        waiting, self.coming = self.coming[:come], self.coming[come:]
        fired, missed = plain_turn(self.terms, waiting, now)
        self.fired += fired
        self.missed += len(missed)


def instants_after_until(terms: ScheduleTerms, begin: datetime, end: datetime) -> list[datetime]:
    """List the instants of a time."""
    found = []
    for instant in instants_after(terms, begin):
        found.append(instant)
        if instant > end:
            break
    return found


async def look(ledgers: Sequence[Ledger], draw: Random) -> int:
    """Let both servers fire at once; now and then one of them is killed while it does."""
    turns = [asyncio.create_task(fire_due(ledger)) for ledger in ledgers]
    victim = draw.choice(turns) if draw.random() < 0.4 else None
    if victim is not None:
        for _ in range(draw.randrange(40)):
            await asyncio.sleep(0)
        await asyncio.sleep(draw.random() * 0.01)
        victim.cancel()
    killed = 0
    for turn in turns:
        try:
            with suppress(Unavailable):
                await turn
        except asyncio.CancelledError:
            killed += 1
    return killed


@pytest.mark.parametrize("seed", [1])
async def test_each_instant_of_five_weeks_fires_once_as_its_schedule_says(
    world: World, database_url: str, seed: int
) -> None:
    timetable, draw = Timetable(world), Random(seed)
    await timetable.go_to(BEGIN)
    plain = [Plain(name) for name in SCHEDULES]
    for each in plain:
        fields = {name: getattr(each.terms, name) for name in ScheduleTerms.__struct_fields__}
        await timetable.set(each.name, **fields)
    killed = 0
    async with Database(database_url) as first, Database(database_url) as second:
        servers = [Ledger(first), Ledger(second)]
        while True:
            [row] = await world.clock.fetch("select min(due_at) from holdfast.schedules")
            if row[0] > END:
                break
            outage = timedelta(hours=draw.uniform(1, 60)) if draw.random() < 0.05 else None
            await timetable.go_to(row[0] + (outage or timedelta(seconds=1)))
            now = await timetable.now()
            killed += await look(servers, draw)
            await timetable.fire()  # whoever is started again
            for each in plain:
                each.look(now)
    assert killed > 10
    jobs = 0
    for each in plain:
        firings = await timetable.firings(each.name)
        assert [firing.instant for firing in firings] == each.fired, each.name
        assert {firing.outcome for firing in firings} == {"fired"}
        missed = await timetable.missed(each.name)
        assert sum(instants for _, _, instants in missed) == each.missed, each.name
        jobs += len(firings)
    assert await world.count("jobs") == jobs
    assert any(each.missed for each in plain)
    # The leap day; a gap whose two times are one; an hour whose two times are four.
    found = {name: [f.instant for f in await timetable.firings(name.replace(" ", "-"))]
             for name in SCHEDULES}  # fmt: skip
    assert found["leap day"] == [at("2028-02-29T11:00")]
    assert len([i for i in found["new york"] if i.date() == at("2028-03-12").date()]) <= 1
    await assert_audit_is_silent(world.ledger.database)
