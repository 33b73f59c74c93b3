"""A placed attempt: how it is asked to stop, and what the end of its processes means."""

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from holdfast.model.submitting.spec import Entrypoint
from holdfast.worker.placed.attempt import PlacedAttempt, StopMode, TakeoverRecord, decide_outcome
from holdfast.worker.placed.shim_handle import Shim
from holdfast.worker.placed.shim_messages import ShimExit, ShimOrder, ShimUsage
from holdfast.worker.processes import shim_folder
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.attempt_outcome import Outcome
from holdfast.worker.running.outcome_file import write_outcome
from tests.worker.placed_orders import a_job


def an_attempt(folder: Path, **job: Any) -> PlacedAttempt:
    record = TakeoverRecord(
        task_id="7.2",
        attempt=3,
        lease_token=uuid4(),
        job=a_job(**job),
        began_at=boot_clock(),
    )
    return PlacedAttempt(record, folder, boot_clock() + record.job.lease)


def an_end(**changes: Any) -> ShimExit:
    fields: dict[str, Any] = {
        "exit_code": 0,
        "signal": None,
        "reason": None,
        "error": None,
        "started_at": 1.0,
        "ended_at": 2.0,
        "usage": ShimUsage(0.5, 1000, 2),
        "limits": "rlimit",
    }
    return ShimExit(**fields | changes)


@pytest.mark.parametrize(
    ("stop", "end", "status", "code"),
    [
        (None, {}, "succeeded", 0),
        (None, {"exit_code": 3}, "failed", 3),
        (None, {"exit_code": None, "signal": 11}, "failed", 139),
        (None, {"reason": "lease", "signal": 9}, "worker_failed", None),
        (None, {"reason": "shim_lost"}, "worker_failed", None),
        (None, {"reason": "cannot_start"}, "failed", None),
        (None, {"reason": "oom", "signal": 9}, "failed", 137),
        # It ended by itself before it heard that it should.
        ("soft", {"exit_code": 3}, "failed", 3),
        ("hard", {}, "succeeded", 0),
        ("handed_back", {"exit_code": 0}, "succeeded", 0),
        # It heard, and made the best of it.
        ("soft", {"reason": "soft"}, "succeeded", 0),
        ("soft", {"reason": "soft", "exit_code": 3}, "killed", 3),
        ("soft", {"reason": "soft", "signal": 9}, "killed", 137),
        ("hard", {"reason": "hard", "signal": 9}, "killed", 137),
        ("timeout", {"reason": "soft", "signal": 15}, "killed", 143),
        ("handed_back", {"reason": "hard", "signal": 9}, "handed_back", None),
        # Asked by a worker that is no more.
        (None, {"reason": "hard", "signal": 9}, "killed", 137),
        (None, {"reason": "soft", "exit_code": 1}, "killed", 1),
    ],
)
def test_the_end_of_a_command_has_a_meaning(
    tmp_path: Path, stop: StopMode | None, end: dict[str, Any], status: str, code: int | None
) -> None:
    attempt = an_attempt(tmp_path)
    if stop is not None:
        attempt.ask_to_stop(stop)
    outcome = decide_outcome(attempt, an_end(**end))
    assert (outcome.status, outcome.exit_code) == (status, code)


def test_a_signal_without_a_name_has_its_number(tmp_path: Path) -> None:
    outcome = decide_outcome(an_attempt(tmp_path), an_end(exit_code=None, signal=40))
    assert outcome.error == "ended by signal 40"


@pytest.mark.parametrize("reason", [None, "soft", "hard", "lease"])
def test_what_a_function_has_left_counts_whatever_became_of_its_process(
    tmp_path: Path, reason: str | None
) -> None:
    attempt = an_attempt(tmp_path, entrypoint=Entrypoint(function="m:f"))
    told = Outcome("succeeded", 0, result="[1]")
    write_outcome(tmp_path, told)
    assert decide_outcome(attempt, an_end(reason=reason, exit_code=None, signal=9)) == told
    command = an_attempt(tmp_path)
    assert decide_outcome(command, an_end(exit_code=5)).exit_code == 5


@pytest.mark.parametrize(
    ("stop", "reason", "status"),
    [
        (None, None, "failed"),
        ("soft", None, "failed"),  # by itself, before it heard that it should go
        ("soft", "soft", "killed"),
        (None, "soft", "killed"),  # asked by a worker that is no more
        ("handed_back", "hard", "failed"),
    ],
)
def test_a_failure_that_a_function_reports_is_a_stop_only_if_one_was_asked_for(
    tmp_path: Path, stop: StopMode | None, reason: str | None, status: str
) -> None:
    attempt = an_attempt(tmp_path, entrypoint=Entrypoint(function="m:f"))
    if stop is not None:
        attempt.ask_to_stop(stop)
    write_outcome(tmp_path, Outcome("failed", None, "boom", "ValueError", "exec"))
    outcome = decide_outcome(attempt, an_end(reason=reason))
    assert (outcome.status, outcome.error) == (status, "boom")


def test_asked_again_for_no_more_than_before_nothing_changes(tmp_path: Path) -> None:
    attempt = an_attempt(tmp_path)
    heard: list[StopMode | None] = []
    attempt.on_stop = lambda: heard.append(attempt.stop)
    for mode in ("soft", "soft", "timeout", "soft", "handed_back", "hard", "timeout"):
        attempt.ask_to_stop(mode, 5.0)
    assert heard == ["soft", "timeout", "handed_back"]
    attempt.outcome = Outcome("killed")
    over = an_attempt(tmp_path)
    over.outcome = Outcome("succeeded", 0)
    over.ask_to_stop("hard")
    assert over.stop is None


def test_a_run_that_took_too_long_is_told_from_one_that_was_cancelled(tmp_path: Path) -> None:
    late, early, endless, cancelled = (
        an_attempt(tmp_path, timeout=timeout) for timeout in (60.0, 60.0, None, 60.0)
    )
    for attempt in (late, endless, cancelled):
        attempt.began_at -= 61
    cancelled.ask_to_stop("soft")
    for attempt in (late, early, endless, cancelled):
        attempt.end()
        attempt.end()
    stops = [attempt.stop for attempt in (late, early, endless, cancelled)]
    assert stops == ["timeout", "hard", "hard", "hard"]


def test_a_lease_only_grows_and_ends_before_its_end(tmp_path: Path) -> None:
    attempt = an_attempt(tmp_path, lease=60.0)
    ends_at = attempt.expires_at
    assert attempt.kill_at == ends_at - 5
    attempt.renew(ends_at - 10)
    assert attempt.expires_at == ends_at
    attempt.renew(ends_at + 10)
    assert attempt.kill_at == ends_at + 5
    short = an_attempt(tmp_path, lease=3.0)
    assert short.expires_at - short.kill_at == 0.5


def test_all_that_a_later_worker_has_to_know_can_be_written_down(tmp_path: Path) -> None:
    attempt = an_attempt(tmp_path, timeout=9.0)
    attempt.build, attempt.environment = {"fetch_ms": 1.5}, "/somewhere"
    note = msgspec.json.decode(msgspec.json.encode(attempt.record()))
    again = PlacedAttempt(msgspec.convert(note, TakeoverRecord), tmp_path, 0.0)
    assert again.record() == attempt.record()
    assert again.key == ("7.2", 3)


def test_what_is_told_of_an_end_can_be_kept(tmp_path: Path) -> None:
    attempt = an_attempt(tmp_path)
    attempt.ended = an_end()
    attempt.build = {"fetch_ms": 1.5}
    attempt.outcome = Outcome("failed", 1, "a\x00b" + "x" * 100_000, "TransientError", "exec")
    told = attempt.complete()
    assert told.error is not None
    assert re.match(r"a\\x00bx+$", told.error)
    assert len(told.error) < 64 << 10
    assert told.usage == {
        "cpu_seconds": 0.5,
        "memory_peak_bytes": 1000,
        "processes_max": 2,
        "limits": "rlimit",
    }
    assert told.build == {"fetch_ms": 1.5}


def test_an_attempt_that_never_had_a_shim_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "7.2.3"
    (folder / "work").mkdir(parents=True)
    attempt = an_attempt(folder)
    attempt.remove()
    attempt.remove()
    assert not folder.exists()


def test_what_it_uses_is_reported_now_and_then_if_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ShimOrder(argv=["true"], environment={}, cwd="/", token="t", deadline=boot_clock())
    attempt = an_attempt(tmp_path)
    assert attempt.report().usage is None
    attempt.shim = Shim(tmp_path, order)
    assert attempt.report().usage is None
    used = {"cpu_seconds": 0.5, "memory_peak_bytes": 9, "processes_max": 1, "limits": "none"}
    path = str(tmp_path / shim_folder.USAGE)
    shim_folder.write_json(path, used)
    assert attempt.report().usage == used
    shim_folder.write_json(path, used | {"cpu_seconds": 0.6})
    assert attempt.report().usage is None
    monkeypatch.setattr("holdfast.worker.placed.attempt.USAGE_SECONDS", 0.0)
    attempt = an_attempt(tmp_path)
    attempt.shim = Shim(tmp_path, order)
    assert attempt.report().usage == used | {"cpu_seconds": 0.6}
    assert attempt.report().usage is None
    (tmp_path / shim_folder.USAGE).write_text('{"cpu_seconds": "spoiled"}')
    assert attempt.report().usage is None
