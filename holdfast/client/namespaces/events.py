"""`client.events`: what happened to all jobs."""

from collections.abc import Coroutine
from datetime import datetime
from typing import Any

from holdfast.client.both import both
from holdfast.client.namespaces.namespace import Namespace
from holdfast.client.pages import COUNT_MAX, read_some
from holdfast.wire.events import SEARCH_PATH, EventSearchQuery
from holdfast.wire.status import EventPage


class Events(Namespace):
    """Events of all jobs; `client.jobs.events` and `client.tasks.events` list those of one."""

    @both
    def list(
        self,
        *,
        type: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        correlation_id: str | None = None,
        count_max: int = COUNT_MAX,
    ) -> Coroutine[Any, Any, EventPage]:
        """List events in the order of time: from an hour ago on, or all of a correlation id."""
        query = EventSearchQuery(
            type,
            None if since is None else since.isoformat(),
            None if until is None else until.isoformat(),
            correlation_id,
        )
        read = self._client.read
        return read_some(read, SEARCH_PATH, EventPage, query=query, count_max=count_max)
