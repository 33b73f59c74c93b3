"""What attempts have written, on its way into the report of their success."""

import os
from pathlib import Path

import pytest

from holdfast.model.datasets import ENTRIES_BYTES_MAX, OutputEntry
from holdfast.model.submitting.order import Output
from holdfast.worker.running.attempt_outcome import HANDED_BACK, Outcome
from holdfast.worker.running.outputs import FILE, list_output_variables, read_success, with_outputs


def test_a_process_learns_what_it_writes(tmp_path: Path) -> None:
    assert list_output_variables(tmp_path, []) == {}
    one = list_output_variables(tmp_path, [Output("events", 3)])
    assert one == {
        "HOLDFAST_OUTPUTS": str(tmp_path / FILE),
        "HOLDFAST_OUTPUT_VERSION": "3",
        "HOLDFAST_OUTPUT_VERSIONS": '{"events": 3}',
    }
    two = list_output_variables(tmp_path, [Output("events", 3), Output("users", 1)])
    assert two["HOLDFAST_OUTPUT_VERSIONS"] == '{"events": 3, "users": 1}'
    assert "HOLDFAST_OUTPUT_VERSION" not in two


def test_only_a_success_brings_outputs_along() -> None:
    entries = [OutputEntry("p", "u")]
    success = Outcome("succeeded", 0, result="1")
    assert with_outputs(success, entries).outputs == entries
    assert with_outputs(success, []) is success
    assert with_outputs(HANDED_BACK, entries) is HANDED_BACK


def test_a_command_says_what_it_has_written_a_line_each(tmp_path: Path) -> None:
    assert read_success(tmp_path) == Outcome("succeeded", 0)
    lines = '{"partition_key": "p", "uri": "u"}\n\n{"partition_key": "q", "uri": "v", "key": "k"}'
    (tmp_path / FILE).write_text(lines)
    outcome = read_success(tmp_path)
    assert (outcome.status, outcome.exit_code) == ("succeeded", 0)
    assert outcome.outputs == [OutputEntry("p", "u"), OutputEntry("q", "v", key="k")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"partition_key": "p", "uri": "u"}\nnonsense', "HOLDFAST_OUTPUTS line 2: "),
        (b'{"partition_key": "p"}', "missing required field `uri`"),
        (b'{"partition_key": "p", "uri": "u", "sise": 1}', "unknown field `sise`"),
        (b"\xff", "line 1"),
        (b"[" * 100_000, "line 1"),
        (b" " * (2 * ENTRIES_BYTES_MAX + 1), "is over"),
    ],
)
def test_what_makes_no_sense_is_how_it_failed(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / FILE).write_bytes(content)
    outcome = read_success(tmp_path)
    assert (outcome.status, outcome.error_class, outcome.stage) == (
        "failed", "PermanentError", "commit",
    )  # fmt: skip
    assert problem in (outcome.error or "")


def test_a_folder_that_has_its_name_is_an_error(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    assert "cannot be read" in (read_success(tmp_path).error or "")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE)
    assert "cannot be read: it is not a file" in (read_success(tmp_path).error or "")
