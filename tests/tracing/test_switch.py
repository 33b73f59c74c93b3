"""Tracing is off unless the environment asks for it, and off it is not there at all."""

import subprocess
import sys
from collections.abc import Mapping

import pytest

from holdfast.tracing.switch import find_tracer, is_wanted, start_tracing, stop_tracing, traced
from tests.cli.program import environment
from tests.tracing.sink import listening_sink

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
EVERYTHING = (
    "import holdfast, holdfast.cli.commands.processes.server, "
    "holdfast.cli.commands.processes.worker, holdfast.server, "
    "holdfast.worker.claimed.worker, holdfast.worker.placed.worker, "
    "holdfast.worker.running.child, holdfast.client.client"
)


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", **ENDPOINT}, False),
        ({"OTEL_SDK_DISABLED": " True ", **ENDPOINT}, False),
        ({"OTEL_SDK_DISABLED": "false", **ENDPOINT}, True),
    ],
)
def test_the_usual_variables_switch_it_on(variables: Mapping[str, str], wanted: bool) -> None:
    assert is_wanted(variables) is wanted


def run_python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_switched_off_nothing_of_opentelemetry_is_imported() -> None:
    ended = run_python(
        f"{EVERYTHING}; from holdfast.tracing.switch import start_tracing, traced\n"
        "with traced('holdfast-server'): pass\n"
        "from holdfast.client.submit_spans import submit_span\n"
        "with submit_span(holdfast.client.submission.JobBatchRequest([])) as headers: pass\n"
        "assert headers == {}\n"
        "import sys; print([name for name in sys.modules if 'opentelemetry' in name])",
        OTEL_SDK_DISABLED="true",
        **ENDPOINT,
    )
    assert (ended.stdout, ended.stderr) == ("[]\n", "")


def test_without_the_library_a_process_says_so_and_goes_on() -> None:
    ended = run_python(
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from holdfast.tracing.switch import start_tracing\n"
        "assert start_tracing('holdfast-server') is None",
        **ENDPOINT,
    )
    assert ended.returncode == 0
    assert "install holdfast[tracing]" in ended.stderr


def test_it_is_on_for_the_time_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening_sink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        assert start_tracing("one", is_ours=False) is start_tracing("two", is_ours=False)
        with traced("three"):
            assert find_tracer() is not None
        assert find_tracer() is None
        stop_tracing()  # a second time is harmless
