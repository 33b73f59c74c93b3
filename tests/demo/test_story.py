"""The demo's story, played on real processes, leaves in the ledger what it says it does."""

import os
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.cli.children import END_SECONDS_MAX, end_children
from holdfast.client.client import Client
from holdfast.demo.screen import Screen
from holdfast.demo.story import Story
from holdfast.model.submitting.spec import Limits
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.server import Address, serve
from holdfast.services.runtime import Options
from holdfast.store.database import Database
from holdfast.store.reads.output.events import (
    Event,
    Moment,
    list_events_of_job,
    list_events_of_task,
)
from tests.audits import assert_audit_is_silent


@pytest.mark.nightly
async def test_every_job_ends_as_the_story_says(database_url: str, tmp_path: Path) -> None:
    options = Options(database_url, Limits(lease_seconds_min=1.0))
    paper, log = StringIO(), os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    async with (
        Database(database_url) as database,
        serve(options, Address(port=0)) as server,
        Client(server.url) as client,
    ):
        variables = {**os.environ, "HOLDFAST_SERVER": server.url}
        variables["HOLDFAST_WORKER_DIR"] = str(tmp_path)
        screen = Screen(Console(file=paper, width=80), client)
        story = Story(client, screen, variables, log=log)
        try:
            played = await story.play()
        finally:
            await end_children(list(story.workers.values()), END_SECONDS_MAX)
            os.close(log)
        told = [(job.state, job.attempts) for job in await screen.summarise()]
        assert told == [(plan.state, plan.attempts) for plan in played]
        async with database.transaction() as tx:
            events = await list_events_of_task(
                tx, TaskId(played[-1].job_id, 0), None, after=Moment(), page_size=1000
            )
        first, second = [event.actor for event in events if event.type == "claimed"]
        assert first != second  # taken over by the other worker, which goes on where it was
        assert "lease expired" in [event.cause for event in events]
        assert not played[-1].remark.startswith("taken over: steps 1 ")
        async with database.transaction() as tx:
            gang = await list_events_of_job(
                tx, played[-2].job_id, None, after=Moment(), page_size=1000
            )
        assert_restarted_together(gang)
        await assert_audit_is_silent(database)
    assert [plan.state for plan in played].count(TaskState.SUCCEEDED) == 8


def assert_restarted_together(events: list[Event]) -> None:
    """See one member fail, the others end with it, and all of them placed once more."""
    ends = {(event.task_index, event.type) for event in events if event.attempt == 0}
    assert {(0, "worker_failed"), (1, "failed"), (2, "worker_failed")} <= ends
    placed = [event for event in events if event.type == "placed"]
    assert sorted((event.attempt, event.task_index) for event in placed) == [
        (attempt, index) for attempt in range(2) for index in range(3)
    ]
