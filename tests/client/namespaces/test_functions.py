"""`client.functions` on a real server."""

import asyncio

import pytest

from holdfast.client.client import Client
from holdfast.client.functions.describing import describe
from holdfast.errors import NotFound
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.worker.announcing import announce
from tests.client import app
from tests.client.namespaces.conftest import Face


def test_functions_are_read_as_they_were_announced(call: Face, client: Client) -> None:
    said = describe(app.greet)
    asyncio.run(announce(client.server, WorkerCredential("w", "s" * 32), [said]))
    found = call(client.functions.get, said.path)
    assert (found.options, found.parameters, found.doc) == (
        said.options,
        said.parameters,
        "Greet somebody.",
    )
    assert found in call(client.functions.list, count_max=100).functions
    with pytest.raises(NotFound, match="there is no announced function app:none"):
        call(client.functions.get, "app:none")
