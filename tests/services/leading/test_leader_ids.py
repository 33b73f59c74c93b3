"""A leader's name tells on its own host, and there alone, that its process has ended."""

import os
import subprocess
import sys

import pytest

from holdfast.services.leading.leader_ids import is_gone, make_leader_id

PROGRAM = (
    "import sys\n"
    "from holdfast.services.leading.leader_ids import make_leader_id\n"
    "print(make_leader_id(), flush=True)\n"
    "sys.stdin.read()\n"
)


def test_a_leader_is_gone_as_soon_as_its_process_is_killed() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        name = process.stdout.readline().decode().strip()
        assert not is_gone(name)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and not reaped yet
        assert is_gone(name)
    assert is_gone(name)


def test_each_term_of_office_has_a_name_of_its_own() -> None:
    assert make_leader_id() != make_leader_id()
    assert not is_gone(make_leader_id())


@pytest.mark.parametrize("field", [1, 2])
def test_of_another_host_boot_or_namespace_nothing_is_known(field: int) -> None:
    parts = make_leader_id().split(":")
    parts[3] = str(2**22 + 1)  # no process has that number
    assert is_gone(":".join(parts))
    parts[field] = "elsewhere"
    assert not is_gone(":".join(parts))


def test_a_number_that_is_somebody_elses_by_now_is_a_leader_that_is_gone() -> None:
    *rest, start = make_leader_id().split(":")
    assert is_gone(":".join([*rest, str(int(start) + 1)]))


@pytest.mark.parametrize("name", ["", "0123456789abcdef", "a:b:c:d:", ":::1:", "x:::1:7"])
def test_of_a_name_that_says_nothing_nothing_is_known(name: str) -> None:
    assert not is_gone(name)
