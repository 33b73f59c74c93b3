"""Rows of datasets as the answers that people and programs read."""

from datetime import datetime

import msgspec

from holdfast.api.convert import to_ms
from holdfast.model.work.ids import TaskId
from holdfast.rules.comparison import Difference
from holdfast.store.reads import datasets
from holdfast.wire.datasets import (
    CutOverRecord,
    DatasetStatus,
    Entry,
    EntryDifference,
    TriggerStatus,
    VersionStatus,
)


def dataset(row: datasets.DatasetRow) -> DatasetStatus:
    """Tell of a dataset."""
    return DatasetStatus(
        name=row.name,
        created_at_ms=to_ms(row.created_at),
        created_by=row.created_by,
        metadata=msgspec.json.decode(row.metadata),
        current_version=row.current_version,
        newest_version=row.newest_version,
    )


def version(dataset: str, row: datasets.VersionRow) -> VersionStatus:
    """Tell of a version."""
    return VersionStatus(
        dataset=dataset,
        version=row.version,
        state=row.state,
        created_at_ms=to_ms(row.created_at),
        created_by=row.created_by,
        based_on=row.based_on,
        job_id=None if row.opened_by_job is None else str(row.opened_by_job),
        cut_over_at_ms=_ms(row.cut_over_at),
        entries=row.entries,
        size_bytes=row.size_bytes,
        dropped_at_ms=_ms(row.dropped_at),
        dropped_by=row.dropped_by,
    )


def entry(row: datasets.EntryRow) -> Entry:
    """Tell of an entry, and of the attempt that committed it."""
    return Entry(
        key=row.key,
        partition_key=row.partition_key,
        uri=row.uri,
        size_bytes=row.size_bytes,
        checksum=row.checksum,
        metadata=None if row.metadata is None else msgspec.json.decode(row.metadata),
        task_id=str(TaskId(row.job_id, row.task_index)),
        attempt=row.attempt,
        committed_at_ms=to_ms(row.committed_at),
        copied_from=row.copied_from,
    )


def difference(found: Difference) -> EntryDifference:
    """Tell what has become of a key."""
    before, after = found.before, found.after
    return EntryDifference(
        kind=found.kind,
        key=found.key,
        before=entry(before) if isinstance(before, datasets.EntryRow) else None,
        after=entry(after) if isinstance(after, datasets.EntryRow) else None,
    )


def cut_over(row: datasets.CutOverRow) -> CutOverRecord:
    """Tell of a cut-over of the past."""
    return CutOverRecord(
        number=row.number,
        version=row.version,
        previous=row.previous,
        at_ms=to_ms(row.at),
        actor=row.actor,
        reason=row.reason,
        forced=row.forced,
    )


def trigger(row: datasets.TriggerRow) -> TriggerStatus:
    """Tell of a trigger."""
    return TriggerStatus(
        name=row.name,
        spec=msgspec.json.decode(row.spec),
        created_at_ms=to_ms(row.created_at),
        created_by=row.created_by,
        changed_at_ms=to_ms(row.changed_at),
        last_version=row.last_version,
        last_job_id=None if row.last_job_id is None else str(row.last_job_id),
        last_started_at_ms=_ms(row.last_started_at),
        problem=row.problem,
    )


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else to_ms(moment)
