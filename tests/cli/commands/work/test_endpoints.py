"""`endpoint` and `endpoints`: a command publishes an address, and others look it up."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.conftest import Service
from tests.cli.program import PROGRAM, eventually

SCRIPT = """
{program} endpoint register {name} 'host:7' || exit
{program} endpoint register {name}/gone 'host:8' && {program} endpoint remove {name}/gone || exit
touch {folder}/published
while [ ! -e {folder}/end ]; do sleep 0.05; done
"""


@pytest.fixture
def name() -> str:
    """A name that nobody else uses."""
    return f"n{uuid4().hex[:8]}"


@contextmanager
def published(service: Service, folder: Path, name: str) -> Iterator[str]:
    """Have a command publish an address, for the time of a block; gives its job's id."""
    script = SCRIPT.format(program=PROGRAM, name=name, folder=folder)
    spec = folder / f"{uuid4().hex}.json"
    spec.write_text(json.dumps({"entrypoint": {"shell": script}, "queue": "default"}))
    job_id = service.submit("--spec", str(spec))
    assert service.run("endpoint", "get", name, "--timeout=60").code == 0
    eventually((folder / "published").exists)
    try:
        yield job_id
    finally:
        (folder / "end").touch()
        assert service.call("wait", job_id).code == 0


def test_a_command_publishes_an_address_until_it_ends(
    service: Service, tmp_path: Path, name: str
) -> None:
    with published(service, tmp_path, name) as job_id:
        found = service.run("endpoint", "get", name)
        assert (found.code, found.out, found.err) == (0, "host:7\n", "")
        told = service.ask("endpoint", "get", name)
        assert (told["address"], told["task_id"], told["attempt"]) == ("host:7", f"{job_id}.0", 0)
    gone = service.run("endpoint", "get", name)
    assert (gone.code, gone.out) == (1, "")
    assert f"there is no endpoint {name}" in gone.err


def test_endpoints_are_listed_by_how_their_names_begin(
    service: Service, tmp_path: Path, name: str
) -> None:
    with published(service, tmp_path, name) as job_id:
        assert [each["name"] for each in service.ask("endpoints", name)["endpoints"]] == [name]
        title, line = service.run("endpoints", name).out.splitlines()
        assert title.split() == ["endpoint", "address", "attempt", "since"]
        assert line.split()[:3] == [name, "host:7", f"{job_id}.0.0"]
    none = service.run("endpoints", name)
    assert (none.code, none.out) == (0, "")
    assert "no endpoints" in none.err


def test_a_list_says_that_there_are_more(service: Service, tmp_path: Path, name: str) -> None:
    (tmp_path / "other").mkdir()
    with (
        published(service, tmp_path, name),
        published(service, tmp_path / "other", f"{name}/2"),
    ):
        short = service.run("endpoints", name, "--limit=1")
        assert len(short.out.splitlines()) == 2
        assert "there are more" in short.err


@pytest.mark.parametrize("arguments", [["register", "n", "host:1"], ["remove", "n"]])
def test_only_a_task_publishes(service: Service, arguments: list[str]) -> None:
    ended = service.run("endpoint", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "only a running task speaks there" in ended.err


def test_a_lease_that_is_lost_is_refused(service: Service) -> None:
    job_id = service.submit_and_wait("tests.cli.tasks:add", "--arg=1")
    lease = {
        "HOLDFAST_TASK_ID": f"{job_id}.0",
        "HOLDFAST_ATTEMPT": "0",
        "HOLDFAST_LEASE_TOKEN": str(uuid4()),
    }
    ended = service.run("endpoint", "register", "n", "host:1", **lease)
    assert (ended.code, ended.out) == (1, "")
    assert "the lease is lost" in ended.err
    child = service.run("submit", "tests.cli.tasks:add", "--arg=1", **lease)
    assert (child.code, child.out) == (1, "")


@pytest.mark.parametrize(
    "arguments",
    [["endpoint", "get", "a b"], ["endpoint", "get", ""], ["endpoints", "--limit=0"]],
)
def test_what_cannot_be_asked_is_refused(service: Service, arguments: list[str]) -> None:
    ended = service.run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
