"""`client.types`: the types of jobs, and the policies that operators have set for them."""

from collections.abc import Coroutine
from typing import Any

from holdfast.client.both import both
from holdfast.client.namespaces.namespace import Namespace
from holdfast.client.pages import COUNT_MAX, read_some
from holdfast.wire.policies import (
    LIST_PATH,
    PolicyHistory,
    PolicyHistoryQuery,
    PolicyRequest,
    TypeListQuery,
    TypePage,
    TypeStatus,
    type_path,
)
from holdfast.wire.status import Changed


class Types(Namespace):
    """Types of jobs, by their names."""

    @both
    def get(self, type_name: str) -> Coroutine[Any, Any, TypeStatus]:
        """Read the policy of a type; its version is 0 if it has none."""
        return self._client.read(type_path(type_name), TypeStatus)

    @both
    def set(self, type_name: str, request: PolicyRequest) -> Coroutine[Any, Any, TypeStatus]:
        """Set the whole policy of a type."""
        return self._client.change(type_path(type_name), request, TypeStatus, method="PUT")

    @both
    async def unset(self, type_name: str) -> bool:
        """Take the policy of a type back; False if it had none."""
        path = type_path(type_name)
        return (await self._client.change(path, None, Changed, method="DELETE")).changed

    @both
    def history(
        self, type_name: str, *, count_max: int = COUNT_MAX
    ) -> Coroutine[Any, Any, PolicyHistory]:
        """List the changes of a type's policy, the newest first."""
        path, query = f"{type_path(type_name)}/history", PolicyHistoryQuery()
        return read_some(self._client.read, path, PolicyHistory, query=query, count_max=count_max)

    @both
    def list(self, *, count_max: int = COUNT_MAX) -> Coroutine[Any, Any, TypePage]:
        """List types by name: those that jobs have, and those with a policy."""
        read, query = self._client.read, TypeListQuery()
        return read_some(read, LIST_PATH, TypePage, query=query, count_max=count_max)
