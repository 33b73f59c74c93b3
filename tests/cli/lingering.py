"""A test that goes on until somebody ends its run: with a Postgres, a server, a worker, a task.

Not collected by itself: `tests/test_supervision.py` runs it.
"""

import json
import os
import threading
from pathlib import Path

import psutil

from holdfast.embedded import EmbeddedPostgres
from tests.cli.conftest import Service
from tests.cli.program import eventually


def find_all() -> list[psutil.Process]:
    """List what this process has started, once the task's own program is among it."""
    started = psutil.Process().children(recursive=True)
    return started if any(each.name() == "sleep" for each in started) else []


def test_linger(service: Service, postgres: EmbeddedPostgres) -> None:
    """Write down every process that this run has started, and wait for its end."""
    job_id = service.run("run", "-d", "--", "sleep", "600").out.strip()
    assert job_id
    started = eventually(find_all)
    database = psutil.Process(postgres.pid)
    pids = [each.pid for each in (*started, database, *database.children())]
    report = Path(os.environ["LINGERING_REPORT"])
    unfinished = report.with_suffix(".new")
    unfinished.write_text(json.dumps({"worker": os.getpid(), "pids": pids}))
    unfinished.rename(report)
    threading.Event().wait()
