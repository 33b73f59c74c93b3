"""What the process of a function leaves of its end: read with suspicion, by one reader."""

import os
from pathlib import Path

import msgspec
import pytest

from holdfast.model.datasets import OutputEntry
from holdfast.model.work.outcomes import PUT_OFF_MS_MAX, PutOff
from holdfast.worker.running.attempt_outcome import ERROR_LENGTH_MAX, WAITING, Outcome
from holdfast.worker.running.outcome_file import BYTES_MAX, FILE, read_outcome, write_outcome

FAILED = Outcome("failed", None, "boom", "TransientError", "exec")


def left(folder: Path, text: str | bytes) -> Outcome:
    """Read what somebody has written in the place of an outcome."""
    (folder / FILE).write_bytes(text.encode() if isinstance(text, str) else text)
    outcome = read_outcome(folder, was_asked_to_stop=False)
    assert outcome is not None
    return outcome


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("succeeded", 0),
        Outcome("succeeded", 0, result='{"a":[1,"ä"]}'),
        Outcome("succeeded", 0, outputs=[OutputEntry("2024", "s3://bucket/a")]),
        FAILED,
        WAITING,
        Outcome("failed", None, "later", "RetryAfter", "exec", put_off=PutOff(5, free=True)),
    ],
)
def test_what_was_written_is_read(tmp_path: Path, outcome: Outcome) -> None:
    write_outcome(tmp_path, outcome)
    assert read_outcome(tmp_path, was_asked_to_stop=False) == outcome
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_time_that_no_server_takes_is_made_one(tmp_path: Path) -> None:
    for given, taken in ((-5, 0), (PUT_OFF_MS_MAX + 1, PUT_OFF_MS_MAX)):
        write_outcome(tmp_path, Outcome("failed", None, "x", "RetryAfter", put_off=PutOff(given)))
        outcome = read_outcome(tmp_path, was_asked_to_stop=False)
        assert outcome is not None
        assert outcome.put_off == PutOff(taken)


def test_nothing_is_read_where_nothing_was_left(tmp_path: Path) -> None:
    assert read_outcome(tmp_path, was_asked_to_stop=False) is None


def test_a_failure_after_a_request_to_stop_is_how_it_was_stopped(tmp_path: Path) -> None:
    write_outcome(tmp_path, FAILED)
    assert read_outcome(tmp_path, was_asked_to_stop=True) == Outcome("killed", error="boom")
    write_outcome(tmp_path, WAITING)
    assert read_outcome(tmp_path, was_asked_to_stop=True) == Outcome("killed")
    write_outcome(tmp_path, Outcome("succeeded", 0))
    assert read_outcome(tmp_path, was_asked_to_stop=True) == Outcome("succeeded", 0)


@pytest.mark.parametrize("status", ["handed_back", "worker_failed", "killed"])
def test_a_status_that_is_not_the_functions_to_report_is_a_failure(
    tmp_path: Path, status: str
) -> None:
    outcome = left(tmp_path, f'{{"status": "{status}"}}')
    assert (outcome.status, outcome.error_class, outcome.stage) == (
        "failed",
        "PermanentError",
        "output",
    )
    assert outcome.error == f"its function reported the status {status!r}, which is not its own"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"status": "lucky"}',
        '{"status": "succeeded", "result": 7}',
        b"\xff",
        '{"status": "succeeded", "outputs": [{"partition_key": "a", "uri": "b", "metadata":'
        + '{"a":' * 100_000,
        # Results are pasted into the report of a completion: none may be more than one value.
        '{"status": "succeeded", "result": "1, \\"status\\": \\"handed_back\\""}',
        '{"status": "succeeded", "result": "\\ud800"}',
        '{"status": "succeeded", "result": ""}',
    ],
)
def test_what_cannot_be_read_is_a_failure(tmp_path: Path, text: str | bytes) -> None:
    outcome = left(tmp_path, text)
    assert (outcome.status, outcome.stage) == ("failed", "output")
    assert "cannot be read" in (outcome.error or "")


def test_no_more_than_a_bound_is_read(tmp_path: Path) -> None:
    outcome = left(tmp_path, msgspec.json.encode(FAILED) + b" " * BYTES_MAX)
    assert (outcome.status, outcome.stage) == ("failed", "output")
    assert f"over {BYTES_MAX} bytes" in (outcome.error or "")


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE)
    outcome = read_outcome(tmp_path, was_asked_to_stop=False)
    assert outcome is not None
    assert "cannot be read" in (outcome.error or "")


def test_what_is_elsewhere_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(msgspec.json.encode(FAILED))
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    outcome = read_outcome(tmp_path, was_asked_to_stop=False)
    assert outcome is not None
    assert "cannot be read" in (outcome.error or "")


def test_words_and_numbers_fit_their_columns(tmp_path: Path) -> None:
    text = msgspec.json.encode(
        {
            "status": "failed",
            "exit_code": 1 << 40,
            "error": "x\0" * 20_000,
            "error_class": "y" * 900,
        }
    )
    outcome = left(tmp_path, text)
    assert outcome.exit_code is None
    assert len(outcome.error or "") == ERROR_LENGTH_MAX
    assert "\0" not in (outcome.error or "")
    assert outcome.error_class == "y" * 256
