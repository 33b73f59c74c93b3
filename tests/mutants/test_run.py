"""The program: which bugs it takes, and what it says to people and to programs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mutants.catalogue import MUTATIONS
from mutants.mutation import Misfit
from mutants.run import as_record, choose
from mutants.trial import Result

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mutants.run", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


def test_all_are_taken_unless_some_are_named() -> None:
    assert choose([]) == list(MUTATIONS)
    assert choose([MUTATIONS[3].name] * 2) == [MUTATIONS[3]]
    with pytest.raises(Misfit, match="there is no mutation nonsense"):
        choose(["nonsense"])


def test_a_record_says_what_turned_red() -> None:
    result = Result(MUTATIONS[0], ("tests/a.py::test_b",), 1.234)
    record = as_record(result)
    assert (record["name"], record["red"]) == (MUTATIONS[0].name, ("tests/a.py::test_b",))
    assert (record["verdict"], record["as_expected"], record["seconds"]) == ("caught", True, 1.2)
    assert as_record(Result(MUTATIONS[0], (), 1.0, "it survives x"))["as_expected"] is False


def test_one_is_planted_and_caught() -> None:
    ended = run("--only", "one-retry-too-few", "--json", "--trust")
    assert (ended.returncode, ended.stderr) == (0, "")
    [record] = json.loads(ended.stdout)["mutants"]
    assert record["verdict"] == "caught"
    assert record["files"] == ["holdfast/rules/retry.py"]


def test_a_name_that_is_none_is_exit_code_2() -> None:
    ended = run("--only", "nonsense")
    assert ended.returncode == 2
    assert "there is no mutation nonsense; there are " in ended.stderr
