"""`client.overview`: how the system does, and what needs attention."""

from collections.abc import Coroutine
from typing import Any

from holdfast.client.both import both
from holdfast.client.namespaces.namespace import Namespace
from holdfast.wire.overview import Overview, OverviewQuery


class Overviews(Namespace):
    """What the first page of the dashboard shows."""

    @both
    def get(self, window_seconds: int = 3600) -> Coroutine[Any, Any, Overview]:
        """Read how the system does now, how it did within a window, and what needs attention."""
        return self._client.read("/api/overview", Overview, query=OverviewQuery(window_seconds))
