"""`server`: where it listens, what it checks first, and how it ends."""

import json
import signal
import socket
import urllib.error
import urllib.request
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.cli.commands.processes.server import ServerSettings, check_settings
from holdfast.errors import Invalid
from tests.cli.conftest import Service, living, served_at
from tests.cli.program import SECONDS_MAX, bounded, eventually, run, start
from tests.sqs import ENVIRONMENT, Sqs, aws_fixture, sqs_endpoint_fixture, sqs_fixture

__all__ = ["aws_fixture", "sqs_endpoint_fixture", "sqs_fixture"]


def settings(lease_min: float | None = None, retention_days: float = 30.0) -> ServerSettings:
    """Take a server's settings, some of them changed."""
    return ServerSettings(
        lease_min=lease_min,
        retention_days=retention_days,
        wake_ups="notify",
        sqs_prefix="x",
        sqs_endpoint_url=None,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_serves_and_ends_when_asked(
    database_url: str, number: signal.Signals
) -> None:
    process = bounded(start("server", "--database-url", database_url, "--port=0"))
    try:
        url = served_at(process)
        with urllib.request.urlopen(f"{url}/healthz") as answer:
            assert answer.status == 200
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS_MAX)
        assert (process.returncode, out) == (0, "")
        assert all("leading in term" in line for line in err.splitlines())
    finally:
        process.kill()
        process.communicate()


def test_it_brings_the_schema_up_only_when_told(empty_database_url: str, tmp_path: Path) -> None:
    flags = ("server", "--database-url", empty_database_url, "--port=0")
    refused = run(*flags)
    assert (refused.code, refused.out) == (2, "")
    assert "holdfast db migrate" in refused.err
    with living(tmp_path, *flags, "--migrate") as server:
        served_at(server)


def test_short_leases_are_taken_where_the_range_was_widened(
    database_url: str, tmp_path: Path
) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text('{"entrypoint": {"shell": "true"}, "queue": "none", "lease": 2}')
    for lease_min, code in (("1", 0), ("", 2)):
        with living(
            tmp_path,
            *("server", "--database-url", database_url, "--port=0"),
            HOLDFAST_LEASE_MIN=lease_min,
        ) as server:
            ended = run("submit", "--spec", str(spec), "--server", served_at(server))
            assert ended.code == code, ended.err


def test_a_lease_of_placed_work_is_measured_by_the_heartbeats_of_the_server(
    database_url: str, tmp_path: Path
) -> None:
    spec = tmp_path / "spec.json"
    flags = ("--database-url", database_url, "--port=0", "--lease-min=1", "--heartbeat-seconds=7")
    with living(tmp_path, "server", *flags) as server:
        url = served_at(server)
        for lease, code in ((13.9, 2), (14, 0)):
            spec.write_text(f'{{"entrypoint": {{"shell": "true"}}, "lease": {lease}}}')
            ended = run("submit", "--spec", str(spec), "--server", url)
            assert ended.code == code, ended.err
            assert ("two heartbeats of placed work; use at least 14" in ended.err) == (code == 2)


@pytest.mark.parametrize("way", ["default", "variable", "flag"])
def test_bundles_are_kept_where_it_says(database_url: str, tmp_path: Path, way: str) -> None:
    folders = {"default": "own/objects", "variable": "v", "flag": "f"}
    flags = [f"--object-store={tmp_path / 'f'}"] if way == "flag" else []
    chosen = "" if way == "default" else str(tmp_path / "v")
    with living(
        tmp_path,
        *("server", "--database-url", database_url, "--port=0", *flags),
        HOLDFAST_DATA_DIR=str(tmp_path / "own"),
        HOLDFAST_OBJECT_STORE=chosen,
    ) as server:
        url = f"{served_at(server)}/api/bundles/{sha256(b'x').hexdigest()}"
        headers = {"Content-Type": "application/octet-stream"}
        put = urllib.request.Request(url, b"x", headers, method="PUT")
        with urllib.request.urlopen(put) as answer:
            assert answer.status == 201
    assert (tmp_path / folders[way] / "sha256" / sha256(b"x").hexdigest()).read_bytes() == b"x"


def test_a_server_without_an_object_store_refuses_bundles(
    database_url: str, tmp_path: Path
) -> None:
    flags = ("--database-url", database_url, "--port=0", "--object-store=none")
    with living(tmp_path, "server", *flags) as server:
        url = f"{served_at(server)}/api/bundles/{sha256(b'x').hexdigest()}"
        headers = {"Content-Type": "application/octet-stream"}
        put = urllib.request.Request(url, b"x", headers, method="PUT")
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(put)
        assert b"start it with --object-store" in refused.value.read()


def test_a_proxy_may_call_it_by_the_names_that_are_allowed(
    database_url: str, tmp_path: Path
) -> None:
    with living(
        tmp_path,
        *("server", "--database-url", database_url, "--port=0"),
        HOLDFAST_ALLOWED_HOSTS="jobs.example, tools.example:8443",
    ) as server:
        url = f"{served_at(server)}/api/jobs"
        for host in ("jobs.example", "tools.example:8443"):
            asking = urllib.request.Request(url, headers={"Host": host})
            with urllib.request.urlopen(asking) as answer:
                assert answer.status == 200
        asking = urllib.request.Request(url, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(asking)
        assert b"--allowed-host" in refused.value.read()


def test_a_place_for_bundles_that_is_none_is_refused(database_url: str) -> None:
    ended = run("server", "--database-url", database_url, "--object-store", "ftp://x/y")
    assert (ended.code, ended.out) == (2, "")
    assert "object_store: 'ftp://x/y' is no location" in ended.err


@pytest.mark.parametrize(
    "changes",
    [{"lease_min": 0}, {"lease_min": 121}, {"lease_min": float("nan")}]
    + [{"retention_days": value} for value in (0, -1, 1e9, float("nan"))],
)
def test_numbers_that_no_server_can_live_with_are_refused(changes: dict[str, float]) -> None:
    [field] = changes
    with pytest.raises(Invalid, match=f"{field}: is "):
        check_settings(settings(**changes))
    check_settings(settings())
    check_settings(settings(lease_min=0.5))


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--host=0.0.0.0"], "is not a loopback address"),
        (["--port=70000"], "--port"),
        (["--wake-ups=pigeons"], "--wake-ups"),
        (["--log-format=xml"], "--log-format"),
        (["--lease-min=0"], "lease_min"),
        (["--allowed-host=a/b"], "allowed_host: 'a/b' is no host"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(flags: list[str], problem: str) -> None:
    ended = run("server", "--database-url=postgresql://127.0.0.1:1/none", *flags)
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert ended.err.count("\n") == 1


def test_a_port_that_is_taken_is_one_line(database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("server", "--database-url", database_url, f"--port={port}")
    assert (ended.code, ended.out) == (2, "")
    assert f"cannot listen on 127.0.0.1:{port}" in ended.err
    assert ended.err.count("\n") == 1


def test_a_database_that_does_not_exist_is_one_line(database_url: str) -> None:
    missing = database_url.replace("/test_", "/none_")
    ended = run("server", "--database-url", missing, "--port=0")
    assert (ended.code, ended.out) == (2, "")
    assert "does not exist" in ended.err
    assert ended.err.count("\n") == 1


def test_wake_ups_go_out_through_sqs(database_url: str, tmp_path: Path, sqs: Sqs) -> None:
    queue = f"q{uuid4().hex[:8]}"
    with living(
        tmp_path,
        *("server", "--database-url", database_url, "--port=0", "--wake-ups=sqs"),
        f"--sqs-prefix={sqs.prefix}",
        f"--sqs-endpoint-url={sqs.endpoint_url}",
        **ENVIRONMENT,
    ) as server:
        service = Service(served_at(server), tmp_path)
        job_id = service.submit("tests.cli.tasks:add", "--arg=1", f"--queue={queue}")

        def receive() -> str | None:
            answer = sqs.client.receive_message(QueueUrl=sqs.url(queue), WaitTimeSeconds=1)
            bodies = [message["Body"] for message in answer.get("Messages", [])]
            return bodies[0] if bodies else None

        eventually(lambda: sqs.client.list_queues(QueueNamePrefix=sqs.prefix).get("QueueUrls"))
        assert json.loads(eventually(receive)) == {"task_id": f"{job_id}.0"}
