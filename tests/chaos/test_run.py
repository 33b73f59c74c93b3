"""Whole runs: real processes are broken for some time, and everything that is known is checked."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.faults.plan import PROFILES, draw
from chaos.run import run_chaos
from tests.tidy import ROOT

SECONDS = 15.0
LONG_SECONDS = 120.0
# One after the other: each is a dozen processes, and slow ones lose leases that nobody has broken.
ALONE = pytest.mark.xdist_group("chaos")


def survive(profile: str, seconds: float, folder: Path) -> None:
    """Live through a run with a seed of its own, in which nothing is found."""
    seed = random.SystemRandom().randrange(10**9)
    verdict = run_chaos(seed, profile, seconds, folder)
    lines = "\n".join(verdict.lines())
    assert not verdict.findings, f"profile {profile}, seed {seed}, {seconds} s\n{lines}"
    hits = [(hit.fault, hit.target) for hit in verdict.history.hits]
    planned = [(fault.kind, fault.target) for fault in verdict.faults]
    assert hits == planned[: len(hits)]
    assert hits


@ALONE
@pytest.mark.nightly
def test_nothing_is_found_after_some_seconds_of_faults(tmp_path: Path) -> None:
    survive("queue", SECONDS, tmp_path)


@ALONE
@pytest.mark.nightly
@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_nothing_is_found_after_minutes_of_faults(profile: str, tmp_path: Path) -> None:
    survive(profile, LONG_SECONDS, tmp_path)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program."""
    command = [sys.executable, "-m", "chaos.run", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_plan_is_printed_without_a_run() -> None:
    ended = run("--seed", "4", "--minutes", "0.5", "--plan")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [str(fault) for fault in draw(4, "queue", 30)]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--seed", "1", "--minutes", "0"), "--minutes 0: must be above 0"),
        (("--seed", "1", "--profile", "calm"), "choose from"),
        (("--seed", "1", "--folder", "chaos"), "--folder chaos: has something in it"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(arguments: tuple[str, ...], named: str) -> None:
    ended = run(*arguments)
    assert ended.returncode == 2
    assert named in ended.stderr
