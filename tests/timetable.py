"""Schedules told in domain words: set them, let their time come, see what was fired and missed."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.model.submitting.spec import Submission
from holdfast.operations.schedules.change import set_schedule
from holdfast.operations.schedules.fire import fire_due
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from tests.world import World


class FiringRow(NamedTuple):
    """A firing as its table holds it."""

    instant: datetime
    kind: str
    outcome: str
    job_id: int | None
    problem: str | None


def a_template(**fields: Any) -> Submission:
    """Describe the job of a schedule."""
    spec = {"entrypoint": {"function": "app:work"}, "queue": "q"}
    inputs = fields.pop("inputs", None)
    return Submission(parse_spec(spec | fields), None if inputs is None else parse_inputs(inputs))


class Timetable:
    """The schedules of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger = world.ledger

    async def now(self) -> datetime:
        """Read the clock."""
        [row] = await self.world.clock.fetch("select holdfast.now()")
        now: datetime = row[0]
        return now

    async def go_to(self, moment: datetime) -> None:
        """Let time pass up to a moment; it goes on from there."""
        await self.world.clock.advance((moment - await self.now()).total_seconds())

    async def set(self, name: str = "s", job: Submission | None = None, **terms: Any) -> bool:
        """Set a schedule."""
        wanted = ScheduleTerms(**terms)
        submission = job or a_template()
        return await set_schedule(self.ledger, name, wanted, submission=submission, actor="ann")

    async def fire(self) -> int:
        """Let the chore take turns until nothing is due."""
        turns = 0
        while await fire_due(self.ledger):
            turns += 1
            assert turns < 1000, "a turn gets on"
        return turns

    async def firings(self, name: str = "s") -> list[FiringRow]:
        """Read the firings of a schedule, in order."""
        rows = await self.world.clock.fetch(
            "select instant, kind, outcome, job_id, firings.problem "
            "from holdfast.schedule_firings as firings join holdfast.schedules using (schedule_id) "
            "where name = $1 order by instant",
            name,
        )
        return [FiringRow(*row) for row in rows]

    async def missed(self, name: str = "s") -> list[tuple[datetime, datetime, int]]:
        """Read what a schedule has missed."""
        rows = await self.world.clock.fetch(
            "select first_instant, last_instant, instants from holdfast.schedule_misses "
            "join holdfast.schedules using (schedule_id) where name = $1 order by first_instant",
            name,
        )
        return [tuple(row) for row in rows]

    async def row(self, name: str = "s") -> Any:
        """Read the row of a schedule."""
        query = "select * from holdfast.schedules where name = $1"
        [row] = await self.world.clock.fetch(query, name)
        return row

    async def finish(self, job_id: int) -> None:
        """Let a worker do a job of one task."""
        for claim in await self.world.claim(100):
            assert claim.task_id.job_id == job_id, "another one could be claimed"
            await self.world.start(claim)
            await self.world.succeed(claim)
        await self.world.run_chores()


def at(text: str) -> datetime:
    """Read a moment, of UTC unless it says otherwise."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
