"""`client.queues` on a real server."""

from holdfast.client.client import Client
from tests.client.namespaces.conftest import Face


def test_a_queue_is_paused_and_resumed(call: Face, client: Client) -> None:
    call(client.queues.pause, "team/mail:eu")
    [queue] = call(client.queues.list).queues
    assert (queue.queue, queue.paused) == ("team/mail:eu", True)
    call(client.queues.resume, "team/mail:eu")
    assert call(client.queues.list).queues == []
