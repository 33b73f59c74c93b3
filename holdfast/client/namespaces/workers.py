"""`client.workers`: who runs tasks, and what each of them has."""

from collections.abc import Coroutine
from typing import Any
from urllib.parse import quote

from holdfast.client.both import both
from holdfast.client.namespaces.namespace import Namespace
from holdfast.client.pages import COUNT_MAX, read_some
from holdfast.model.work.ids import check_worker_id
from holdfast.wire.lists import WorkerAttemptPage, WorkerAttemptQuery
from holdfast.wire.requests import Nothing, PageQuery
from holdfast.wire.status import Changed, WorkerList, WorkerStatus


class Workers(Namespace):
    """Workers, by their ids."""

    @both
    def get(self, worker_id: str) -> Coroutine[Any, Any, WorkerStatus]:
        """Read one worker: what it has, what it holds, and when it last answered."""
        return self._client.read(_path(worker_id), WorkerStatus)

    @both
    async def drain(self, worker_id: str) -> None:
        """Ask a worker to finish what it has, take nothing more, and leave."""
        await self._client.change(f"{_path(worker_id)}:drain", Nothing(), Changed)

    @both
    def list(self, *, count_max: int = COUNT_MAX) -> Coroutine[Any, Any, WorkerList]:
        """List workers, the living first."""
        read, query = self._client.read, PageQuery()
        return read_some(read, "/api/workers", WorkerList, query=query, count_max=count_max)

    @both
    def attempts(
        self, worker_id: str, *, unsuccessful: bool = False, count_max: int = COUNT_MAX
    ) -> Coroutine[Any, Any, WorkerAttemptPage]:
        """List what ended on a worker, the newest first; all, or what did not succeed."""
        query = WorkerAttemptQuery(check_worker_id(worker_id), unsuccessful)
        read = self._client.read
        return read_some(read, "/api/attempts", WorkerAttemptPage, query=query, count_max=count_max)


def _path(worker_id: str) -> str:
    return f"/api/workers/{quote(check_worker_id(worker_id), '/:@')}"
