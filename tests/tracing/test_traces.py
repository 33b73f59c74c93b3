"""Traces of real processes, as they arrive at a real sink: the tree, across retries."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast.client.client import Client
from holdfast.embedded import EmbeddedPostgres
from tests.cli.conftest import living, served_at
from tests.cli.program import environment, eventually
from tests.conftest import run_sql
from tests.databases import TEMPLATE
from tests.tracing import submitter
from tests.tracing.sink import SeenSpan, Sink, listening_sink

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 120
ARRIVE_SECONDS_MAX = 30
LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Story:
    """What was submitted, and what arrived of it."""

    sink: Sink
    client: Client
    jobs: dict[str, str]
    folder: Path

    def trace_of(self, name: str) -> str:
        """Find the trace of a job."""
        events = self.events_of(self.jobs[name])
        [trace_id] = {event.trace_id for event in events}
        assert isinstance(trace_id, str)
        return trace_id

    def events_of(self, job_id: str) -> list[Any]:
        """List the events of a job."""
        return list(self.client.job(job_id).events())

    def check_tree(self, name: str, lines: list[str]) -> None:
        """Wait until a trace has arrived, and compare it as it is drawn."""
        trace_id = self.trace_of(name)
        ends_at = time.monotonic() + ARRIVE_SECONDS_MAX
        while self.sink.tree(trace_id) != lines and time.monotonic() < ends_at:
            time.sleep(LOOK_SECONDS)
        assert self.sink.tree(trace_id) == lines

    def spans_of(self, name: str, *names: str) -> list[SeenSpan]:
        """List the spans of a trace that have a name, in order."""
        return [span for span in self.sink.of(self.trace_of(name)) if span.name in names]

    def output_of(self, name: str, attempt: int) -> str:
        """Read what an attempt of a command has written."""
        pieces = self.client.logs(f"{self.jobs[name]}.0", attempt=attempt)
        return b"".join(pieces).decode().strip()


@pytest.fixture(scope="module")
def story(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """A server, a worker for both kinds of work and a client, all of which trace."""
    folder = tmp_path_factory.mktemp("traced")
    name = f"traced_{uuid4().hex}"
    asyncio.run(run_sql(postgres.url("postgres"), f"create database {name} template {TEMPLATE}"))
    allowed = ("--import=tests.tracing.tasks", "--allow-commands")
    options = ("--queue=traced", "--placed", *allowed, "--drain-seconds=1")
    with listening_sink() as sink:
        tracing = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": sink.url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "PYTHONPATH": str(ROOT),
        }
        server = ("server", "--database-url", postgres.url(name), "--port=0")
        objects = {"HOLDFAST_OBJECT_STORE": str(folder / "objects")}
        with living(folder, *server, **tracing, **objects) as process:
            url = served_at(process)
            where = {"HOLDFAST_SERVER": url, "HOLDFAST_WORKER_DIR": str(folder / "workers")}
            with living(folder, "worker", *options, **tracing, **where):
                told = subprocess.run(
                    [sys.executable, submitter.__file__, url],
                    env=environment(**tracing),
                    stdout=subprocess.PIPE,
                    timeout=SECONDS_MAX,
                    check=True,
                )
                with Client(url) as client:
                    yield Story(sink, client, json.loads(told.stdout), folder)


def test_claimed_work_is_one_trace_across_a_retry(story: Story) -> None:
    story.check_tree(
        "function",
        [
            "submit fail_once",
            "  submit fail_once",
            "    claim fail_once",
            "      run fail_once!",
            "        mine!",
            "        complete fail_once",
            "    claim fail_once",
            "      run fail_once",
            "        mine",
            "        submit on_the_loop",
            "          submit on_the_loop",
            "            claim on_the_loop",
            "              run on_the_loop",
            "                mine",
            "                complete on_the_loop",
            "        complete fail_once",
        ],
    )
    first, second = story.spans_of("function", "claim fail_once")
    failed, succeeded = story.spans_of("function", "run fail_once")
    assert first.links == []
    assert second.links == [(failed.trace_id, failed.span_id)]
    task_id = f"{story.jobs['function']}.0"
    for attempt, spans in enumerate([(first, failed), (second, succeeded)]):
        for span in spans:
            named = {name: span.attributes[f"holdfast.{name}"] for name in ("task_id", "attempt")}
            assert named == {"task_id": task_id, "attempt": attempt}
            assert span.attributes["holdfast.queue"] == "traced"
            assert span.attributes["holdfast.type"] == "fail_once"
    assert first.attributes["holdfast.worker_id"] == failed.attributes["holdfast.worker_id"]
    assert failed.attributes["holdfast.outcome"] == "failed"
    [raised] = failed.events
    assert (raised["name"], raised["exception.type"]) == ("exception", "ValueError")
    assert "raise ValueError" in raised["exception.stacktrace"]
    ends = story.spans_of("function", "complete fail_once")
    assert [end.attributes["holdfast.outcome"] for end in ends] == ["failed", "succeeded"]


def test_each_span_comes_from_the_process_that_made_it(story: Story) -> None:
    expected = {
        ("submit", "holdfast-client", "client"),
        ("submit", "holdfast-worker", "client"),  # the child that a function submits
        ("submit", "holdfast-server", "server"),
        ("claim", "holdfast-server", "internal"),
        ("place", "holdfast-server", "internal"),
        ("heartbeat", "holdfast-server", "client"),
        ("complete", "holdfast-server", "server"),
        ("run", "holdfast-worker", "consumer"),
        ("build", "holdfast-worker", "internal"),
        ("mine", "holdfast-worker", "internal"),
    }
    traces = {story.trace_of(name) for name in story.jobs}

    def seen() -> set[tuple[str, str, str]]:
        return {
            (span.name.partition(" ")[0], span.service, span.kind)
            for trace_id in traces
            for span in story.sink.of(trace_id)
        }

    eventually(lambda: expected <= seen())
    assert seen() == expected


def test_placed_work_is_one_trace_across_a_retry(story: Story) -> None:
    eventually(lambda: story.spans_of("placed", "place placed"))
    [worker_id] = {
        span.attributes["holdfast.worker_id"] for span in story.spans_of("placed", "place placed")
    }
    once = [
        "    place placed",
        f"      heartbeat {worker_id}",
        "        run placed{mark}",
        "          build placed",
        "          complete placed",
    ]
    lines = ["submit placed", "  submit placed", *once, *once]
    lines[4] = lines[4].format(mark="!")
    lines[9] = lines[9].format(mark="")
    story.check_tree("placed", lines)
    _, second = story.spans_of("placed", "place placed")
    runs = story.spans_of("placed", "run placed")
    assert second.links == [(runs[0].trace_id, runs[0].span_id)]
    assert [run.attributes.get("holdfast.exit_code") for run in runs] == [1, 0]
    for attempt, run in enumerate(runs):
        assert story.output_of("placed", attempt) == f"00-{run.trace_id}-{run.span_id}-01"


def test_a_command_finds_its_span_in_its_environment(story: Story) -> None:
    story.check_tree(
        "command",
        [
            "submit",
            "  submit printenv",
            "    claim printenv",
            "      run printenv",
            "        complete printenv",
        ],
    )
    [run] = story.spans_of("command", "run printenv")
    assert story.output_of("command", 0) == f"00-{run.trace_id}-{run.span_id}-01"


def test_a_function_in_a_process_of_its_own_is_in_the_trace_too(story: Story) -> None:
    story.check_tree(
        "child",
        [
            "submit in_a_child",
            "  submit in_a_child",
            "    claim in_a_child",
            "      run in_a_child",
            "        mine",
            "        complete in_a_child",
        ],
    )


def test_events_and_log_lines_name_the_trace(story: Story) -> None:
    events = story.events_of(story.jobs["function"])
    assert {event.trace_id for event in events} == {story.trace_of("function")}
    [correlation_id] = {event.correlation_id for event in events}
    assert correlation_id is not None
    [log] = story.folder.glob("worker-*.log")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    about = [line for line in lines if line.get("job_id") == story.jobs["function"]]
    said = [(line["message"], line["attempt"]) for line in about]
    own = [(text, attempt) for attempt in (0, 1) for text in ("by the context", "by a logger")]
    failure = ("task 2.0 (fail_once) attempt 0 failed: ValueError: the first time", 0)
    assert said == [*own[:2], failure, *own[2:]]
    for line in about:
        named = (line["trace_id"], line["correlation_id"])
        assert named == (story.trace_of("function"), correlation_id)
