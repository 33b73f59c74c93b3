"""Functions that complete their task in a transaction of their own, and what their worker does."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.audits import assert_audit_is_silent
from tests.waiting import eventually
from tests.worker.workplace import SAMPLES, Workplace, call


@pytest.mark.parametrize("options", [{}, {"isolation": "process", "imports": (SAMPLES,)}])
async def test_it_goes_home_undisturbed_and_in_peace(
    workplace: Workplace,
    database_url: str,
    database: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, Any],
) -> None:
    await workplace.execute("create table public.writes (attempt integer)")
    files = f"{tmp_path}/began", f"{tmp_path}/go"
    task_id = await workplace.submit(call("complete_in_transaction", database_url, *files))
    workplace.hire(**options)
    await workplace.reach(task_id, "SUCCEEDED")
    # Whoever is told of another's cancel has been told all that there is to stop.
    other = await workplace.submit({"command": ["sleep", "600"]})
    await workplace.reach(other, "RUNNING")
    await workplace.cancel(other)
    await workplace.reach(other, "KILLED")
    await eventually((tmp_path / "began").exists)
    (tmp_path / "go").touch()

    async def is_released() -> bool:
        return (await workplace.ended(task_id))["released_at"] is not None

    await eventually(is_released)
    assert b"home again" in await workplace.log(task_id)
    task = await workplace.reach(task_id, "SUCCEEDED")
    assert task["result"] == '"by SQL"'
    assert [row["attempt"] for row in await workplace.fetch("table public.writes")] == [0]
    said = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert [each for each in said if task_id in each.getMessage()] == []
    await assert_audit_is_silent(database)
