"""What server and worker say: lines for people on a terminal, JSON for everybody else."""

import contextvars
import json
import logging
from collections.abc import Iterator
from io import StringIO

import opentelemetry.trace  # noqa: F401 - user code has it, so it is told
import pytest

from holdfast.cli.output.log_lines import set_up_logging
from holdfast.errors import Unavailable
from holdfast.model.traces import TraceContext
from holdfast.tracing.current import follow_trace, subject
from tests.worker.claims import an_attempt

HOSTILE = "job \x1b[2J\nnext"


class Terminal(StringIO):
    """A stream that a person reads."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.fixture(autouse=True)
def untouched_logging() -> Iterator[None]:
    """Leave the test process's logging as it was."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers = []
    yield
    root.handlers = before
    root.setLevel(level)


def log_something(with_traceback: bool = False) -> None:
    ids = {"task_id": "4182.3", "attempt": 1, "correlation_id": "c-7"}
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log = logging.getLogger("holdfast.worker")
        log.warning("lost %s", HOSTILE, extra=ids, exc_info=with_traceback)


def test_a_terminal_gets_one_line_that_does_not_steer_it() -> None:
    stream = Terminal()
    set_up_logging(stream=stream)
    log_something()
    line = stream.getvalue()
    assert line.endswith(
        "warning  worker: lost job \\x1b[2J\\nnext task_id=4182.3 attempt=1 correlation_id=c-7\n"
    )
    assert line.count("\n") == 1


def test_a_traceback_follows_in_lines_of_its_own() -> None:
    stream = Terminal()
    set_up_logging(stream=stream)
    log_something(with_traceback=True)
    assert stream.getvalue().count("\n") > 3
    assert "ValueError: job \\x1b[2J" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_what_follows_from_an_outage_is_not_logged_once_more() -> None:
    stream = StringIO()
    set_up_logging(stream=stream)
    logged, other = Unavailable("Postgres is away"), Unavailable("a row is held")
    logged.is_logged = True
    for error in (logged, other):
        logging.getLogger("holdfast.chores").warning("%s will be tried again: %s", "reap", error)
    [line] = stream.getvalue().splitlines()
    assert json.loads(line)["message"] == "reap will be tried again: a row is held"


@pytest.mark.parametrize(("log_format", "kind"), [("auto", StringIO), ("json", Terminal)])
def test_programs_get_json_with_ids_as_fields(log_format: str, kind: type[StringIO]) -> None:
    stream = kind()
    set_up_logging(log_format, stream)  # type: ignore[arg-type]
    log_something(with_traceback=True)
    [line] = stream.getvalue().splitlines()
    fields = json.loads(line)
    assert fields.pop("ts").endswith("+00:00")
    assert "Traceback" in fields.pop("exception")
    assert fields == {
        "level": "warning",
        "logger": "holdfast.worker",
        "message": f"lost {HOSTILE}",
        "task_id": "4182.3",
        "attempt": 1,
        "correlation_id": "c-7",
    }


def test_plain_lines_can_be_asked_for() -> None:
    stream = StringIO()
    set_up_logging("plain", stream)
    log_something()
    assert " warning  worker: lost " in stream.getvalue()


def test_what_is_no_unicode_does_not_break_the_log() -> None:
    stream = StringIO()
    set_up_logging("json", stream)
    logging.getLogger("holdfast.x").info("half \ud800")
    assert json.loads(stream.getvalue())["message"] == "half \ud800"


def test_libraries_are_heard_only_when_something_is_wrong() -> None:
    stream = StringIO()
    set_up_logging("json", stream)
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("uvicorn.error").error("broken")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["broken"]


def test_json_lines_say_what_the_code_that_runs_belongs_to() -> None:
    stream = StringIO()
    set_up_logging("json", stream)

    def run_an_attempt() -> None:
        subject.set(an_attempt(trace_id="t-1"))
        logging.getLogger("users").info("of a function")
        logging.getLogger("users").info("of another", extra={"trace_id": "t-2"})

    def run_within_a_span() -> None:
        follow_trace(TraceContext("a" * 32, "b" * 16))
        logging.getLogger("users").info("of a span")

    for run in (run_an_attempt, run_within_a_span):
        contextvars.Context().run(run)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["trace_id"] for line in lines] == ["t-1", "t-2", "a" * 32]
    assert [line.get("correlation_id") for line in lines] == ["c", "c", None]
    assert [line.get("task_id") for line in lines] == ["7.0", "7.0", None]


def test_a_person_is_spared_the_trace() -> None:
    stream = StringIO()
    set_up_logging("plain", stream)
    logging.getLogger("users").info("hello", extra={"task_id": "7.0", "trace_id": "t-1"})
    assert stream.getvalue().endswith("hello task_id=7.0\n")
