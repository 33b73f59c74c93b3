"""`worker`: what it checks first, what it runs, and how it leaves."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import psutil
import pytest

import holdfast as hf
from holdfast.cli.commands.processes.worker import (
    MARK,
    check_numbers,
    mark_children,
    read_attributes,
)
from holdfast.errors import Invalid
from tests.cli.conftest import Service, living, served_at
from tests.cli.program import SECONDS_MAX, bounded, eventually, run, start
from tests.client import codecs
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


def test_queues_and_placed_work_of_one_process_share_its_cores(
    service: Service, tmp_path: Path
) -> None:
    """Of two cores, a placed task has one: of two claimed tasks of a core, one has to wait."""
    queue = f"q{uuid4().hex[:8]}"
    wait = f"touch {tmp_path}/up-$HOLDFAST_JOB_ID; until [ -e {tmp_path}/go ]; do sleep 0.02; done"
    with living(
        tmp_path,
        *("worker", f"--queue={queue}", "--placed", "--cpu=2", f"--attribute=pool={queue}"),
        *("--memory=1GB", "--disk=1GB", "--gpu=0", "--allow-commands"),
        HOLDFAST_SERVER=service.url,
        HOLDFAST_WORKER_DIR=str(tmp_path / "workers"),
        CUDA_VISIBLE_DEVICES="0",
    ):
        # Devices are for placed work, and here for that of others.
        see = ("run", f"--queue={queue}", "--", "sh", "-c", "echo devices:$CUDA_VISIBLE_DEVICES.")
        assert "devices:.\n" in service.run(*see).out

        def submit(*flags: str) -> str:
            return service.run("run", "-d", *flags, "--", "sh", "-c", wait).out.strip()

        placed = submit("--cpu=1", f"--constraint=pool={queue}")
        eventually((tmp_path / f"up-{placed}").exists)
        first, second = (submit("--cpu=1", f"--queue={queue}") for _ in range(2))
        eventually((tmp_path / f"up-{first}").exists)
        plain = submit(f"--queue={queue}")
        eventually((tmp_path / f"up-{plain}").exists)
        assert service.ask("task", second)["state"] == "TASK_STATE_PENDING"
        [worker] = [
            each
            for each in service.ask("workers")["workers"]
            if each["placed"] and each["attributes"].get("pool") == queue
        ]
        assert worker["resources"]["used"]["cpu"] == 2.0
        other = service.ask("workers", "show", worker["same_process"])
        assert (other["same_process"], other["queues"]) == (worker["worker_id"], [queue])
        assert f"one process with {other['worker_id']}" in service.call("workers").out
        (tmp_path / "go").touch()
        for job_id in (placed, first, plain, second):
            assert service.call("wait", job_id, "--timeout=60").code == 0


def test_it_runs_what_it_was_given_and_no_more(service: Service, tmp_path: Path) -> None:
    queue = f"q{uuid4().hex[:8]}"
    claimed, placed = f"--queue={queue}", f"--constraint=pool={queue}"
    with living(
        tmp_path,
        *("worker", claimed, "--placed", "--name=strict", "--import=tests.cli.tasks"),
        *("--allow=posixpath:[be]*", f"--attribute=pool={queue}", "--cpu=2", "--memory=1GB"),
        *("--disk=1GB", "--gpu=0"),
        HOLDFAST_SERVER=service.url,
        HOLDFAST_WORKER_DIR=str(tmp_path / "workers"),
    ):
        for where in (claimed, placed):
            given = service.submit("tests.cli.tasks:add", "--arg=1", where)
            allowed = service.submit("posixpath:basename", '--arg="a/b"', where)
            touch = ("--retries=2", "--", "touch", str(tmp_path / "touched"))
            command = service.run("submit", where, *touch).out.strip()
            other = service.submit("posixpath:join", '--arg="a"', where)
            # Its name is allowed, but it is another module's.
            borrowed = service.submit("posixpath:exists", '--arg="a"', where)
            # Python would import what this names, before it runs anything.
            steered = service.submit(
                "posixpath:basename", "--arg=1", "--env=PYTHONWARNINGS=x", where
            )
            for job_id in (given, allowed):
                assert service.call("wait", job_id, "--timeout=60").code == 0
            for job_id, flag in (
                (command, "--allow-commands"),
                (other, "--allow posixpath:join"),
                (borrowed, "finds genericpath:exists under posixpath:exists"),
                (steered, "lets no job set PYTHONWARNINGS"),
            ):
                assert service.call("wait", job_id, "--timeout=60").code == 1
                [attempt] = service.ask("task", job_id)["attempts"]
                assert attempt["error"].startswith("worker strict ")
                assert flag in attempt["error"]
            if where == claimed:
                letter = service.ask("dead-letters", "show", f"{command}.0")
                assert letter["reason_code"] == "policy_violation"
                assert letter["last_error"].startswith("worker strict runs no commands")
    assert not (tmp_path / "touched").exists()


def test_placed_work_is_encoded_too(service: Service, tmp_path: Path) -> None:
    queue = f"q{uuid4().hex[:8]}"
    with (
        living(
            tmp_path,
            *("worker", "--placed", f"--attribute=pool={queue}", "--import=tests.client.codecs"),
            *(
                "--codec=tests.client.codecs:codec",
                "--cpu=1",
                "--memory=1GB",
                "--disk=1GB",
                "--gpu=0",
            ),
            HOLDFAST_SERVER=service.url,
            HOLDFAST_WORKER_DIR=str(tmp_path / "workers"),
        ),
        hf.Client(service.url, codec=codecs.codec) as client,
    ):
        pool = hf.Constraint("pool", value=queue)
        join = codecs.join.with_options(queue=None, constraints=[pool])
        job = client.submit(join, "a", right="b")
        assert job.result(timeout=60) == "ab"
        assert client.map(join, ["c"], right="d").results(timeout=60) == ["cd"]
        spec: Any = msgspec.to_builtins(job.status().spec)
        assert spec["entrypoint"]["args"][0]["$holdfast_codec"] == "fernet"


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
        (["--disk=100"], "disk: 100 has no unit; write 100GB, or 100B for bytes"),
        (["--placed", "--gpu=many"], "gpu: 'many' is not a number of GPUs"),
        (["--placed", "--cpu=-1"], "cpu"),
        (["--placed", "--heartbeat-timeout-seconds=0"], "heartbeat_timeout_seconds: is 0; use 1"),
    ],
)
def test_an_offer_that_makes_no_sense_is_refused(
    flags: list[str], problem: str, tmp_path: Path
) -> None:
    ended = run("worker", "--allow=*", *flags, HOLDFAST_WORKER_DIR=str(tmp_path))
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("way", ["flag", "variable"])
def test_it_registers_anew_when_nobody_calls_it_for_its_timeout(
    service: Service, tmp_path: Path, way: str
) -> None:
    name = f"lonely-{uuid4().hex[:8]}"
    flags = ["--heartbeat-timeout-seconds=1"] if way == "flag" else []
    variables = {"HOLDFAST_HEARTBEAT_TIMEOUT_SECONDS": "1"} if way == "variable" else {}

    def find_lost() -> list[str]:
        workers = service.ask("workers")["workers"]
        return [
            each["worker_id"] for each in workers if each["name"] == name and each["lost_at_ms"]
        ]

    with living(
        tmp_path,
        *("worker", "--placed", "--cpu=1", f"--name={name}", "--drain-seconds=1", "--allow=*"),
        *flags,
        **variables,
        HOLDFAST_SERVER=service.url,
        HOLDFAST_WORKER_DIR=str(tmp_path),
    ):
        # Less than a tick of its server: between two calls it takes itself for forgotten.
        eventually(find_lost)
        [log] = tmp_path.glob("worker-*.log")
    warning = "starts anew after 1 s without a call, and is called every 5 s"
    assert warning in log.read_text()
    assert "set --heartbeat-timeout-seconds to more than 5, better 30" in log.read_text()


def test_a_timeout_of_several_ticks_needs_no_warning(service: Service, tmp_path: Path) -> None:
    name = f"patient-{uuid4().hex[:8]}"
    with living(
        tmp_path,
        *("worker", "--placed", "--cpu=1", f"--name={name}", "--drain-seconds=1", "--allow=*"),
        *("--heartbeat-timeout-seconds=10",),
        HOLDFAST_SERVER=service.url,
        HOLDFAST_WORKER_DIR=str(tmp_path),
    ):
        eventually(lambda: [w for w in service.ask("workers")["workers"] if w["name"] == name])
        [log] = tmp_path.glob("worker-*.log")
        eventually(lambda: "registered as" in log.read_text())
    assert "--heartbeat-timeout-seconds" not in log.read_text()


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
        with living(tmp_path, "worker", "--allow-commands", f"--queue={queue}", **where):
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
        *("worker", "--allow-commands", f"--queue={queue}", "--drain-seconds=0"),
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
    process = bounded(start("worker", "--allow=*", "--server=http://127.0.0.1:1", **variables))
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


def test_what_needs_a_tool_that_no_worker_has_is_not_tried_for_ever(
    service: Service, tmp_path: Path
) -> None:
    # A Python with nothing beside it, and a PATH without uv.
    bare, rack = tmp_path / "bare", f"r{uuid4().hex[:8]}"
    bare.mkdir()
    (bare / "python").symlink_to(sys.executable)
    variables = {
        "HOLDFAST_SERVER": service.url,
        "HOLDFAST_WORKER_DIR": str(tmp_path),
        "PATH": str(bare),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    options = ("worker", "--placed", "--cpu=1", f"--attribute=rack={rack}", "--drain-seconds=0")
    program = ("-m", "holdfast.cli.app", *options, "--allow-commands")
    with living(tmp_path, *program, program=str(bare / "python"), **variables):
        spec = {
            "entrypoint": {"command": ["true"]},
            "resources": {"cpu": 1},
            "constraints": [{"attribute": "rack", "op": "=", "value": rack}],
            "requirements": ["numpy"],
            "backoff": {"base": 0},
        }
        (tmp_path / "spec.json").write_text(json.dumps(spec))
        job_id = service.submit_and_wait("--spec", str(tmp_path / "spec.json"))
    task = service.ask("task", job_id)
    errors = {each["error"] for each in task["attempts"]}
    assert len(task["attempts"]) == 5
    assert errors == {"there is no uv on this worker; install it: pip install uv"}


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--concurrency=0"], "concurrency: is 0"),
        (["--drain-seconds=-1"], "drain_seconds: is -1"),
        (["--queue=mail,reports"], "queue: 'mail,reports' is not a queue name; use letters, dig"),
        (["--isolation=none"], "--isolation"),
        (["--import=no_such_module"], "'no_such_module' cannot be imported"),
        (["--server=nonsense"], "is not a URL"),
        (["--allow=*", "--codec=nowhere"], "codec: 'nowhere' is no codec; write MODULE:OBJECT"),
        ([], "allow: it was given nothing to run; name modules with tasks by --import MODULE, or"),
        (["--import=json"], "allow: nothing in what it imports is decorated with @hf.task; name"),
        (["--allow=shop mail"], "allow: 'shop mail' is no function; write package.module:name"),
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


def test_each_worker_marks_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, "before")
    first, second = mark_children(), mark_children()
    assert first != second == f"{MARK}={os.environ[MARK]}"
