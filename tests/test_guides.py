"""Every code block of the guides runs, in the order of the page."""

import socket
from pathlib import Path

import pytest

from tests.cli.program import eventually
from tests.guides import ROOT, reading
from tests.sqs import aws_fixture, sqs_endpoint_fixture
from tests.tracing.sink import listening_sink

__all__ = ["aws_fixture", "sqs_endpoint_fixture"]
GUIDES = ("client",)
AT_NIGHT = (
    "tasks",
    "cluster",
    "logs",
    "dead-letters",
    "order",
    "workers",
    "bundles",
    "endpoints",
    "compensation",
    "datasets",
)


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_served(port: int) -> bool:
    """Tell whether somebody listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def page(name: str) -> str:
    """Read a page of the docs."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def test_the_quickstart_can_be_followed(tmp_path: Path) -> None:
    with reading(tmp_path, free_port()) as reader:
        reader.follow(page("quickstart"))


@pytest.mark.parametrize(
    "name", [*GUIDES, *(pytest.param(name, marks=pytest.mark.nightly) for name in AT_NIGHT)]
)
def test_a_guide_can_be_followed(name: str, tmp_path: Path, database_url: str) -> None:
    port = free_port()
    with reading(tmp_path, port, DATABASE_URL=database_url) as reader:
        reader.start(f"holdfast server --database-url {database_url} --port {port}")
        # Before anybody waits for it: a worker that announces its functions and a first submission
        # that come in the same moment may cost a job id, and pages name jobs by theirs.
        eventually(lambda: is_served(port))
        reader.follow(page(name))


@pytest.mark.nightly
def test_guides_for_operators_can_be_followed(tmp_path: Path, database_url: str) -> None:
    port = free_port()
    with reading(tmp_path, port, DATABASE_URL=database_url) as reader:
        reader.start(f"holdfast server --database-url {database_url} --port {port}")
        for name in ("idempotency", "policies", "limits"):
            reader.follow(page(name))


@pytest.mark.nightly
def test_tracing_can_be_followed(tmp_path: Path, database_url: str) -> None:
    with listening_sink() as sink:
        with reading(tmp_path, free_port(), DATABASE_URL=database_url) as reader:
            reader.follow(page("tracing").replace("http://127.0.0.1:4318", sink.url))
        steps = [(span.name, span.service.removeprefix("holdfast-")) for span in sink.spans]
    ran = [("claim sh", "server"), ("run sh", "worker"), ("complete sh", "server")]
    assert steps[:5] == [("submit", "client"), ("submit sh", "server"), *ran]


@pytest.mark.nightly
def test_wake_ups_by_sqs_can_be_followed(
    tmp_path: Path, database_url: str, aws: None, sqs_endpoint: str
) -> None:
    variables = {"DATABASE_URL": database_url, "HOLDFAST_SQS_ENDPOINT_URL": sqs_endpoint}
    with reading(tmp_path, free_port(), **variables) as reader:
        reader.follow(page("wake-ups"))
