"""Which calls are obeyed, and from when the leases in them count."""

from typing import Any

import pytest

from holdfast.wire.cluster import WorkerHeartbeatRequest
from holdfast.worker.placed.orders import ANSWERS_KEPT_MAX, CallRefused, Orders


def a_call(epoch: int, number: int, **changes: Any) -> WorkerHeartbeatRequest:
    fields: dict[str, Any] = {"worker_id": "w", "epoch": epoch, "number": number}
    return WorkerHeartbeatRequest(**fields | changes)


def test_calls_are_obeyed_in_the_order_of_terms_and_numbers() -> None:
    orders = Orders("w")
    for epoch, number in [(1, 1), (1, 2), (1, 9), (2, 1), (7, 1)]:
        orders.admit(a_call(epoch, number))
    for epoch, number in [(7, 1), (7, 0), (2, 2), (1, 1000)]:
        with pytest.raises(CallRefused, match="not newer"):
            orders.admit(a_call(epoch, number))
    orders.admit(a_call(7, 2))


def test_a_call_for_another_incarnation_is_refused_and_uses_no_number_up() -> None:
    orders = Orders("w")
    with pytest.raises(CallRefused, match="this is w, not v"):
        orders.admit(a_call(1, 5, worker_id="v"))
    orders.admit(a_call(1, 5))


def test_a_lease_counts_from_when_the_answer_that_is_named_was_sent() -> None:
    orders = Orders("w")
    for number, sent_at in [(1, 100.0), (2, 105.0)]:
        orders.admit(a_call(3, number))
        orders.note_answer(sent_at)
    named = a_call(3, 3, answered_epoch=3, answered_number=1)
    assert orders.expires_at(named, 30_000) == 130.0
    named = a_call(3, 3, answered_epoch=3, answered_number=2)
    assert orders.expires_at(named, 30_000) == 135.0


@pytest.mark.parametrize(
    ("answered", "lease_ms"),
    [((None, None), 1), ((3, 1), None), ((3, 9), 1), ((2, 1), 1), ((None, 1), 1)],
)
def test_without_an_answer_of_ours_there_is_nothing_to_count_from(
    answered: tuple[int | None, int | None], lease_ms: int | None
) -> None:
    orders = Orders("w")
    orders.admit(a_call(3, 1))
    orders.note_answer(100.0)
    named = a_call(3, 2, answered_epoch=answered[0], answered_number=answered[1])
    assert orders.expires_at(named, lease_ms) is None


def test_answers_of_long_ago_are_forgotten() -> None:
    orders = Orders("w")
    for number in range(1, ANSWERS_KEPT_MAX + 2):
        orders.admit(a_call(1, number))
        orders.note_answer(float(number))
    oldest = a_call(1, 999, answered_epoch=1, answered_number=1)
    assert orders.expires_at(oldest, 1000) is None
    kept = a_call(1, 999, answered_epoch=1, answered_number=2)
    assert orders.expires_at(kept, 1000) == 3.0
