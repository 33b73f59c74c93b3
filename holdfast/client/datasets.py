"""Datasets as their readers and writers hold them; methods block, each has an `.aio`."""

from collections.abc import AsyncGenerator, Coroutine
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from holdfast.client.both import LoopThread, both, both_stream
from holdfast.client.codec import encode_request
from holdfast.client.pages import read_pages
from holdfast.client.request import request_call
from holdfast.client.task import TaskFunction
from holdfast.errors import Invalid
from holdfast.wire.datasets import (
    LIST_PATH,
    CompareQuery,
    ComparisonPage,
    CutOverAnswer,
    CutOverPage,
    CutOverRecord,
    CutOverRequest,
    DatasetListQuery,
    DatasetPage,
    DatasetRequest,
    DatasetStatus,
    Entry,
    EntryDifference,
    EntryPage,
    TriggerList,
    TriggerRequest,
    TriggerStatus,
    VersionPage,
    VersionRequest,
    VersionStatus,
    dataset_path,
)
from holdfast.wire.requests import JobRequest, Nothing, PageQuery
from holdfast.wire.status import Changed

if TYPE_CHECKING:
    from holdfast.client.client import Client

PER_PAGE = 1000


class DatasetVersion:
    """One version of a dataset, by its number: whatever is cut over to, this one stays the same."""

    def __init__(self, client: "Client", dataset: str, number: int) -> None:
        self._client = client
        self.dataset = dataset
        self.number = number

    def __repr__(self) -> str:
        return f"DatasetVersion({self.dataset}, {self.number})"

    @property
    def loop_thread(self) -> LoopThread:
        """Where calls to the server run."""
        return self._client.loop_thread

    @both
    def status(self) -> Coroutine[Any, Any, VersionStatus]:
        """Read how the version stands."""
        path = dataset_path(self.dataset, "versions", self.number)
        return self._client.read(path, VersionStatus)

    @both_stream
    async def entries(self) -> AsyncGenerator[Entry, None]:
        """Read its entries, by key."""
        path = dataset_path(self.dataset, "versions", self.number, "entries")
        query = PageQuery(PER_PAGE)
        async for page in read_pages(self._client.read, path, EntryPage, query=query):
            for entry in page.entries:
                yield entry


class Dataset:
    """A dataset: what readers get of it is its current version."""

    def __init__(self, client: "Client", name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        return f"Dataset({self.name})"

    @property
    def loop_thread(self) -> LoopThread:
        """Where calls to the server run."""
        return self._client.loop_thread

    def version(self, number: int) -> DatasetVersion:
        """Name one version."""
        return DatasetVersion(self._client, self.name, number)

    @both
    async def current(self) -> DatasetVersion:
        """Find the current version, and stay with it; NotFound before the first cut-over."""
        path = dataset_path(self.name, "versions", "current")
        return self.version((await self._client.read(path, VersionStatus)).version)

    @both
    async def open_version(self, based_on: int | None = None) -> DatasetVersion:
        """Open the next version: empty, or with the entries of another one to begin with."""
        body = VersionRequest(based_on, str(uuid4()))
        made = await self._client.change(dataset_path(self.name, "versions"), body, VersionStatus)
        return self.version(made.version)

    @both
    async def versions(self) -> list[VersionStatus]:
        """List the versions, the newest first."""
        path, query = dataset_path(self.name, "versions"), PageQuery(PER_PAGE)
        pages = read_pages(self._client.read, path, VersionPage, query=query)
        return [version async for page in pages for version in page.versions]

    @both
    async def cut_overs(self, count_max: int = PER_PAGE) -> list[CutOverRecord]:
        """List the latest cut-overs, the last one first."""
        query = PageQuery(min(count_max, PER_PAGE))
        path = dataset_path(self.name, "cut-overs")
        return (await self._client.read(path, CutOverPage, query=query)).cut_overs

    @both
    async def compare(self, before: int | str, after: int | str) -> list[EntryDifference]:
        """Say what was added, removed and changed from one version to another, by key."""
        path, query = (
            dataset_path(f"{self.name}:compare"),
            CompareQuery(str(before), str(after), PER_PAGE),
        )
        pages = read_pages(self._client.read, path, ComparisonPage, query=query)
        return [difference async for page in pages for difference in page.differences]

    @both
    def cut_over(
        self,
        version: int,
        *,
        force: bool = False,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Coroutine[Any, Any, CutOverAnswer]:
        """Make a version the current one; one that was open is sealed by that."""
        body = CutOverRequest(version, force, reason, idempotency_key or str(uuid4()))
        path = dataset_path(f"{self.name}:cut-over")
        return self._client.change(path, body, CutOverAnswer)

    @both
    async def drop(self, version: int) -> bool:
        """Drop a version that is not the current one; False if it was dropped before."""
        path = dataset_path(self.name, "versions", f"{version}:drop")
        return (await self._client.change(path, Nothing(), Changed)).changed

    @both
    def on_cut_over(
        self, name: str, job: TaskFunction[Any, Any] | JobRequest, /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Changed]:
        """Have each new version that is cut over to start a job, once; again changes the job."""
        if isinstance(job, TaskFunction):
            job = request_call(job, args, kwargs)
        elif args or kwargs:
            raise Invalid("args", "go with a function only; a request has its own")
        path = dataset_path(self.name, "triggers", name)
        body = TriggerRequest(encode_request(self._client.codec, job))
        return self._client.change(path, body, Changed, method="PUT")

    @both
    async def triggers(self) -> list[TriggerStatus]:
        """List what a cut-over starts."""
        path = dataset_path(self.name, "triggers")
        return (await self._client.read(path, TriggerList)).triggers

    @both
    async def remove_trigger(self, name: str) -> bool:
        """Have cut-overs start a job no more; False if there was no such trigger."""
        path = dataset_path(self.name, "triggers", name)
        return (await self._client.change(path, None, Changed, method="DELETE")).changed


def name_dataset(client: "Client", name: str) -> Dataset:
    """Name a dataset, without a look whether it is there."""
    return Dataset(client, name)


async def create_dataset(
    client: "Client", name: str, metadata: dict[str, Any] | None = None
) -> Dataset:
    """Create a dataset, unless it is there."""
    await client.change(LIST_PATH, DatasetRequest(name, metadata), DatasetStatus)
    return Dataset(client, name)


async def get_dataset(client: "Client", name: str) -> DatasetStatus:
    """Read one dataset. Raises NotFound."""
    return await client.read(dataset_path(name), DatasetStatus)


async def list_datasets(client: "Client", prefix: str = "") -> list[DatasetStatus]:
    """List datasets whose names begin so, by name."""
    query = DatasetListQuery(prefix or None, PER_PAGE)
    pages = read_pages(client.read, LIST_PATH, DatasetPage, query=query)
    return [dataset async for page in pages for dataset in page.datasets]
