"""Attempts that are users of their own: what a neighbour finds of them, and that nothing is left.

Python may be where only root can read: attempts that are functions run by a copy of it.
"""

import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.model.access.tokens import new_secret, new_token_id, write_token
from holdfast.model.work.states import TaskState
from tests.e2e.cluster import Cluster, find_child, is_gone, running
from tests.e2e.system import ROOT, eventually
from tests.embedded.conftest import copy_python
from tests.worker.bundle_store import write_wheel
from tests.worker.own_uids import RANGE, open_house
from tests.worker.shimmed import find_shim

QUEUE = "e2e"
TICK = 10.0  # a worker may be away for three of them; a busy machine takes 11 s to start one
LEASE = 60.0
WORKER_TOKEN = write_token(new_token_id(), new_secret())
# Looks for what is written in `needles`, everywhere that processes leave something.
SNOOP = """
id -u > HOUSE/$HOLDFAST_TASK_ID.snoop
grep -aFlf HOUSE/needles /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/cgroup 2>/dev/null
grep -raFlf HOUSE/needles HOUSE/hosts 2>/dev/null
find /sys/fs/cgroup 2>/dev/null | grep -Ff HOUSE/needles
echo looked
"""
VICTIM = """
id -u > HOUSE/$HOLDFAST_TASK_ID.uid
echo $HOLDFAST_LEASE_TOKEN > held; echo $HOLDFAST_LEASE_TOKEN > $HOME/at-home
until [ -e HOUSE/finish ]; do sleep 0.1; done
"""
DESERTER = """
setsid env -i sh -c 'echo $$ > HOUSE/stray; exec sleep 600' &
until [ -s HOUSE/stray ]; do sleep 0.05; done
id -u > HOUSE/deserter.uid
"""


SEEN = """
import os, sys
import holdfast as hf

@hf.task
def look() -> dict:
    try:
        import tiny
    except ImportError:
        tiny = None
    return {
        "uid": os.getuid(), "home": os.environ["HOME"], "cwd": os.getcwd(),
        "tiny": tiny and tiny.VERSION,
        "writable": [p for p in sys.path if p not in ("", os.getcwd()) and os.access(p, os.W_OK)],
    }
"""


class House:
    """A server, workers, and a folder that every user may enter and write to."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder = folder
        self.cluster = cluster

    def hire(self, *options: str, **how: Any) -> "subprocess.Popen[bytes]":
        """Start a worker of queues and of placed work, in one process."""
        return self.cluster.hire("w", "--queue", QUEUE, *options, cpu=4, **how)

    def submit(self, script: str, *, placed: bool) -> int:
        """Submit a shell script; returns the job's id."""
        shell = script.replace("HOUSE", str(self.folder))
        return self.submit_job({"shell": shell}, **{} if placed else {"queue": QUEUE})

    def submit_job(self, entrypoint: dict[str, Any], **spec: Any) -> int:
        """Submit a job; returns its id."""
        return self.cluster.submit(
            {"entrypoint": entrypoint, "lease": LEASE, "resources": {"cpu": 1}, **spec}
        )

    def log(self, job_id: int) -> str:
        """Wait for a job's success; returns what it has written."""
        query = "select state from holdfast.jobs where job_id = %s and finished_at is not null"
        [ended] = eventually(lambda: self.cluster.fetch(query, job_id))
        assert ended.state == 4, self.cluster.attempts(job_id)
        query = "select content from holdfast.logs where job_id = %s order by start_offset"
        return b"".join(row.content for row in self.cluster.fetch(query, job_id)).decode()

    def read(self, name: str) -> str:
        """Wait until a file has something in it."""
        path = self.folder / name
        return eventually(lambda: path.read_text().strip() if path.exists() else None)

    def await_running(self, job_id: int) -> None:
        """Wait until the server knows that a job runs: what never arrived cannot be adopted."""
        query = "select 1 from holdfast.tasks where job_id = %s and state = %s"
        eventually(lambda: self.cluster.fetch(query, job_id, TaskState.RUNNING.value))


@pytest.fixture
def house(database_url: str) -> Iterator[House]:
    """A house with a server, whose workers have a token in their environment."""
    with open_house() as folder:
        folder.chmod(0o777)
        (folder / "hosts").mkdir(mode=0o755)
        with running(database_url, folder, tick=TICK) as cluster:
            cluster.start_server()
            yield House(folder, cluster)


def snoop(house: House) -> str:
    """Have victims run, claimed and placed, and neighbours look for what they hold."""
    victims = [house.submit(VICTIM, placed=placed) for placed in (True, False)]
    uids = [house.read(f"{job_id}.0.uid") for job_id in victims]
    tokens = [
        row.lease_token for row in house.cluster.fetch("select lease_token from holdfast.leases")
    ]
    assert len(tokens) == 2
    (house.folder / "needles").write_text("\n".join([WORKER_TOKEN, *map(str, tokens)]))
    snoops = [house.submit(SNOOP, placed=placed) for placed in (True, False)]
    found = "".join(house.log(job_id) for job_id in snoops)
    uids += [house.read(f"{job_id}.0.snoop") for job_id in snoops]
    assert found.count("looked\n") == 2
    is_root = set(uids) == {"0"}
    assert is_root or (len(set(uids)) == 4 and "0" not in uids), uids
    (house.folder / "finish").touch()
    for job_id in victims:
        house.log(job_id)
    return found.replace("looked\n", "")


def test_a_neighbour_finds_neither_the_lease_of_another_nor_the_workers_token(
    house: House,
) -> None:
    house.cluster.plant(HOLDFAST_TOKEN=WORKER_TOKEN)
    house.hire("--attempt-uids", RANGE)
    assert snoop(house) == ""


def test_without_users_of_their_own_neighbours_find_it_all(house: House) -> None:
    house.cluster.plant(HOLDFAST_TOKEN=WORKER_TOKEN)
    house.hire()
    found = snoop(house)
    assert "/environ" in found
    assert "/held" in found
    # Not contained, but not spread either: neither names of cgroups nor command lines show it.
    assert "cgroup" not in found
    assert "/cmdline" not in found


@pytest.mark.parametrize("placed", [True, False])
def test_who_leaves_session_and_environment_behind_is_still_ended(
    house: House, placed: bool
) -> None:
    house.hire("--attempt-uids", RANGE)
    house.log(house.submit(DESERTER, placed=placed))
    assert is_gone(int(house.read("stray")))
    assert not _list_processes(int(house.read("deserter.uid")))


def test_a_deserter_of_a_shim_that_was_killed_is_ended(house: House) -> None:
    house.hire("--attempt-uids", RANGE)
    job_id = house.submit(f"{DESERTER} sleep 600", placed=True)
    uid = int(house.read("deserter.uid"))
    [folder] = house.cluster.folders("w")
    find_shim(folder).kill()
    eventually(lambda: not _list_processes(uid))
    assert eventually(lambda: house.cluster.attempts(job_id))


def test_what_outlived_worker_and_watchdog_is_ended_by_the_next_worker(house: House) -> None:
    worker = house.hire("--attempt-uids", RANGE)
    job_id = house.submit(VICTIM, placed=False)
    uid = house.read(f"{job_id}.0.uid")
    child = find_child(worker)
    [watchdog] = [each for each in child.children() if "watchdog.py" in str(each.cmdline())]
    for process in (psutil.Process(worker.pid), child):
        process.suspend()  # or it would end what it runs, since nobody watches over it
    watchdog.kill()
    worker.kill()
    worker.wait()
    eventually(lambda: is_gone(child.pid))
    assert len(_list_processes(int(uid))) > 0
    (house.folder / f"{job_id}.0.uid").unlink()
    house.hire("--attempt-uids", RANGE)
    assert house.read(f"{job_id}.0.uid") not in (uid, "0")
    assert not _list_processes(int(uid))
    (house.folder / "finish").touch()
    house.log(job_id)


@pytest.mark.nightly
def test_an_attempt_is_adopted_and_nobody_else_gets_its_user(house: House) -> None:
    worker = house.hire("--attempt-uids", RANGE)
    job_id = house.submit(VICTIM, placed=True)
    uid = house.read(f"{job_id}.0.uid")
    house.await_running(job_id)
    child = find_child(worker)
    os.kill(worker.pid, signal.SIGKILL)
    eventually(lambda: is_gone(child.pid))
    worker.wait()
    assert len(_list_processes(int(uid))) > 0
    house.hire("--attempt-uids", RANGE)
    other = house.submit(VICTIM, placed=True)
    assert house.read(f"{other}.0.uid") not in (uid, "0")
    assert len(_list_processes(int(uid))) > 0
    (house.folder / "finish").touch()
    house.log(job_id)
    house.log(other)
    [attempt] = house.cluster.attempts(job_id)
    assert attempt.attempt == 0
    assert not _list_processes(int(uid))


@pytest.mark.nightly
def test_functions_and_environments_are_at_the_service_of_users_of_their_own(house: House) -> None:
    packages = sysconfig.get_path("purelib")
    for path in (Path(packages), *Path(packages).parents, ROOT, *ROOT.parents):
        if not path.stat().st_mode & 0o001:
            pytest.skip(f"the code under test is where only root can read it: {path}")
    python = copy_python(house.folder / "python")
    (code := house.folder / "code").mkdir()
    (code / "seen.py").write_text(SEEN)
    house.cluster.plant(
        PYTHONPATH=os.pathsep.join([str(ROOT), packages, str(code)]),
        LD_LIBRARY_PATH=str(house.folder / "python" / "lib"),
        PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    )
    program = (str(python), "-m", "holdfast.cli.app")
    does = ("--import", "seen", "--isolation", "process")
    house.hire(*does, "--attempt-uids", RANGE, program=program)
    wheel = write_wheel(house.folder / "wheels")
    made = {"requirements": [f"tiny @ file://{wheel}"]}
    for spec in ({"queue": QUEUE}, {}, made, made):
        job_id = house.submit_job({"function": "seen:look"}, **spec)
        house.log(job_id)
        query = "select result from holdfast.tasks where job_id = %s"
        [(result,)] = house.cluster.fetch(query, job_id)
        assert result["uid"] not in (0, None)
        assert result["home"] == result["cwd"]
        assert result["tiny"] == ("1.0" if spec is made else None)
        # The worker was started in the house, which is open to all; nothing else is.
        assert result["writable"] == [str(house.folder)]


def _list_processes(uid: int) -> list[psutil.Process]:
    """List the living processes of a user."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.uids().real == uid and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found
