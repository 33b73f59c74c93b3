"""Signals on the wire."""

import msgspec
import pytest

from holdfast.wire.signals import SignalRequest, SignalWaitAnswer, SignalWaitRequest

LEASE = {"task_id": "7.0", "attempt": 0, "lease_token": "3f0c7c0e-7c4a-4f39-9a55-0a1d5f0f8a51"}


def test_what_is_left_out_is_nothing_to_say() -> None:
    asked = msgspec.json.decode(b'{"name": "approval"}', type=SignalRequest)
    assert (bytes(asked.payload), asked.task, asked.idempotency_key) == (b"null", None, None)
    answer = msgspec.json.decode(b'{"state": "waiting"}', type=SignalWaitAnswer)
    assert bytes(answer.payload) == b"null"


@pytest.mark.parametrize("number", [0, 2**31])
def test_waits_are_counted_from_1(number: int) -> None:
    good = msgspec.convert(LEASE | {"name": "approval"}, SignalWaitRequest, strict=False)
    assert (good.number, good.timeout) == (1, None)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(LEASE | {"name": "a", "number": number}, SignalWaitRequest, strict=False)
