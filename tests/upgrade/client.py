"""A client as a program that runs with the package of either version: SERVER KIND FOLDER.

It has work done, tried again and cancelled, reads what came of it, and prints which version has run
the tasks, as JSON.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdfast as hf
from tests.upgrade.tasks import claimed, claimed_endless, placed, placed_endless

SECONDS_MAX = 60
PAUSE_SECONDS = 0.05
FUNCTIONS = {"claimed": (claimed, claimed_endless), "placed": (placed, placed_endless)}
CANCELS: dict[str, Any] = {"JOB_STATE_SUCCEEDED": "soft", "JOB_STATE_KILLED": "hard"}
COUNTS = {"claimed": 30, "placed": 3}


def use(server: str, kind: str, folder: Path) -> list[str]:
    """Call a server as programs do; returns which versions have run the tasks."""
    function, endless = FUNCTIONS[kind]
    numbers = range(COUNTS[kind])  # the first attempt of number 0 fails
    with hf.Client(server) as client:
        running = {state: endless.submit(str(folder)) for state in CANCELS}
        job = function.map(numbers)
        answers = job.results(timeout=SECONDS_MAX)
        assert [answer[0] for answer in answers] == [n * 3 for n in numbers]
        assert client.job(job.id).wait(SECONDS_MAX).state == "JOB_STATE_SUCCEEDED"
        assert client.tasks.list(job.id).tasks[0].failure_count == 1
        for state, endless_job in running.items():
            _wait_until((folder / endless_job.id).exists)
            endless_job.cancel(CANCELS[state], "an upgrade")
            assert endless_job.wait(SECONDS_MAX).state == state
    return sorted({answer[1] for answer in answers})


def _wait_until(fact: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + SECONDS_MAX
    while not fact():
        assert time.monotonic() < ends_at, f"{fact} has not come true"
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    versions = use(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    client_version = str(Path(hf.__file__).parents[1])
    json.dump({"client": client_version, "tasks": versions}, sys.stdout)
