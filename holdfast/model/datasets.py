"""What a task commits to a dataset: where something is, and what is known of it."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from holdfast.model.work.outcomes import Stage

DATASET_LENGTH_MAX = 100
KEY_LENGTH_MAX = 512
URI_LENGTH_MAX = 4096
CHECKSUM_LENGTH_MAX = 256
METADATA_BYTES_MAX = 16 << 10
SIZE_MAX = 2**53 - 1
# Of one completion.
ENTRIES_MAX = 10_000
ENTRIES_BYTES_MAX = 4 << 20

VersionState = Literal["open", "sealed", "dropped"]
# For whoever reads the routes; what is wrong with a value is said by the rules.
DatasetName = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={
            "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
            "maxLength": DATASET_LENGTH_MAX,
            "examples": ["events"],
        }
    ),
]
VersionNumber = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class OutputEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing that a task has written: a file, an object, a table's partition.

    `dataset` may be left out if the job writes to one; `key` is the partition key if left out.
    `dataset_version` says which version its writer means: it must be the one that the job writes.
    """

    partition_key: str
    uri: str
    size_bytes: int | None = None
    checksum: str | None = None
    metadata: dict[str, Any] | None = None
    dataset: str | None = None
    key: str | None = None
    dataset_version: int | None = None


def weigh(entries: Iterable[OutputEntry]) -> int:
    """Say about how many bytes entries take on their way."""
    return sum(
        len(entry.uri) + len(entry.partition_key) + len(msgspec.json.encode(entry.metadata)) + 100
        for entry in entries
    )


def refusal_stage(refusal: Exception) -> Stage:
    """Say at which stage an attempt failed whose success was refused."""
    field = getattr(refusal, "field", None)
    return "commit" if isinstance(field, str) and field.startswith("outputs") else "output"
