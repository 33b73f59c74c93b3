"""The demo tells the truth: of a job that ended otherwise than planned, and of a broken ledger."""

from collections import Counter
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.demo.run import play, show_jobs
from holdfast.demo.screen import JobSummary
from holdfast.demo.story import Played
from holdfast.model.work.states import TaskState
from tests.conftest import run_sql
from tests.world import World


@pytest.mark.nightly
async def test_a_broken_ledger_makes_exit_code_1(
    world: World, database_url: str, tmp_path: Path
) -> None:
    await world.submit([1], queue="elsewhere")
    damage = "update holdfast.tasks set state = 9"
    await run_sql(database_url, "set session_replication_role = replica", damage)
    paper = StringIO()
    assert await play(database_url, tmp_path, Console(file=paper, width=80)) == 1
    assert "broken invariants" in paper.getvalue()


@pytest.mark.parametrize("state", [TaskState.SUCCEEDED, TaskState.FAILED])
def test_a_job_that_ended_otherwise_than_planned_is_told(state: TaskState) -> None:
    paper = StringIO()
    job = JobSummary(1, "train", state, Counter({state: 1}), 2, 9)
    plan = Played(1, TaskState.SUCCEEDED, 2, "as it should be")
    as_planned = show_jobs(Console(file=paper, width=120), [plan], [job])
    assert as_planned == (state == TaskState.SUCCEEDED)
    assert ("NOT AS PLANNED" in paper.getvalue()) != as_planned
