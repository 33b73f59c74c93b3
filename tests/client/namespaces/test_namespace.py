"""What all namespaces share: the client they belong to, and keys for what may be sent twice."""

import pytest

from holdfast.client.client import Client
from holdfast.client.namespaces.namespace import repeatable
from holdfast.errors import Invalid


def test_a_namespace_calls_where_its_client_does(client: Client) -> None:
    for namespace in (client.jobs, client.tasks, client.queues, client.workers, client.types):
        assert namespace.loop_thread is client.loop_thread
    with pytest.raises(Invalid, match="is not open"):
        Client("http://127.0.0.1:9").dead_letters.list()


def test_a_request_without_a_key_gets_one_of_its_own() -> None:
    assert repeatable("mine") == "mine"
    assert repeatable(None) != repeatable(None)
