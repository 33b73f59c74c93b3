"""What workers are answered: absent is left out or null as they expect, and more is ignored."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest

from holdfast.model.submitting.spec import Entrypoint
from holdfast.wire import answers
from holdfast.wire.answers import (
    CancelNotice,
    CheckpointAnswer,
    ClaimedJob,
    ClaimedTask,
    CompletionAnswer,
    ErrorAnswer,
    ErrorBody,
    HeartbeatAnswer,
    LeaseAnswer,
    TaskClaimAnswer,
)
from holdfast.wire.raw import null, raw

TOKEN = UUID("00000000-0000-4000-8000-000000000001")
THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SHAPES = [
    shape
    for shape in vars(answers).values()
    if isinstance(shape, type)
    and issubclass(shape, msgspec.Struct)
    and shape.__module__ == answers.__name__
]


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.__name__ for shape in SHAPES])
def test_readers_ignore_what_they_do_not_know(shape: Any) -> None:
    assert not shape.__struct_config__.forbid_unknown_fields


def plain(answer: Any) -> Any:
    """Read an answer as a stranger would."""
    return msgspec.json.decode(msgspec.json.encode(answer))


def test_an_error_leaves_out_what_it_has_not() -> None:
    error = ErrorAnswer(ErrorBody("invalid", "name: is empty", "name"))
    assert plain(error) == {
        "error": {"code": "invalid", "message": "name: is empty", "field": "name"}
    }


def test_a_claim_survives_the_journey() -> None:
    job = ClaimedJob("7", "n", "t", Entrypoint(shell="ls"), 1, 30.0, 20.0, "c")
    task = ClaimedTask("7.0", 0, TOKEN, THEN, 29_999, raw(msgspec.json.encode(job).decode()), 0, 1)
    sent = msgspec.json.encode(TaskClaimAnswer([task], 12))
    again = msgspec.json.decode(sent, type=TaskClaimAnswer)
    assert (again.waited_ms, again.claims[0].lease_token) == (12, TOKEN)
    assert again.claims[0].lease_expires_at == THEN
    assert msgspec.json.decode(again.claims[0].job, type=ClaimedJob) == job
    told = plain(TaskClaimAnswer([task]))["claims"][0]
    assert (told["input"], told["lease_expires_at"]) == (None, "2026-01-02T03:04:05Z")


def test_a_lease_is_renewed_or_has_an_error() -> None:
    assert plain(LeaseAnswer("7.0", THEN, 5)) == {
        "task_id": "7.0",
        "lease_expires_at": "2026-01-02T03:04:05Z",
        "lease_remaining_ms": 5,
    }
    lost = plain(LeaseAnswer("7.0", error=ErrorBody("lease_conflict", "lost")))
    assert lost == {"task_id": "7.0", "error": {"code": "lease_conflict", "message": "lost"}}


def test_a_hard_cancel_has_no_time_left_to_name() -> None:
    answer = HeartbeatAnswer(
        [], [CancelNotice("7.0", 1, "hard"), CancelNotice("7.1", 0, "soft", 0)]
    )
    assert plain(answer) == {
        "leases": [],
        "cancel": [
            {"task_id": "7.0", "attempt": 1, "mode": "hard"},
            {"task_id": "7.1", "attempt": 0, "mode": "soft", "remaining_ms": 0},
        ],
        "drain": False,
    }


def test_not_accepted_is_said_and_not_left_out() -> None:
    assert plain(CompletionAnswer("7.0", accepted=False)) == {"task_id": "7.0", "accepted": False}


def test_no_checkpoint_is_null() -> None:
    assert plain(CheckpointAnswer(null())) == {"checkpoint": None, "attempt": None}
