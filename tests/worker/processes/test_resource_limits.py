"""Limits: where a cgroup goes, what is written to it, and what it does to real processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.worker.processes import resource_limits
from holdfast.worker.processes.resource_limits import Limits, find_cgroup
from tests.embedded.users import wait_for
from tests.worker.living import a_token
from tests.worker.shimmed import can_limit_memory

MEMORY_1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"
UNIFIED = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate"
PLAIN = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
PART = "35 31 0:32 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw"
OTHER = "22 28 0:20 / /proc rw - proc proc rw"


@pytest.mark.parametrize(
    ("mounts", "memberships", "folder"),
    [
        ([], [], None),
        ([OTHER, PLAIN], [], None),
        ([OTHER, PLAIN], ["0::/"], "/sys/fs/cgroup"),
        ([PLAIN], ["0::/system.slice/hf.service"], "/sys/fs/cgroup/system.slice/hf.service"),
        ([MEMORY_1, UNIFIED], ["4:memory:/me", "1:name=x:/x", "0::/y"], "/sys/fs/cgroup/unified/y"),
        ([MEMORY_1], ["4:memory:/me", "0::/"], None),
        ([PART], ["0::/docker/abc"], "/sys/fs/cgroup"),
        ([PART], ["0::/docker/abc/d"], "/sys/fs/cgroup/d"),
        ([PART], ["0::/docker/abcd"], None),
        ([PART, PLAIN], ["0::/docker/abcd"], "/sys/fs/cgroup/docker/abcd"),
        ([PLAIN], ["0::/../other"], None),
    ],
)
def test_our_own_cgroup_is_found(
    mounts: list[str], memberships: list[str], folder: str | None
) -> None:
    assert find_cgroup("\n".join(mounts), "\n".join(memberships)) == folder


def a_folder(path: Path, **files: str) -> Path:
    """Make a folder that looks like a cgroup: double underscores stand for dots."""
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)
    return path


def test_limits_are_written_as_the_kernel_reads_them(tmp_path: Path) -> None:
    names = ["memory.max", "memory.swap.max", "memory.oom.group", "cpu.max"]
    for name in names:
        (tmp_path / name).write_text("")
    resource_limits.set_limits(str(tmp_path), ["memory", "cpu"], memory=1_000_000, cpu=0.5)
    assert [(tmp_path / name).read_text() for name in names] == [
        "1000000",
        "0",
        "1",
        "50000 100000",
    ]


def test_no_limit_is_written_that_was_not_asked_for_or_is_not_lent(tmp_path: Path) -> None:
    for name in ("memory.max", "cpu.max"):
        (tmp_path / name).write_text("max")
    resource_limits.set_limits(str(tmp_path), ["memory", "cpu"])
    resource_limits.set_limits(str(tmp_path), [], memory=5, cpu=5.0)
    assert {path.read_text() for path in tmp_path.iterdir()} == {"max"}


def test_a_cgroup_goes_where_controllers_are_lent(tmp_path: Path) -> None:
    both = {"cgroup__controllers": "cpu memory pids", "cgroup__subtree_control": "pids"}
    own = a_folder(tmp_path / "own", **both)
    limits = Limits(memory=1, cpu=1.0)
    limits.plan(str(own), "name")
    assert limits.cgroup == str(own / "holdfast-name")
    assert (own / "cgroup.subtree_control").read_text().startswith("+cpu")  # the last word


@pytest.mark.parametrize("is_delegated", [True, False])
def test_the_cgroup_above_is_used_only_if_it_was_left_to_us(
    tmp_path: Path, is_delegated: bool
) -> None:
    lent = {"cgroup__controllers": "memory", "cgroup__subtree_control": "memory"}
    above = a_folder(tmp_path / "service", **lent)
    own = a_folder(above / "worker", cgroup__controllers="", cgroup__subtree_control="")
    if is_delegated:
        os.setxattr(above, "user.delegate", b"1")
    limits = Limits(memory=1)
    limits.plan(str(own), "name")
    assert limits.cgroup == str((above if is_delegated else own) / "holdfast-name")


def test_without_a_cgroup_of_version_2_there_is_none(tmp_path: Path) -> None:
    limits = Limits(memory=1, cpu=1.0)
    limits.plan(None, "name")
    limits.make()
    assert limits.cgroup is None
    assert (limits.oom_kills(), limits.memory_peak()) == (0, 0)


def test_a_cgroup_whose_limits_cannot_be_set_is_done_without(tmp_path: Path) -> None:
    lent = {"cgroup__controllers": "memory", "cgroup__subtree_control": "memory"}
    own = a_folder(tmp_path / "own", **lent)
    limits = Limits(memory=2**30)
    limits.plan(str(own), "x")
    limits.make()  # a folder, but no limit can be set
    assert limits.cgroup is None
    assert (limits.oom_kills(), limits.memory_peak()) == (0, 0)
    assert not (own / "holdfast-x").exists()


def test_numbers_are_read_from_the_cgroup(tmp_path: Path) -> None:
    own = a_folder(tmp_path / "own")
    limits = Limits()
    limits.plan(str(own), "x")
    limits.make()
    assert (limits.oom_kills(), limits.memory_peak()) == (0, 0)  # no controller, no file
    (own / "holdfast-x" / "memory.events").write_text("oom 7\noom_kill 2\noom_group_kill 1\n")
    (own / "holdfast-x" / "memory.peak").write_text("4096\n")
    assert (limits.oom_kills(), limits.memory_peak()) == (2, 4096)


def test_only_cgroups_of_our_own_making_are_ended(tmp_path: Path) -> None:
    stranger = a_folder(tmp_path / "stranger", cgroup__kill="", cgroup__procs="")
    assert resource_limits.end_cgroup(str(stranger))
    assert (stranger / "cgroup.kill").read_text() == ""
    ours = a_folder(tmp_path / "holdfast-x", cgroup__kill="", cgroup__procs="")
    resource_limits.kill_cgroup(str(ours))
    assert (ours / "cgroup.kill").read_text() == "1"


ENTER = """
import sys
from holdfast.worker.processes.resource_limits import Limits, find_own_cgroup
memory, cpu, name = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
limits = Limits(memory, cpu)
if name:
    limits.plan(find_own_cgroup(), name)
    limits.make()
print(limits.enter(), limits.cgroup, flush=True)
sys.stdin.read(1)
"""


def enter(memory: int, cpu: float, name: str) -> subprocess.Popen[str]:
    """Start a process that puts itself under limits, says which, and waits."""
    command = [sys.executable, "-c", ENTER, str(memory), str(cpu), name]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)


@pytest.mark.parametrize(
    ("memory", "cpu", "said"),
    [
        (0, 0.0, "none"),
        (2**30, 0.0, "rlimit"),
        (0, 1.0, "none"),
        (2**30, 1.0, "rlimit, cpu not limited"),
        (2**61, 0.0, "rlimit"),
    ],
)
def test_it_is_said_what_holds_without_a_cgroup(memory: int, cpu: float, said: str) -> None:
    with enter(memory, cpu, "") as process:
        answer, _ = process.communicate(timeout=60)
    assert answer == f"{said} None\n"


def entered(process: subprocess.Popen[str]) -> tuple[str, Path | None]:
    """Read what enforces the limits of a process, and where its cgroup is."""
    assert process.stdout is not None
    enforced, _, path = process.stdout.readline().rstrip("\n").rpartition(" ")
    return enforced, None if path == "None" else Path(path)


def test_a_real_cgroup_holds_lists_and_kills_what_has_entered() -> None:
    with enter(2**28, 1.0, a_token()) as process:
        enforced, cgroup = entered(process)
        assert enforced.startswith("cgroup2" if can_limit_memory() else "rlimit")
        if cgroup is None:
            process.kill()
            return
        if can_limit_memory():
            assert (cgroup / "memory.max").read_text() == f"{2**28}\n"
            assert (cgroup / "memory.swap.max").read_text() == "0\n"
            assert (cgroup / "memory.oom.group").read_text() == "1\n"
        if "cpu not limited" not in enforced:
            assert (cgroup / "cpu.max").read_text() == "100000 100000\n"
        assert resource_limits.list_pids(str(cgroup)) == {process.pid}
        resource_limits.kill_cgroup(str(cgroup))
        assert process.wait(60) != 0
    assert resource_limits.end_cgroup(str(cgroup))
    assert not cgroup.exists()


def test_cgroups_within_a_cgroup_are_ended_too() -> None:
    with enter(0, 0.0, a_token()) as process:
        _, cgroup = entered(process)
        if cgroup is None:
            process.kill()
            return
        inner = cgroup / "inner"
        inner.mkdir()
        (inner / "cgroup.procs").write_text(str(process.pid))
        wait_for(lambda: resource_limits.list_pids(str(cgroup)) == {process.pid})
        assert resource_limits.end_cgroup(str(cgroup))
        assert process.wait(60) != 0
        assert not cgroup.exists()
