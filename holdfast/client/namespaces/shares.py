"""`client.shares`: who gets how much of a queue, and of the workers of placed work."""

from collections.abc import Coroutine
from typing import Any

from holdfast.client.both import both
from holdfast.client.namespaces.namespace import Namespace
from holdfast.wire.shares import (
    LIST_PATH,
    ShareListQuery,
    ShareRuleList,
    ShareRuleRequest,
    ShareRuleStatus,
    rule_path,
)
from holdfast.wire.status import Changed


class Shares(Namespace):
    """Rules of shares, by the names of their queues; None is placed work."""

    @both
    def list(self, queue: str | None = None) -> Coroutine[Any, Any, ShareRuleList]:
        """List all rules, or that of one queue, with the first of their shares."""
        return self._client.read(LIST_PATH, ShareRuleList, query=ShareListQuery(queue))

    @both
    def set(
        self, queue: str | None, rule: ShareRuleRequest
    ) -> Coroutine[Any, Any, ShareRuleStatus]:
        """Share a queue by a rule, all of which is given."""
        return self._client.change(rule_path(queue), rule, ShareRuleStatus, method="PUT")

    @both
    async def unset(self, queue: str | None) -> bool:
        """Take a rule back; False if there is none."""
        return (await self._client.change(rule_path(queue), None, Changed, method="DELETE")).changed
