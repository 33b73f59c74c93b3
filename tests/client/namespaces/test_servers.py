"""`client.servers` on a real server."""

from holdfast.client.client import Client
from holdfast.model.programs import own_version
from tests.cli.program import eventually
from tests.client.namespaces.conftest import Face


def test_the_server_that_is_asked_is_among_those_that_are_there(call: Face, client: Client) -> None:
    [own] = eventually(lambda: call(client.servers.list).servers)
    assert own.version == own_version()
    assert abs(own.clock_skew_seconds) < 60
    assert {"prune", "reap leases"} <= {chore.name for chore in own.report.chores}


def test_a_checkup_names_what_it_has_looked_at(call: Face, client: Client) -> None:
    found = call(client.servers.check_up)
    assert found.version == own_version()
    assert {"schema", "role", "servers"} <= {each.check for each in found.findings}
