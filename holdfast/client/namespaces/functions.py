"""`client.functions`: what workers have announced that they can run."""

from collections.abc import Coroutine
from typing import Any

from holdfast.client.both import both
from holdfast.client.namespaces.namespace import Namespace
from holdfast.client.pages import COUNT_MAX, read_some
from holdfast.wire.functions import (
    LIST_PATH,
    FunctionListQuery,
    FunctionPage,
    FunctionStatus,
    function_path,
)


class Functions(Namespace):
    """Functions, by their import paths."""

    @both
    def get(self, path: str) -> Coroutine[Any, Any, FunctionStatus]:
        """Read what was announced of a function, such as `package.module:name`."""
        return self._client.read(function_path(path), FunctionStatus)

    @both
    def list(self, *, count_max: int = COUNT_MAX) -> Coroutine[Any, Any, FunctionPage]:
        """List the functions that workers have announced, by path."""
        read, query = self._client.read, FunctionListQuery()
        return read_some(read, LIST_PATH, FunctionPage, query=query, count_max=count_max)
