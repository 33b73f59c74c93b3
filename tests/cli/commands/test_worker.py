"""`worker`: what it checks first, what it runs, and how it leaves."""

import json
import os
import signal
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from holdfast.cli.commands.worker import (
    MARK,
    check_numbers,
    import_modules,
    mark_children,
    read_attributes,
)
from holdfast.errors import Invalid
from tests.cli.conftest import Service, living, served_at
from tests.cli.program import SECONDS_MAX, bounded, eventually, run, start
from tests.sqs import ENVIRONMENT, Sqs, aws_fixture, sqs_endpoint_fixture, sqs_fixture

__all__ = ["aws_fixture", "sqs_endpoint_fixture", "sqs_fixture"]


def test_it_serves_the_queues_it_is_told(service: Service, tmp_path: Path) -> None:
    first, second = f"q{uuid4().hex[:8]}", f"q{uuid4().hex[:8]}"
    with living(
        tmp_path,
        *("worker", f"--queue={first}", f"--queue={second}", "--import=tests.cli.tasks"),
        *("--name=two-queues", "--concurrency=2", "--isolation=process"),
        HOLDFAST_SERVER=service.url,
        HOLDFAST_WORKER_DIR=str(tmp_path),
    ):
        for queue in (first, second):
            job_id = service.submit("tests.cli.tasks:add", "--arg=1", f"--queue={queue}")
            assert service.run("wait", job_id, "--timeout=60").code == 0
            worker_id = service.ask("task", job_id)["worker_id"]
            assert worker_id.startswith("two-queues-")


def test_attributes_have_the_type_that_they_show() -> None:
    found = read_attributes(["region=eu", "rack=7", "nvme=true", "note=a=b", "serial=007"])
    assert found == {"region": "eu", "rack": 7, "nvme": True, "note": "a=b", "serial": "007"}


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--gpu=2"], "gpu: goes with --placed"),
        (["--cpu=-1"], "cpu: is -1; use 0 to"),
        (["--attribute=region=eu"], "attribute: goes with --placed"),
        (["--placed", "--attribute=region"], "'region' is not an attribute; write name=value"),
        (["--placed", "--memory=much"], "memory: 'much' is not a size"),
        (["--placed", "--gpu=many"], "gpu: 'many' is not a number of GPUs"),
        (["--placed", "--cpu=-1"], "cpu"),
        (["--placed", "--heartbeat-timeout-seconds=0"], "heartbeat_timeout_seconds: is 0; use 1"),
    ],
)
def test_an_offer_that_makes_no_sense_is_refused(
    flags: list[str], problem: str, tmp_path: Path
) -> None:
    ended = run("worker", *flags, HOLDFAST_WORKER_DIR=str(tmp_path))
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert ended.err.count("\n") == 1


def test_it_registers_anew_when_nobody_calls_it_for_its_timeout(
    service: Service, tmp_path: Path
) -> None:
    name = f"lonely-{uuid4().hex[:8]}"

    def find_lost() -> list[str]:
        workers = service.ask("workers")["workers"]
        return [
            each["worker_id"] for each in workers if each["name"] == name and each["lost_at_ms"]
        ]

    with living(
        tmp_path,
        *("worker", "--placed", "--cpu=1", f"--name={name}", "--drain-seconds=1"),
        HOLDFAST_HEARTBEAT_TIMEOUT_SECONDS="1",
        HOLDFAST_SERVER=service.url,
        HOLDFAST_WORKER_DIR=str(tmp_path),
    ):
        # Less than a tick of its server: between two calls it takes itself for forgotten.
        eventually(find_lost)


def test_it_hears_of_work_through_sqs(database_url: str, tmp_path: Path, sqs: Sqs) -> None:
    queue = f"q{uuid4().hex[:8]}"
    shared = {
        "HOLDFAST_WAKE_UPS": "sqs",
        "HOLDFAST_SQS_PREFIX": sqs.prefix,
        "HOLDFAST_SQS_ENDPOINT_URL": sqs.endpoint_url,
        "HOLDFAST_WORKER_DIR": str(tmp_path),
        **ENVIRONMENT,
    }
    address = ("server", "--database-url", database_url, "--port=0")
    with living(tmp_path, *address, **shared) as server:
        service = Service(served_at(server), tmp_path)
        where = {"HOLDFAST_SERVER": service.url, **shared}
        with living(tmp_path, "worker", f"--queue={queue}", **where):
            ended = service.run("run", "-d", f"--queue={queue}", "--", "true")
            assert service.run("wait", ended.out.strip(), "--timeout=60").code == 0
            url = eventually(lambda: find_queue(sqs, queue))
            eventually(lambda: count_messages(sqs, url) == 0)


def find_queue(sqs: Sqs, queue: str) -> str | None:
    """Find the SQS queue of a queue, if it exists."""
    urls = sqs.client.list_queues(QueueNamePrefix=f"{sqs.prefix}{queue}").get("QueueUrls", [])
    return urls[0] if urls else None


def count_messages(sqs: Sqs, url: str) -> int:
    """Count what an SQS queue holds, in flight or not."""
    answer = sqs.client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    held = answer["Attributes"]
    visible = int(held["ApproximateNumberOfMessages"])
    return visible + int(held["ApproximateNumberOfMessagesNotVisible"])


def test_what_still_runs_when_it_leaves_is_handed_back(service: Service, tmp_path: Path) -> None:
    queue = f"q{uuid4().hex[:8]}"
    with living(
        tmp_path,
        *("worker", f"--queue={queue}", "--drain-seconds=0"),
        HOLDFAST_SERVER=service.url,
        HOLDFAST_WORKER_DIR=str(tmp_path),
    ):
        ended = service.run("run", "-d", f"--queue={queue}", "--", "sleep", "600")
        job_id = ended.out.strip()
        eventually(lambda: service.ask("task", job_id)["state"] == "TASK_STATE_RUNNING")
    task = service.ask("task", job_id)
    assert (task["state"], task["preemption_count"]) == ("TASK_STATE_PENDING", 0)
    assert service.run("cancel", job_id).code == 0


def test_it_waits_for_a_server_that_is_not_there_yet_and_leaves_when_asked(
    tmp_path: Path,
) -> None:
    variables = {"HOLDFAST_WORKER_DIR": str(tmp_path)}
    process = bounded(start("worker", "--server=http://127.0.0.1:1", **variables))
    try:
        assert process.stderr is not None
        line = json.loads(process.stderr.readline())
        assert line["level"] == "warning"
        assert "127.0.0.1:1" in line["message"]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS_MAX)
        assert process.returncode in (0, 2)
        assert psutil.pid_exists(process.pid) is False
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--concurrency=0"], "concurrency: is 0"),
        (["--drain-seconds=-1"], "drain_seconds: is -1"),
        (["--isolation=none"], "--isolation"),
        (["--import=no_such_module"], "'no_such_module' cannot be imported"),
        (["--server=nonsense"], "is not a URL"),
        (["stray"], "stray"),
    ],
)
def test_what_cannot_work_is_refused_at_once(flags: list[str], problem: str) -> None:
    ended = run("worker", *flags)
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert ended.err.count("\n") == 1


def test_numbers_that_no_worker_can_live_with_are_refused() -> None:
    for concurrency, drain_seconds in ((0, 1.0), (10_001, 1.0), (1, -1.0), (1, float("nan"))):
        with pytest.raises(Invalid):
            check_numbers(concurrency, drain_seconds)
    check_numbers(1, 0.0)


def test_modules_are_found_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"m{uuid4().hex[:8]}"
    (tmp_path / f"{name}.py").write_text("raise ImportError('broken')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(Invalid, match="broken"):
        import_modules([name])


def test_each_worker_marks_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, "before")
    first, second = mark_children(), mark_children()
    assert first != second == f"{MARK}={os.environ[MARK]}"
