"""Signals from the client, and what a wait gives to a function."""

import threading
from typing import Any

import pytest

from holdfast.client.client import Client
from holdfast.client.signals import NO_DEFAULT, AttemptWaits, is_waiting, read_answer
from holdfast.errors import Invalid, PermanentError, SignalTimedOut
from holdfast.wire.raw import raw
from holdfast.wire.signals import SignalWaitAnswer
from tests.client.peer import Peer, Say

SENT = Say(body=b'{"task_id": "7.1", "name": "approval", "number": 1}')


def test_a_signal_is_sent_with_a_key_of_its_own(stranger: Peer) -> None:
    stranger.script = [SENT, SENT]
    with Client(stranger.url) as client:
        assert client.signal(7, "approval", {"by": "ada"}, task=1).task_id == "7.1"
        client.signal("7", "approval", idempotency_key="k")
        with pytest.raises(Invalid, match=r"^payload: cannot be written as JSON"):
            client.signal(7, "approval", threading.Lock())
        with pytest.raises(Invalid, match=r"^payload: "):
            client.signal(7, "approval", float("nan"))
    bodies = [heard.json for heard in stranger.heard]
    assert bodies[0].pop("idempotency_key").startswith("auto-")
    assert bodies[0] == {"name": "approval", "payload": {"by": "ada"}, "task": 1}
    assert (bodies[1]["payload"], bodies[1]["idempotency_key"]) == (None, "k")


def test_a_wait_gives_raises_or_ends_the_attempt() -> None:
    def read(state: Any, default: object = NO_DEFAULT) -> object:
        return read_answer(SignalWaitAnswer(state, raw("[1]")), "approval", default)

    assert read("received", "no") == [1]
    assert read("timed_out", None) is None
    with pytest.raises(SignalTimedOut, match="signal approval has not come in time") as found:
        read("timed_out")
    assert isinstance(found.value, PermanentError)
    with pytest.raises(AttemptWaits) as waits:
        read("waiting", "no")
    assert not isinstance(waits.value, Exception)


def test_an_attempt_waits_only_if_nothing_else_has_happened() -> None:
    waits = AttemptWaits("approval")
    assert is_waiting(waits)
    assert is_waiting(BaseExceptionGroup("", [waits, BaseExceptionGroup("", [waits])]))
    assert not is_waiting(BaseExceptionGroup("", [waits, ValueError()]))
    assert not is_waiting(ValueError())
