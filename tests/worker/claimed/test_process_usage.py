"""What processes of claimed attempts use: samples of their sessions, and what they add up to."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.worker.claimed import process_usage as module
from holdfast.worker.claimed.process_usage import ProcessUsage, UsageSampler
from tests.waiting import eventually

BUSY = """
import subprocess, sys, time
held = b"x" * 50_000_000
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
while time.process_time() < 0.5:
    pass
time.sleep(600)
"""


@contextmanager
def session(command: list[str]) -> Iterator[int]:
    """Run a command that leads a session, and end it with all that is in its group."""
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


async def test_a_session_is_measured_while_it_runs(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "SHOWN_AFTER_SECONDS", 0.0)
    told: list[dict[str, Any]] = []
    command = [sys.executable, "-c", BUSY]
    with session(command) as leader, UsageSampler().measure(leader, told.append) as usage:
        await eventually(lambda: told and told[-1]["cpu_seconds"] >= 0.4)
    assert told[-1] == usage.total(None)
    assert told[-1]["memory_peak_bytes"] >= 50_000_000
    assert told[-1]["processes_max"] == 2
    assert told[-1]["limits"] == "none"


async def test_one_sampler_measures_several_each_on_its_own(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "SHOWN_AFTER_SECONDS", 0.0)
    sampler = UsageSampler()
    first: list[dict[str, Any]] = []
    second: list[dict[str, Any]] = []
    large = [sys.executable, "-c", "held = b'x' * 50_000_000; import time; time.sleep(600)"]
    small = ["sleep", "600"]
    with session(large) as one, session(small) as two, sampler.measure(one, first.append):
        with sampler.measure(two, second.append):
            await eventually(lambda: second)
        seen = len(second)
        await eventually(lambda: first and first[-1]["memory_peak_bytes"] > 50_000_000)
    assert second[-1]["memory_peak_bytes"] < 50_000_000
    assert len(second) == seen


def test_what_is_never_sampled_has_the_cpu_of_its_end_and_no_memory() -> None:
    usage = ProcessUsage(lambda _: None)
    assert usage.total(0.25) == {"cpu_seconds": 0.25, "processes_max": 1, "limits": "none"}
    assert usage.total(None)["cpu_seconds"] == 0.25


def test_samples_keep_the_most_and_come_at_growing_intervals() -> None:
    told: list[dict[str, Any]] = []
    usage = ProcessUsage(told.append)
    first_due = usage.due_at
    usage.add({10: (100, 1.0), 11: (50, 0.5)})
    usage.add({10: (120, 1.2)})
    assert usage.due_at > first_due + module.SAMPLE_SECONDS_MIN
    assert not told, "it has run for less than a second"
    assert usage.total(1.3) == {
        "cpu_seconds": 1.5,
        "memory_peak_bytes": 150,
        "processes_max": 2,
        "limits": "none",
    }
