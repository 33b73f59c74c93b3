"""Datasets on the wire: versions, entries, cut-overs, and the jobs that a cut-over starts."""

from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec

from holdfast.model.datasets import DatasetName, VersionNumber, VersionState
from holdfast.wire.requests import JobRequest, PageSize, Request

LIST_PATH = "/api/datasets"
VersionText = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={"pattern": r"^([1-9][0-9]{0,8}|current)$", "examples": ["3", "current"]}
    ),
]


class DatasetRequest(Request, frozen=True):
    """Create a dataset; one that is there with the same metadata stays as it is."""

    name: DatasetName
    metadata: dict[str, Any] | None = None


class DatasetListQuery(Request, frozen=True):
    """Which datasets to list; `name` is a prefix."""

    name: str | None = None
    page_size: PageSize = 100
    page_token: str | None = None


class VersionRequest(Request, frozen=True):
    """Open the next version: empty, or with the entries of another one to begin with."""

    based_on: VersionNumber | None = None
    idempotency_key: str | None = None


class CutOverRequest(Request, frozen=True):
    """Make a version the current one; `force` even if live jobs are writing it."""

    version: VersionNumber
    force: bool = False
    reason: str | None = None
    idempotency_key: str | None = None


class CompareQuery(Request, frozen=True, rename={"from_": "from"}):
    """Which versions to compare: what has to be done to the first to get the second."""

    from_: VersionText
    to: VersionText
    page_size: PageSize = 100
    page_token: str | None = None


class TriggerRequest(Request, frozen=True):
    """The job that each new version starts when it is cut over to."""

    spec: JobRequest


class DatasetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset, the version that readers get, and the newest there is."""

    name: str
    created_at_ms: int
    created_by: str
    metadata: dict[str, Any]
    current_version: int | None = None
    newest_version: int | None = None


class DatasetPage(msgspec.Struct, frozen=True):
    """Some datasets, by name."""

    datasets: list[DatasetStatus]
    next_page_token: str | None = None


class VersionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A version; its entries are counted when it is sealed."""

    dataset: str
    version: int
    state: VersionState
    created_at_ms: int
    created_by: str
    based_on: int | None = None
    # The job that it was opened with.
    job_id: str | None = None
    cut_over_at_ms: int | None = None
    entries: int | None = None
    size_bytes: int | None = None
    dropped_at_ms: int | None = None
    dropped_by: str | None = None


class VersionPage(msgspec.Struct, frozen=True):
    """Some versions, the newest first."""

    versions: list[VersionStatus]
    next_page_token: str | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a version, and the attempt that committed it."""

    key: str
    partition_key: str
    uri: str
    size_bytes: int | None = None
    checksum: str | None = None
    metadata: dict[str, Any] | None = None
    task_id: str
    attempt: int
    committed_at_ms: int
    # The version that this one was based on, if the entry came from there.
    copied_from: int | None = None


class EntryPage(msgspec.Struct, frozen=True):
    """Some entries of one version, by key; all pages of a list are of the same version."""

    version: int
    entries: list[Entry]
    next_page_token: str | None = None


class EntryDifference(msgspec.Struct, frozen=True, kw_only=True):
    """What has become of one key."""

    kind: Literal["added", "removed", "changed"]
    key: str
    before: Entry | None = None
    after: Entry | None = None


class ComparisonPage(msgspec.Struct, frozen=True):
    """Some differences between two versions, by key; a short page is not always the last one."""

    before: int
    after: int
    differences: list[EntryDifference]
    next_page_token: str | None = None


class CutOverAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a cut-over did; not changed if the version was the current one already."""

    dataset: str
    version: int
    previous: int | None = None
    at_ms: int
    changed: bool
    # How many triggers will start a job.
    triggered: int = 0


class CutOverRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One cut-over of the past."""

    number: int
    version: int
    previous: int | None = None
    at_ms: int
    actor: str
    reason: str | None = None
    forced: bool = False


class CutOverPage(msgspec.Struct, frozen=True):
    """Some cut-overs, the latest first."""

    cut_overs: list[CutOverRecord]
    next_page_token: str | None = None


class TriggerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger, and what came of the newest version that was cut over to since it is there."""

    name: str
    spec: dict[str, Any]
    created_at_ms: int
    created_by: str
    changed_at_ms: int
    last_version: int | None = None
    last_job_id: str | None = None
    last_started_at_ms: int | None = None
    # Why its job could not be submitted; it is tried again.
    problem: str | None = None


class TriggerList(msgspec.Struct, frozen=True):
    """The triggers of a dataset, by name."""

    triggers: list[TriggerStatus]


def dataset_path(name: str, *rest: object) -> str:
    """Say where a dataset is, or something of it."""
    return "/".join([LIST_PATH, *(quote(str(part), safe=":") for part in (name, *rest))])
