"""Limits: where groups go, what is written to them, and what they do to real processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.worker.processes import resource_limits
from holdfast.worker.processes.resource_limits import Group, Limits, find_places
from tests.embedded.users import wait_for
from tests.worker.living import a_token
from tests.worker.shimmed import can_kill_groups, can_limit_memory

MEMORY_1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"
CPU_1 = (
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct"
)
SYSTEMD_1 = "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd"
UNIFIED_2 = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate"
PLAIN_2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
PART_1 = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory"
OTHER = "22 28 0:20 / /proc rw - proc proc rw"


@pytest.mark.parametrize(
    ("mounts", "memberships", "places"),
    [
        ([], [], {}),
        ([OTHER, PLAIN_2], ["0::/"], {"unified": "/sys/fs/cgroup"}),
        (
            [OTHER, PLAIN_2],
            ["0::/system.slice/holdfast.service"],
            {"unified": "/sys/fs/cgroup/system.slice/holdfast.service"},
        ),
        (
            [MEMORY_1, CPU_1, SYSTEMD_1, UNIFIED_2],
            ["4:memory:/user/me", "2:cpu,cpuacct:/", "1:name=systemd:/x", "0::/y"],
            {
                "memory": "/sys/fs/cgroup/memory/user/me",
                "cpu": "/sys/fs/cgroup/cpu,cpuacct",
                "unified": "/sys/fs/cgroup/unified/y",
            },
        ),
        ([PART_1], ["4:memory:/docker/abc"], {"memory": "/sys/fs/cgroup/memory"}),
        ([PART_1], ["4:memory:/docker/abc/d"], {"memory": "/sys/fs/cgroup/memory/d"}),
        ([PART_1], ["4:memory:/docker/abcd"], {}),
        ([PLAIN_2], ["0::/../other"], {}),
        ([MEMORY_1], ["0::/"], {}),
    ],
)
def test_our_own_groups_are_found(
    mounts: list[str], memberships: list[str], places: dict[str, str]
) -> None:
    assert find_places("\n".join(mounts), "\n".join(memberships)) == places


def a_folder(path: Path, **files: str) -> Path:
    """Make a folder that looks like a cgroup: double underscores stand for dots."""
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)
    return path


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (
            "cgroup2",
            {
                "memory.max": "1000000",
                "memory.swap.max": "0",
                "memory.oom.group": "1",
                "cpu.max": "50000 100000",
            },
        ),
        (
            "cgroup1",
            {
                "memory.limit_in_bytes": "1000000",
                "memory.memsw.limit_in_bytes": "1000000",
                "cpu.cfs_period_us": "100000",
                "cpu.cfs_quota_us": "50000",
            },
        ),
    ],
)
def test_limits_are_written_in_the_words_of_each_version(
    tmp_path: Path, kind: str, wanted: dict[str, str]
) -> None:
    for name in wanted:
        (tmp_path / name).write_text("")
    Group(str(tmp_path), kind, ["memory", "cpu"]).limit(1_000_000, 0.5)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == wanted


def test_no_limit_is_written_that_was_not_asked_for_or_is_not_lent(tmp_path: Path) -> None:
    for name in ("memory.max", "cpu.max"):
        (tmp_path / name).write_text("max")
    Group(str(tmp_path), "cgroup2", ["memory", "cpu"]).limit(0, 0.0)
    Group(str(tmp_path), "cgroup2", []).limit(5, 5.0)
    assert {path.read_text() for path in tmp_path.iterdir()} == {"max"}


@pytest.mark.parametrize(
    ("kind", "events", "peak"),
    [
        ("cgroup2", "memory.events", "memory.peak"),
        ("cgroup1", "memory.oom_control", "memory.max_usage_in_bytes"),
    ],
)
def test_numbers_are_read_in_the_words_of_each_version(
    tmp_path: Path, kind: str, events: str, peak: str
) -> None:
    group = Group(str(tmp_path), kind, ["memory"])
    assert (group.oom_kills(), group.memory_peak()) == (0, 0)
    (tmp_path / events).write_text("oom 7\noom_kill_disable 0\noom_kill 2\noom_group_kill 1\n")
    (tmp_path / peak).write_text("4096\n")
    assert (group.oom_kills(), group.memory_peak()) == (2, 4096)


def test_a_group_of_version_2_goes_where_controllers_are_lent(tmp_path: Path) -> None:
    both = {"cgroup__controllers": "cpu memory pids", "cgroup__subtree_control": "pids"}
    own = a_folder(tmp_path / "own", **both)
    bounds = Limits(memory=1, cpu=1.0)
    bounds.plan({"unified": str(own)}, "name")
    (group,) = bounds.groups
    assert (group.path, group.kind) == (str(own / "holdfast-name"), "cgroup2")
    assert group.controllers == {"memory", "cpu"}
    assert (own / "cgroup.subtree_control").read_text().startswith("+cpu")  # the last word


@pytest.mark.parametrize("is_delegated", [True, False])
def test_the_group_above_is_used_only_if_it_was_left_to_us(
    tmp_path: Path, is_delegated: bool
) -> None:
    lent = {"cgroup__controllers": "memory", "cgroup__subtree_control": "memory"}
    above = a_folder(tmp_path / "service", **lent)
    own = a_folder(above / "worker", cgroup__controllers="", cgroup__subtree_control="")
    if is_delegated:
        os.setxattr(above, "user.delegate", b"1")
    bounds = Limits(memory=1)
    bounds.plan({"unified": str(own)}, "name")
    (group,) = bounds.groups
    assert group.path == str((above if is_delegated else own) / "holdfast-name")
    assert group.controllers == ({"memory"} if is_delegated else set())


def test_groups_are_planned_for_what_is_asked(tmp_path: Path) -> None:
    places = {"memory": "/m", "cpu": "/c"}
    for cpu, wanted in ((0.0, ["/m/holdfast-x"]), (1.0, ["/m/holdfast-x", "/c/holdfast-x"])):
        bounds = Limits(cpu=cpu)
        bounds.plan(places, "x")
        assert [group.path for group in bounds.groups] == wanted


def test_a_group_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    bounds = Limits(memory=2**30)
    bounds.plan({"memory": str(tmp_path)}, "x")
    bounds.make()  # a folder, but no limit can be set
    assert bounds.groups == []
    assert bounds.list_pids() is None
    assert (bounds.oom_kills(), bounds.memory_peak()) == (0, 0)
    assert list(tmp_path.iterdir()) == []


def test_only_groups_of_our_own_making_are_ended(tmp_path: Path) -> None:
    stranger = a_folder(tmp_path / "stranger", cgroup__kill="", cgroup__procs="")
    assert resource_limits.end_groups([str(stranger)])
    assert (stranger / "cgroup.kill").read_text() == ""
    ours = a_folder(tmp_path / "holdfast-x", cgroup__kill="", cgroup__procs="")
    resource_limits.kill_groups([str(ours)])
    assert (ours / "cgroup.kill").read_text() == "1"


ENTER = """
import sys
from holdfast.worker.processes.resource_limits import Limits, find_own_places
memory, cpu, name = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
bounds = Limits(memory, cpu)
if name:
    bounds.plan(find_own_places(), name)
    bounds.make()
print(bounds.enter(), flush=True)
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
def test_it_is_said_what_holds_without_groups(memory: int, cpu: float, said: str) -> None:
    with enter(memory, cpu, "") as process:
        answer, _ = process.communicate(timeout=60)
    assert answer == f"{said}\n"


def test_real_groups_hold_list_and_kill_what_has_entered() -> None:
    name = a_token()
    with enter(2**28, 1.0, name) as process:
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        places = resource_limits.find_own_places()
        paths = [f"{place}/{resource_limits.PREFIX}{name}" for place in places.values()]
        if can_limit_memory():
            assert said.startswith("cgroup1")
            group = Path(places["memory"], f"{resource_limits.PREFIX}{name}")
            assert (group / "memory.limit_in_bytes").read_text() == f"{2**28}\n"
            assert resource_limits.list_pids([str(group)]) == {process.pid}
            assert Group(str(group), "cgroup1", ["memory"]).memory_peak() > 0
        if can_limit_memory() or can_kill_groups():
            resource_limits.kill_groups(paths)
            process.wait(60)
        else:
            process.kill()
    assert resource_limits.end_groups(paths)
    assert not any(Path(path).exists() for path in paths)


def test_groups_within_a_group_are_ended_too() -> None:
    name = a_token()
    places = resource_limits.find_own_places()
    with enter(2**28, 0.0, name) as process:
        assert process.stdout is not None
        process.stdout.readline()
        if can_limit_memory():
            group = Path(places["memory"], f"{resource_limits.PREFIX}{name}")
            inner = group / "inner"
            inner.mkdir()
            (inner / "cgroup.procs").write_text(str(process.pid))
            wait_for(lambda: resource_limits.list_pids([str(group)]) == {process.pid})
            assert resource_limits.end_groups([str(group)])
            assert process.wait(60) != 0
            assert not group.exists()
        process.kill()
    assert resource_limits.end_groups(
        f"{place}/{resource_limits.PREFIX}{name}" for place in places.values()
    )
