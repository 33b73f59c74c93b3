"""`client.workers` on a real server."""

import pytest

from holdfast.client.client import Client
from holdfast.errors import Invalid, NotFound
from tests.client.hand import Hand
from tests.client.namespaces.conftest import Face


def test_a_worker_is_listed_read_and_drained(call: Face, client: Client, hand: Hand) -> None:
    [worker] = call(client.workers.list, count_max=10).workers
    assert (worker.worker_id, worker.draining) == ("hand-1", False)
    call(client.workers.drain, "hand-1")
    assert call(client.workers.get, "hand-1").draining


def test_what_is_no_worker_is_refused(call: Face, client: Client) -> None:
    with pytest.raises(NotFound):
        call(client.workers.drain, "team/nobody@host:1")
    with pytest.raises(Invalid):
        call(client.workers.get, "no worker")
