"""The start of a command: what the new process reports, in a program that forks as a shim does."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.worker.own_uids import FIRST, open_house

START = """
import json, os, sys
from holdfast.worker.processes.command_start import CommandStart, Order
from holdfast.worker.processes.resource_limits import Limits
order = Order(sys.argv[1].encode())
start = CommandStart(order, Limits(order.memory), 1)
os.waitid(os.P_PID, start.pid, os.WEXITED)
print(json.dumps([start.is_over(), start.enforced_by(), start.error()]))
"""


def start(*argv: str, **changes: Any) -> tuple[str, list[Any]]:
    """Start a command and see it to its end; returns its output and the report of its start."""
    fields = {"argv": list(argv), "cwd": "/", "token": "t", "deadline": 0.0, "memory": 0}
    fields |= {"mark": "m", "uid": 0}
    fields |= {"cpu": 0.0, "output_bytes_max": 1, "cgroups": False}
    fields |= {"environment": {"PATH": os.environ["PATH"]}}
    command = [sys.executable, "-c", START, json.dumps(fields | changes)]
    *output, report = subprocess.check_output(command, text=True, timeout=60).splitlines()
    return "\n".join(output), json.loads(report)


def test_a_command_runs_in_its_folder_with_its_token_and_mark() -> None:
    output, report = start(
        "sh", "-c", 'echo "$PWD $HOLDFAST_LEASE_TOKEN $HOLDFAST_MARK"', cwd="/usr"
    )
    assert (output, report) == ("/usr t m", [True, "none", None])


def test_it_is_reported_what_enforces_the_limits() -> None:
    output, report = start("sh", "-c", "ulimit -v", memory=2**30)
    assert (output, report) == (f"{2**20}", [True, "rlimit", None])


@pytest.mark.parametrize(
    ("argv", "changes", "reason"),
    [
        (["no-such-program"], {}, "cannot run 'no-such-program': No such file or directory"),
        (["true"], {"cwd": "/nowhere"}, "cannot enter the folder '/nowhere': No such file"),
        ([], {}, "the command is empty"),
    ],
)
def test_a_process_that_cannot_become_the_command_reports_why(
    argv: list[str], changes: dict[str, Any], reason: str
) -> None:
    _, (is_over, enforced_by, error) = start(*argv, **changes)
    assert (is_over, enforced_by) == (True, None)
    assert error.startswith(reason)


def test_with_a_uid_the_command_is_that_user() -> None:
    with open_house():
        output, report = start("sh", "-c", "id -u; id -G", uid=FIRST)
    assert (output, report) == (f"{FIRST}\n{FIRST}", [True, "none", None])
