"""What the entries of a completion do to the versions that its job writes."""

from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from holdfast.errors import Invalid, TooLarge
from holdfast.model.datasets import (
    CHECKSUM_LENGTH_MAX,
    ENTRIES_BYTES_MAX,
    ENTRIES_MAX,
    KEY_LENGTH_MAX,
    METADATA_BYTES_MAX,
    SIZE_MAX,
    URI_LENGTH_MAX,
    OutputEntry,
)
from holdfast.model.submitting.order import OutputMode
from holdfast.rules.submitting.outputs import check_name
from holdfast.rules.submitting.submission import check_json, check_text

Partition = tuple[str, int, str]
Who = TypeVar("Who")


class Target(NamedTuple):
    """The version that a job writes of a dataset, and how."""

    version: int
    mode: OutputMode


class EntryKey(NamedTuple):
    """Where an entry stands: one key of one version."""

    dataset: str
    version: int
    key: str


class Standing(NamedTuple):
    """What is known of an entry that stands there already."""

    partition_key: str
    uri: str
    checksum: str | None


class NewEntry(NamedTuple):
    """An entry that is to be written; `metadata` is a JSON text.

    `number` is where it stands among the outputs of its completion.
    """

    number: int
    entry_key: EntryKey
    partition_key: str
    uri: str
    size_bytes: int | None
    checksum: str | None
    metadata: str | None
    mode: OutputMode

    @property
    def partition(self) -> Partition:
        """Name the partition of the version that it belongs to."""
        return self.entry_key.dataset, self.entry_key.version, self.partition_key


def check_entries(entries: Sequence[OutputEntry]) -> None:
    """Refuse entries that cannot be stored, whatever they are meant for."""
    if len(entries) > ENTRIES_MAX:
        raise TooLarge("outputs", len(entries), ENTRIES_MAX, unit="entries")
    total = 0
    for index, entry in enumerate(entries):
        field = f"outputs[{index}]"
        _check_required(f"{field}.partition_key", entry.partition_key, KEY_LENGTH_MAX)
        _check_required(f"{field}.uri", entry.uri, URI_LENGTH_MAX)
        if entry.key is not None:
            _check_required(f"{field}.key", entry.key, KEY_LENGTH_MAX)
        check_text(f"{field}.checksum", entry.checksum or "", CHECKSUM_LENGTH_MAX)
        if entry.dataset is not None:
            check_name(f"{field}.dataset", entry.dataset)
        size = entry.size_bytes
        if size is not None and not 0 <= size <= SIZE_MAX:
            raise Invalid(f"{field}.size_bytes", f"is out of range; use 0 to {SIZE_MAX}")
        text = _write(entry.metadata)
        if text is not None:
            check_json(f"{field}.metadata", text, METADATA_BYTES_MAX)
        total += len(entry.uri) + len(entry.partition_key) + len(text or "")
    if total > ENTRIES_BYTES_MAX:
        raise TooLarge("outputs", total, ENTRIES_BYTES_MAX)


def plan_entries(
    entries: Sequence[OutputEntry], targets: Mapping[str, Target]
) -> dict[EntryKey, NewEntry]:
    """Say where the entries of one completion go; an entry that is given twice goes there once."""
    planned: dict[EntryKey, NewEntry] = {}
    for number, entry in enumerate(entries):
        dataset = _dataset_of(entry, targets, f"outputs[{number}].dataset")
        target = targets[dataset]
        if entry.dataset_version not in (None, target.version):
            raise Invalid(
                f"outputs[{number}].dataset_version",
                f"is {entry.dataset_version}, but this job writes {dataset} {target.version}",
            )
        entry_key = EntryKey(dataset, target.version, entry.key or entry.partition_key)
        new = NewEntry(
            number,
            entry_key,
            entry.partition_key,
            entry.uri,
            entry.size_bytes,
            entry.checksum,
            _write(entry.metadata),
            target.mode,
        )
        first = planned.setdefault(entry_key, new)
        if first._replace(number=number) != new:
            problem = f"{entry_key.key!r} is given twice with different values; give each a key"
            raise Invalid(f"outputs[{number}].key", problem)
    return planned


def keep_new(
    planned: Mapping[EntryKey, NewEntry], standing: Mapping[EntryKey, Standing]
) -> list[NewEntry]:
    """Leave out what stands there already; raises Invalid where something else does.

    What replaces a partition is written anew, unless its key belongs to another partition.
    """
    kept: list[NewEntry] = []
    replaced = {new.partition for new in planned.values() if new.mode == "replace"}
    for entry_key, new in planned.items():
        found = standing.get(entry_key)
        if found is None or (entry_key.dataset, entry_key.version, found.partition_key) in replaced:
            kept.append(new)
        elif (found.uri, found.checksum) != (new.uri, new.checksum) or new.mode == "replace":
            problem = (
                f"version {entry_key.version} of {entry_key.dataset} has another entry under "
                f"{entry_key.key!r}, {found.uri}; give this one a key of its own"
            )
            raise Invalid(f"outputs[{new.number}].key", problem)
    return kept


def split_rounds(
    planned: Mapping[Who, dict[EntryKey, NewEntry]],
) -> list[dict[Who, dict[EntryKey, NewEntry]]]:
    """Part completions that write the same key or partition: each round is written at once."""
    rounds: list[_Round[Who]] = []
    for who, plan in planned.items():
        fitting = next((each for each in rounds if each.has_room_for(plan)), None)
        if fitting is None:
            fitting = _Round()
            rounds.append(fitting)
        fitting.add(who, plan)
    return [each.plans for each in rounds]


class _Round(Generic[Who]):
    """Completions that have no key in common, nor a partition that one of them replaces."""

    def __init__(self) -> None:
        self.plans: dict[Who, dict[EntryKey, NewEntry]] = {}
        self._keys: set[EntryKey] = set()
        self._replaced: set[Partition] = set()
        self._touched: set[Partition] = set()

    def has_room_for(self, plan: Mapping[EntryKey, NewEntry]) -> bool:
        replaced, touched = _partitions_of(plan)
        return (
            self._keys.isdisjoint(plan)
            and self._touched.isdisjoint(replaced)
            and self._replaced.isdisjoint(touched)
        )

    def add(self, who: Who, plan: dict[EntryKey, NewEntry]) -> None:
        replaced, touched = _partitions_of(plan)
        self.plans[who] = plan
        self._keys.update(plan)
        self._replaced |= replaced
        self._touched |= touched


def _partitions_of(plan: Mapping[EntryKey, NewEntry]) -> tuple[set[Partition], set[Partition]]:
    """List the partitions that a completion replaces, and all that it touches."""
    replaced = {new.partition for new in plan.values() if new.mode == "replace"}
    return replaced, {new.partition for new in plan.values()}


def _dataset_of(entry: OutputEntry, targets: Mapping[str, Target], field: str) -> str:
    if not targets:
        raise Invalid(field, "this job declares no outputs; name the dataset when you submit it")
    declared = ", ".join(sorted(targets))
    if entry.dataset is None:
        if len(targets) > 1:
            raise Invalid(field, f"is missing, and this job writes several: {declared}")
        return next(iter(targets))
    if entry.dataset not in targets:
        raise Invalid(field, f"{entry.dataset} is not among this job's outputs: {declared}")
    return entry.dataset


def _check_required(field: str, text: str, length_max: int) -> None:
    if not text:
        raise Invalid(field, "is empty; give it a value")
    check_text(field, text, length_max)


def _write(metadata: dict[str, object] | None) -> str | None:
    return None if metadata is None else msgspec.json.encode(metadata).decode()
