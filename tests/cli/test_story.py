"""The demo's story leaves the jobs where it says, through the operations alone."""

from io import StringIO

import pytest
from rich.console import Console

from holdfast.cli.screen import Screen
from holdfast.cli.story import Story, Worker
from holdfast.errors import LeaseConflict
from holdfast.operations.audit import audit
from holdfast.operations.ledger import Ledger
from tests.world import World


@pytest.fixture
def paper() -> StringIO:
    """What the screen shows, kept."""
    return StringIO()


@pytest.fixture
def screen(ledger: Ledger, paper: StringIO) -> Screen:
    """A screen of 80 columns."""
    return Screen(Console(file=paper, width=80, highlight=False), ledger)


async def test_every_job_ends_as_planned_and_the_ledger_is_sound(
    ledger: Ledger, screen: Screen, paper: StringIO
) -> None:
    played = await Story(ledger, screen).play()
    summaries = await screen.summarise()
    assert [(plan.job_id, plan.state, plan.attempts) for plan in played] == [
        (job.job_id, job.state, job.attempts) for job in summaries
    ]
    assert [finding async for finding in audit(ledger.database)] == []
    assert all(len(line) <= 80 for line in paper.getvalue().splitlines())


async def test_each_line_is_an_event_and_each_event_is_shown_once(
    ledger: Ledger, screen: Screen, paper: StringIO
) -> None:
    await Story(ledger, screen).flaky()
    lines = [line.split()[1:3] for line in paper.getvalue().splitlines() if line[:1] == " "]
    job_id = (await screen.summarise())[0].job_id
    job, task = str(job_id), f"{job_id}.0"
    assert lines == [
        [job, "pending"], [task, "assigned"], [job, "running"], [task, "running"],
        [task, "failed"], [task, "pending"], [task, "assigned"], [task, "running"],
        [task, "failed"], [task, "pending"], [task, "assigned"], [task, "running"],
        [task, "succeeded"], [job, "succeeded"],
    ]  # fmt: skip
    before = paper.getvalue()
    await screen.show_news()
    assert paper.getvalue() == before


async def test_a_worker_that_was_replaced_cannot_end_its_attempt(
    world: World, screen: Screen
) -> None:
    await world.submit()
    lost, successor = (Worker(world.ledger, screen, f"worker/{number}") for number in (1, 2))
    await lost.register()
    claims = await lost.claim("q")
    assert await successor.register(replaces=lost.worker_id) == 1
    with pytest.raises(LeaseConflict):
        await lost.end(claims, "succeeded")
    with pytest.raises(LeaseConflict):
        await lost.renew(claims[0])
    await successor.end(await successor.claim("q"), "succeeded")
