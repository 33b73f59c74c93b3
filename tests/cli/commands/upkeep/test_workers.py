"""`workers`: who works, and who is asked to leave."""

import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Service
from tests.cli.program import SECONDS_MAX, eventually, start


def test_a_worker_is_listed_with_what_it_serves(service: Service) -> None:
    workers = service.ask("workers")["workers"]
    [found] = [each for each in workers if each["name"] == "handy"]
    assert found["queues"] == ["default"]
    assert found["health"] == "healthy"
    [line] = [
        line for line in service.run("workers").out.splitlines() if found["worker_id"] in line
    ]
    assert line.split()[:2] == [found["worker_id"], "healthy"]


def test_a_placed_worker_is_listed_with_what_it_has(cluster: Service) -> None:
    worker = cluster.find_worker("roomy")
    text = cluster.run("workers").out
    [line] = [line for line in text.splitlines() if worker["worker_id"] in line]
    assert "placed" in line
    assert "/4 " in line
    assert "/1GB " in line
    assert "/2 H100" in line
    assert "nvme=true" in line
    for columns in (80, 200):
        shown = cluster.on_terminal("workers", columns=columns)
        titles = shown.splitlines()[0]
        assert ("attributes" in titles) == (columns == 200)
        assert worker["worker_id"] in shown


def test_a_worker_is_shown_alone(cluster: Service) -> None:
    worker = cluster.find_worker("roomy")
    text = cluster.run("workers", "show", worker["worker_id"]).out
    assert text.startswith(f"Worker {worker['worker_id']}\n")
    assert "\nattributes  nvme=true  rack=r7  region=eu\n" in text
    assert f"\naddress     {worker['address']}\n" in text
    assert cluster.ask("workers", "show", worker["worker_id"])["name"] == "roomy"
    claims = service_worker(cluster)
    assert "\nwork        claims default\n" in cluster.run("workers", "show", claims).out
    assert cluster.run("workers", "show", "nobody-1").code == 1


def service_worker(service: Service) -> str:
    """Give the id of the worker that claims."""
    return str(service.find_worker("handy")["worker_id"])


def test_a_drained_worker_leaves_by_itself(service: Service, tmp_path: Path) -> None:
    variables = {"HOLDFAST_SERVER": service.url, "HOLDFAST_WORKER_DIR": str(tmp_path)}
    process = start("worker", "--queue=drained", "--allow-commands", "--name=leaver", **variables)

    try:
        worker_id = eventually(lambda: service.find_worker("leaver"))["worker_id"]
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


def test_what_ended_on_a_worker_is_listed(service: Service) -> None:
    worker_id = service_worker(service)
    fine = service.submit("tests.cli.tasks:add", "--arg=1")
    assert service.run("wait", fine).code == 0
    wrong = service.submit("tests.cli.tasks:no_such_function")
    assert service.run("wait", wrong).code == 1
    lines = service.run("workers", "attempts", worker_id).out.splitlines()[1:3]
    assert [line.split()[:2] for line in lines] == [[f"{wrong}.0", "0"], [f"{fine}.0", "0"]]
    bad = service.ask("workers", "attempts", worker_id, "--unsuccessful", "--limit", "1")
    assert [each["task_id"] for each in bad["attempts"]] == [f"{wrong}.0"]
    jobs = service.ask("jobs", "--worker", worker_id, "--limit", "2")["jobs"]
    assert [job["job_id"] for job in jobs] == [wrong, fine]
    stranger = service.run("workers", "attempts", "nobody-1")
    assert (stranger.code, stranger.out, "nobody-1" in stranger.err) == (1, "", True)
    name = service.ask("workers", "show", worker_id)["name"]
    assert service.run("workers", "attempts", name).code == 1, "a name is no id"
