"""`client.actions`: what people have done."""

from collections.abc import Coroutine
from datetime import datetime
from typing import Any

from holdfast.client.both import both
from holdfast.client.namespaces.namespace import Namespace
from holdfast.client.pages import COUNT_MAX, read_some
from holdfast.wire.actions import LIST_PATH, ActionListQuery, ActionPage


class Actions(Namespace):
    """Who cancelled, replayed, paused, cut over or changed a policy, and why."""

    @both
    def list(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        subject: str | None = None,
        since: datetime | None = None,
        count_max: int = COUNT_MAX,
    ) -> Coroutine[Any, Any, ActionPage]:
        """List actions, the newest first; of one subject such as job:42 or queue:mail."""
        since_text = None if since is None else since.isoformat()
        query = ActionListQuery(actor, action, subject, since_text)
        return read_some(self._client.read, LIST_PATH, ActionPage, query=query, count_max=count_max)
