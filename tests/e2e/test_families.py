"""Placed functions and commands that publish addresses and submit children, as real processes."""

from pathlib import Path

import psutil
import pytest

import holdfast as hf
from tests.e2e.families import ENDPOINT, have_a_child
from tests.e2e.system import PROGRAM, eventually, running
from tests.e2e.test_kills import check_ledger
from tests.test_guides import free_port

SECONDS_MAX = 90
TASKS = ("--import", "tests.e2e.families", "--allow-commands")
ROOM = ("--placed", "--cpu", "4", "--memory", "1GB")
# The first child runs on, the second one is waited for, the third is submitted as a spec.
SCRIPT = f"""
{PROGRAM} run --placed --detach -- sh -c '{PROGRAM} endpoint register family/child c:1; sleep 600'
{PROGRAM} run --placed -- echo said by a child || exit
echo '{{"entrypoint": {{"command": ["sleep", "600"]}}}}' | {PROGRAM} submit --spec - || exit
{PROGRAM} endpoint register family/command p:1
sleep 600
"""


def test_a_function_and_a_command_have_children_that_end_with_them(tmp_path: Path) -> None:
    with running(tmp_path, free_port()) as system, system.client() as client:
        system.start_worker(*TASKS, *ROOM)
        _fail_a_function(client, tmp_path)
        _cancel_a_command(client)
        check_ledger(system)


def _fail_a_function(client: hf.Client, folder: Path) -> None:
    """Its child is in a process of its own, and ends hard with it."""
    parent = have_a_child.submit(str(folder))
    child = client.job(client.endpoint(ENDPOINT, timeout=SECONDS_MAX))
    assert child.status().parent_job_id == parent.id
    pid = int(eventually(lambda: _read(folder / "child")))
    assert client.endpoints(ENDPOINT)[0].metadata == {"kind": "job"}
    (folder / "fail").touch()
    assert parent.wait(SECONDS_MAX).state == "JOB_STATE_FAILED"
    ended = child.wait(SECONDS_MAX)
    assert (ended.state, ended.cancel_mode) == ("JOB_STATE_KILLED", "hard")
    eventually(lambda: not psutil.pid_exists(pid))
    with pytest.raises(hf.NotFound):
        client.endpoint(ENDPOINT)


def _cancel_a_command(client: hf.Client) -> None:
    """Its children are cancelled as softly as itself."""
    parent = client.run_command(SCRIPT, queue=None)
    for name, address in (("family/command", "p:1"), ("family/child", "c:1")):
        assert client.endpoint(name, timeout=SECONDS_MAX) == address
    said, *live = _list_children(client, parent.id)
    assert (said.status().state, len(live)) == ("JOB_STATE_SUCCEEDED", 2)
    eventually(lambda: b"said by a child" in b"".join(parent.logs()))
    assert parent.cancel("soft")
    assert parent.wait(SECONDS_MAX).state == "JOB_STATE_KILLED"
    for child in live:
        ended = child.wait(SECONDS_MAX)
        assert (ended.state, ended.cancel_mode) == ("JOB_STATE_KILLED", "soft")
    assert client.endpoints("family/") == []


def _list_children(client: hf.Client, job_id: str) -> list[hf.Job[object]]:
    """List the children of a job, those that have ended first."""
    page = client.jobs.list(parent=job_id)
    jobs = sorted(page.jobs, key=lambda job: job.finished_at_ms is None)
    return [client.job(job.job_id) for job in jobs]


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
