"""What a command used: sampled over real processes, or counted by its cgroup."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.worker.processes.command_usage import CommandUsage
from holdfast.worker.processes.resource_limits import Limits
from tests.embedded.users import wait_for

SAMPLE = """
import json, subprocess, sys
from holdfast.worker.processes.command_usage import CommandUsage
from holdfast.worker.processes.resource_limits import Limits
usage = CommandUsage(Limits())
held = "held = bytearray(40 * 2**20); print(flush=True); input()"
pipe = subprocess.PIPE
for _ in range(2):
    command = [sys.executable, "-I", "-S", "-c", held]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        process.stdout.readline()
        usage.sample()
        process.stdin.write(b"x")
usage.sample()
print(json.dumps([usage.so_far(), usage.total(has_run=True)]))
"""


def test_processes_and_memory_are_sampled_without_a_cgroup_that_counts() -> None:
    answer = subprocess.check_output([sys.executable, "-c", SAMPLE], text=True, timeout=60)
    so_far, total = json.loads(answer)
    assert total["processes_max"] == 1
    assert 40 * 2**20 <= total["memory_peak_bytes"] < 80 * 2**20
    assert total["cpu_seconds"] > 0
    assert so_far["cpu_seconds"] == pytest.approx(total["cpu_seconds"], abs=0.001)
    assert 40 * 2**20 <= so_far["memory_peak_bytes"] < 80 * 2**20


def test_what_a_cgroup_counts_is_the_truth(tmp_path: Path) -> None:
    limits = Limits()
    limits.plan(str(tmp_path), "x")
    limits.make()
    (tmp_path / "holdfast-x" / "memory.peak").write_text("4096\n")
    (tmp_path / "holdfast-x" / "cgroup.procs").write_text("7\n8\n9\n")
    (tmp_path / "holdfast-x" / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    usage = CommandUsage(limits)
    usage.sample()
    assert usage.so_far() == {
        "cpu_seconds": 2.5,
        "memory_peak_bytes": 4096,
        "processes_max": 3,
    }
    usage.read_cgroup()
    total = usage.total(has_run=True)
    assert (total["memory_peak_bytes"], total["processes_max"]) == (4096, 3)


def test_samples_are_taken_when_they_are_due(tmp_path: Path) -> None:
    limits = Limits()
    limits.plan(str(tmp_path), "x")
    limits.make()
    (tmp_path / "holdfast-x" / "memory.peak").write_text("4096\n")
    (tmp_path / "holdfast-x" / "cgroup.procs").write_text("7\n8\n")
    usage = CommandUsage(limits)

    def sampled() -> float:
        usage.sample_if_due()
        return usage.total(has_run=False)["processes_max"]

    assert sampled() == 0
    wait_for(lambda: sampled() == 2)


def test_a_command_that_was_never_sampled_was_a_process_all_the_same() -> None:
    usage = CommandUsage(Limits())
    assert usage.total(has_run=True)["processes_max"] == 1
    assert usage.total(has_run=False)["processes_max"] == 0
