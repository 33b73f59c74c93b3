"""What stands around Postgres can be meddled with at any moment, as often as a plan says."""

from contextlib import ExitStack

import pytest

from chaos.surroundings import Messages
from holdfast.wire.sqs import queue_name
from tests.sqs import ENVIRONMENT


def test_messages_are_lost_where_there_are_any_to_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in ENVIRONMENT.items():
        monkeypatch.setenv(name, text)
    with ExitStack() as stack:
        messages = Messages("chaos", "chaos-", stack)
        assert not messages.lose()  # nobody has made the queue
        messages.sqs.client.create_queue(QueueName=queue_name("chaos", "chaos-"))
        assert not messages.repeat()
        assert messages.lose()
        assert not messages.lose()  # a queue is emptied once a minute at most
