"""Which calls are obeyed, and from when the leases in them count."""

from typing import Any

import pytest

from holdfast.wire.cluster import WorkerHeartbeatRequest
from holdfast.worker.placed.incarnation import ANSWERS_KEPT_MAX, CallRefused, Incarnation


def a_call(
    incarnation: Incarnation, epoch: int, number: int, **changes: Any
) -> WorkerHeartbeatRequest:
    fields: dict[str, Any] = {"epoch": epoch, "number": number}
    fields["worker_id"] = incarnation.worker_id
    return WorkerHeartbeatRequest(**fields | changes)


def test_calls_are_obeyed_in_the_order_of_terms_and_numbers() -> None:
    incarnation = Incarnation("w")
    for epoch, number in [(1, 1), (1, 2), (1, 9), (2, 1), (7, 1)]:
        incarnation.admit(a_call(incarnation, epoch, number))
    for epoch, number in [(7, 1), (7, 0), (2, 2), (1, 1000)]:
        with pytest.raises(CallRefused, match="not newer"):
            incarnation.admit(a_call(incarnation, epoch, number))
    incarnation.admit(a_call(incarnation, 7, 2))


def test_a_call_for_another_incarnation_is_refused_and_uses_no_number_up() -> None:
    incarnation = Incarnation("w")
    with pytest.raises(CallRefused, match=r"this is w-.*, not v"):
        incarnation.admit(a_call(incarnation, 1, 5, worker_id="v"))
    incarnation.admit(a_call(incarnation, 1, 5))


def test_a_lease_counts_from_when_the_answer_that_is_named_was_sent() -> None:
    incarnation = Incarnation("w")
    for number, sent_at in [(1, 100.0), (2, 105.0)]:
        incarnation.admit(a_call(incarnation, 3, number))
        incarnation.note_answer(sent_at)
    named = a_call(incarnation, 3, 3, answered_epoch=3, answered_number=1)
    assert incarnation.expires_at(named, 30_000) == 130.0
    named = a_call(incarnation, 3, 3, answered_epoch=3, answered_number=2)
    assert incarnation.expires_at(named, 30_000) == 135.0


@pytest.mark.parametrize(
    ("answered", "lease_ms"),
    [((None, None), 1), ((3, 1), None), ((3, 9), 1), ((2, 1), 1), ((None, 1), 1)],
)
def test_without_an_answer_of_ours_there_is_nothing_to_count_from(
    answered: tuple[int | None, int | None], lease_ms: int | None
) -> None:
    incarnation = Incarnation("w")
    incarnation.admit(a_call(incarnation, 3, 1))
    incarnation.note_answer(100.0)
    named = a_call(incarnation, 3, 2, answered_epoch=answered[0], answered_number=answered[1])
    assert incarnation.expires_at(named, lease_ms) is None


def test_answers_of_long_ago_are_forgotten() -> None:
    incarnation = Incarnation("w")
    for number in range(1, ANSWERS_KEPT_MAX + 2):
        incarnation.admit(a_call(incarnation, 1, number))
        incarnation.note_answer(float(number))
    oldest = a_call(incarnation, 1, 999, answered_epoch=1, answered_number=1)
    assert incarnation.expires_at(oldest, 1000) is None
    kept = a_call(incarnation, 1, 999, answered_epoch=1, answered_number=2)
    assert incarnation.expires_at(kept, 1000) == 3.0


def test_a_new_beginning_has_another_id_and_secret_and_knows_no_earlier_call() -> None:
    incarnation = Incarnation("w")
    former = a_call(incarnation, 5, 5)
    incarnation.admit(former)
    incarnation.note_answer(100.0)
    worker_id, secret = incarnation.worker_id, incarnation.credential.secret
    incarnation.begin_anew()
    assert incarnation.worker_id != worker_id
    assert incarnation.worker_id.startswith("w-")
    assert incarnation.credential.secret != secret
    with pytest.raises(CallRefused):
        incarnation.admit(a_call(incarnation, 6, 1, worker_id=worker_id))
    incarnation.admit(a_call(incarnation, 1, 1))
    named = a_call(incarnation, 1, 2, answered_epoch=5, answered_number=5)
    assert incarnation.expires_at(named, 1000) is None
