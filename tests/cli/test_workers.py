"""`workers`: who works, and who is asked to leave."""

import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Service
from tests.cli.program import SECONDS_MAX, eventually, start


def test_a_worker_is_listed_with_what_it_serves(service: Service) -> None:
    workers = service.ask("workers")["workers"]
    [found] = [each for each in workers if each["queues"] == ["default"]]
    assert found["health"] == "healthy"
    [line] = [
        line for line in service.run("workers").out.splitlines() if found["worker_id"] in line
    ]
    assert line.split()[:2] == [found["worker_id"], "healthy"]


def test_a_drained_worker_leaves_by_itself(service: Service, tmp_path: Path) -> None:
    variables = {"HOLDFAST_SERVER": service.url, "HOLDFAST_WORKER_DIR": str(tmp_path)}
    process = start("worker", "--queue=drained", "--name=leaver", **variables)

    def find_worker() -> str | None:
        workers = service.ask("workers")["workers"]
        names = [each["worker_id"] for each in workers if each["name"] == "leaver"]
        return names[0] if names else None

    try:
        worker_id = eventually(find_worker)
        ended = service.run("workers", "drain", worker_id)
        assert (ended.code, ended.out) == (0, f"worker {worker_id} is draining\n")
        process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 0
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize(("worker_id", "code"), [("nobody-1", 1), ("no body", 2)])
def test_a_worker_that_is_not_there_cannot_be_drained(
    service: Service, worker_id: str, code: int
) -> None:
    ended = service.run("workers", "drain", worker_id)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("holdfast: ")
