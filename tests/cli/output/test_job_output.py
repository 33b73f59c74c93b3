"""The output of a whole job: all tasks, all attempts, as they write and until the job has ended."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.output import job_output
from holdfast.cli.output.job_output import follow_job
from holdfast.client.client import Client
from holdfast.errors import Invalid
from holdfast.wire.status import LogChunk
from tests.cli.conftest import Service

TWICE = "echo $HOLDFAST_TASK_INDEX.$HOLDFAST_ATTEMPT; test $HOLDFAST_ATTEMPT = $HOLDFAST_TASK_INDEX"


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    """A connection to the running system."""
    with Client(service.url) as client:
        yield client


def detach(service: Service, *words: str) -> str:
    """Run a command and leave it; gives the job's id."""
    ended = service.run("run", "--detach", *words)
    assert (ended.code, ended.err) == (0, "")
    return ended.out.strip()


def gather(chunks: Iterator[LogChunk]) -> dict[str, bytes]:
    """Put together what each attempt wrote, in the order of the attempts of a task."""
    found: dict[str, bytes] = defaultdict(bytes)
    for chunk in chunks:
        found[f"{chunk.task_id.partition('.')[2]}.{chunk.attempt}"] += chunk.content
    return found


def test_every_attempt_of_every_task_is_read_until_the_job_has_ended(
    service: Service, client: Client
) -> None:
    job_id = detach(service, "--replicas=2", "--retries=1", "--", "sh", "-c", TWICE)
    written = gather(follow_job(client, job_id))
    assert written == {"0.0": b"0.0\n", "1.0": b"1.0\n", "1.1": b"1.1\n"}
    assert service.ask("job", job_id)["state"] == "JOB_STATE_SUCCEEDED"
    assert list(written).index("1.0") < list(written).index("1.1")


def test_what_ended_before_can_be_left_out(service: Service, client: Client) -> None:
    job_id = detach(service, "--replicas=2", "--retries=1", "--", "sh", "-c", TWICE)
    assert service.run("wait", job_id).code == 0
    assert gather(follow_job(client, job_id, since={1: 1})) == {"0.0": b"0.0\n", "1.1": b"1.1\n"}


def test_more_tasks_than_requests_at_once_take_turns(
    service: Service, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_output, "REQUESTS_MAX", 1)
    go = tmp_path / "go"
    command = f"echo began; while ! test -e {go}; do sleep 0.05; done; echo went"
    job_id = detach(service, "--replicas=3", "--", "sh", "-c", command)
    began: set[str] = set()
    went: set[str] = set()
    for chunk in follow_job(client, job_id):
        if b"began" in chunk.content:
            began.add(chunk.task_id)
        if b"went" in chunk.content:
            assert len(began) == 3  # all were heard while all were running
            went.add(chunk.task_id)
        if len(began) == 3:
            go.touch()
    assert went == began == {f"{job_id}.{index}" for index in range(3)}


def test_whoever_has_seen_enough_may_leave(service: Service, client: Client) -> None:
    job_id = detach(service, "--replicas=2", "--", "sh", "-c", "echo here; exec sleep 600")
    chunks = follow_job(client, job_id)
    assert next(chunks).content == b"here\n"
    chunks.close()
    assert list(chunks) == []
    assert service.run("cancel", "--hard", job_id).code == 0


def test_as_long_as_nothing_has_begun_one_hears_that(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_output, "FOLLOW_MS", 1)
    job_id = detach(service, "--replicas=2", "--queue=nobody", "--", "true")
    chunks = follow_job(client, job_id)
    assert (next(chunks).task_id, next(chunks).attempt) == (f"{job_id}.0", -1)
    assert service.run("cancel", job_id).code == 0
    assert {chunk.attempt for chunk in chunks} <= {-1}


def test_a_job_that_nobody_began_ends_without_a_word(service: Service, client: Client) -> None:
    job_id = detach(service, "--replicas=2", "--queue=nobody", "--", "true")
    assert service.run("cancel", job_id).code == 0
    assert list(follow_job(client, job_id)) == []


def test_what_goes_wrong_reaches_whoever_reads(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_output, "PAGE_SIZE", 0)  # which the server refuses
    job_id = detach(service, "--replicas=2", "--", "true")
    with pytest.raises(Invalid, match="page_size"):
        list(follow_job(client, job_id))
