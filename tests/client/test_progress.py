"""A progress bar where somebody sees it."""

import os
import pty
import sys
from typing import Any

import pytest

from holdfast.client.progress import count_live, show_progress
from holdfast.wire.status import JobStatus


def a_status(**counts: Any) -> JobStatus:
    return JobStatus(
        job_id="7",
        state="JOB_STATE_RUNNING",
        name="a",
        type="a",
        owner="a",
        submitted_at_ms=0,
        correlation_id="c",
        status_message="",
        num_tasks=20,
        **counts,
    )


def test_tasks_that_have_not_ended_are_counted() -> None:
    status = a_status(
        tasks_pending=1, tasks_assigned=2, tasks_building=3, tasks_running=4, tasks_failed=10
    )
    assert count_live(status) == 10


def test_nothing_is_drawn_where_nobody_sees_it(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress("7", 20, wanted=True) as show:
        assert show is None
    assert capsys.readouterr().err == ""


def test_a_bar_is_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        with show_progress("7", 20, wanted=False) as show:
            assert show is None
        with show_progress("7", 20, wanted=True) as show:
            assert show is not None
            show(a_status(tasks_running=5, tasks_succeeded=15))
    drawn = ""
    while "15/20" not in drawn:  # an error, once all there is has been read
        drawn += os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "job 7" in drawn
