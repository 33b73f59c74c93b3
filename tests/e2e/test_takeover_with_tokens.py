"""A worker that was killed takes over from itself where tokens are asked for, and nobody else."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Service, living, served_at
from tests.cli.program import PROGRAM, environment, eventually, run

ROOM = ("--cpu=1", "--memory=1GB", "--disk=1GB", "--drain-seconds=1")


@pytest.fixture
def guarded(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Service]:
    """A server that asks for tokens, and who may do all there; `hands` is for workers."""
    at = ("--database-url", database_url)
    for name, role in (("root", "admin"), ("hands", "worker")):
        made = run("tokens", "create", f"--name={name}", f"--role={role}", *at)
        (tmp_path / name).write_text(made.out)
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(tmp_path / "root"))
    # The lives of leases and workers are those of servers in the field: nobody waits for either.
    with living(tmp_path, "server", *at, "--port=0", "--require-tokens") as server:
        yield Service(served_at(server), tmp_path)


@contextmanager
def working(service: Service, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker of the host for the time of a block; it may be killed in it."""
    with (service.folder / "workers.log").open("ab") as log:
        process = subprocess.Popen(
            [PROGRAM, "worker", "--name=hands", "--allow-commands", *ROOM, *flags],
            env=environment(
                HOLDFAST_SERVER=service.url,
                HOLDFAST_TOKEN_FILE=str(service.folder / "hands"),
                HOLDFAST_WORKER_DIR=str(service.folder / "slots"),
            ),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def submit(service: Service, name: str, **fields: object) -> str:
    """Submit a command that notes each start, and waits until it may go; its lease is long."""
    folder = service.folder
    script = f"echo $$ >> {folder}/{name}; until [ -e {folder}/go ]; do sleep 0.02; done"
    spec = {"entrypoint": {"shell": script}, "lease": 120, **fields}
    (folder / f"{name}.json").write_text(json.dumps(spec))
    return service.submit("--spec", str(folder / f"{name}.json"))


def started(folder: Path, name: str) -> int:
    """Count how often a command has started."""
    path = folder / name
    return len(path.read_text().split()) if path.exists() else 0


def test_what_it_ran_lives_on_or_is_started_again_at_once(guarded: Service) -> None:
    folder = guarded.folder
    flags = ("--queue=q", "--placed", "--gpu=0")
    with working(guarded, *flags) as first:
        jobs = [
            submit(guarded, "placed", resources={"cpu": 1}),
            submit(guarded, "claimed", queue="q"),
        ]
        eventually(lambda: started(folder, "placed") and started(folder, "claimed"))
        os.killpg(first.pid, signal.SIGKILL)
        first.wait(60)
    check_slots(folder)
    with working(guarded, *flags):
        # The leases have two minutes to go: nobody waited for them.
        eventually(lambda: started(folder, "claimed") == 2)
        eventually(lambda: "adopted 1 attempts" in (folder / "workers.log").read_text())
        (folder / "go").touch()
        for job in jobs:
            assert guarded.call("wait", job, "--timeout=60").code == 0
    ends = [[each.get("error") for each in guarded.ask("task", job)["attempts"]] for job in jobs]
    assert ends == [[None], ["worker replaced after it was gone", None]]
    assert started(folder, "placed") == 1
    check_secrets_unseen(folder)


def check_slots(folder: Path) -> None:
    """See that what proves a worker is there, and for its user alone."""
    found = list((folder / "slots").rglob("slot-0.secret"))
    assert len(found) == 2
    assert {path.stat().st_mode & 0o777 for path in found} == {0o600}


def check_secrets_unseen(folder: Path) -> None:
    """See that no secret of a worker is in any log."""
    kept = [path.read_text().split() for path in (folder / "slots").rglob("slot-0.secret")]
    logs = "".join(path.read_text() for path in folder.glob("*.log"))
    for worker_id, secret in kept:
        assert worker_id in logs
        assert secret not in logs


def test_who_has_lost_the_secret_waits_for_the_leases(guarded: Service) -> None:
    folder = guarded.folder
    with working(guarded, "--queue=q") as first:
        job = submit(guarded, "claimed", queue="q")
        eventually(lambda: started(folder, "claimed"))
        os.killpg(first.pid, signal.SIGKILL)
        first.wait(60)
    [secret] = (folder / "slots").rglob("slot-0.secret")
    secret.unlink()
    with working(guarded, "--queue=q"):
        eventually(lambda: len(json.loads(guarded.call("workers", "--json").out)["workers"]) == 2)
        assert "is replaced only by who has its secret" in (folder / "workers.log").read_text()
        task = guarded.ask("task", job)
        assert task["state"] in ("TASK_STATE_ASSIGNED", "TASK_STATE_RUNNING")
        assert started(folder, "claimed") == 1
