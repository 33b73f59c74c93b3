"""`client.servers`: who serves, and what a checkup of the whole system finds."""

from collections.abc import Coroutine
from typing import Any

from holdfast.client.both import both
from holdfast.client.namespaces.namespace import Namespace
from holdfast.wire.checkup import Checkup, ServerList


class Servers(Namespace):
    """The servers on the database of the one that is asked."""

    @both
    def list(self) -> Coroutine[Any, Any, ServerList]:
        """List the servers, the oldest first."""
        return self._client.read("/api/servers", ServerList)

    @both
    def check_up(self) -> Coroutine[Any, Any, Checkup]:
        """Have the server that is asked look at the whole system."""
        return self._client.read("/api/doctor", Checkup)
