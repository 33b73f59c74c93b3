"""What a running function has written to the datasets of its job, sent with its success alone."""

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.errors import Invalid, TooLarge
from holdfast.model.datasets import ENTRIES_MAX, OutputEntry
from holdfast.model.submitting.order import Output
from holdfast.wire.raw import encode_json


class Outputs:
    """Collects entries: `ctx.output(partition_key, uri)`; a failed attempt commits none of them."""

    def __init__(self, declared: Sequence[Output]) -> None:
        self._declared = declared
        self.entries: list[OutputEntry] = []

    def __call__(
        self,
        partition_key: str,
        uri: str,
        *,
        size_bytes: int | None = None,
        checksum: str | None = None,
        metadata: dict[str, Any] | None = None,
        dataset: str | None = None,
        key: str | None = None,
    ) -> None:
        """Note something that this attempt has written; it is committed if the attempt succeeds."""
        chosen = self._choose(dataset)
        if len(self.entries) >= ENTRIES_MAX:
            raise TooLarge("outputs", len(self.entries) + 1, ENTRIES_MAX, unit="entries")
        try:
            plain = msgspec.json.decode(encode_json(metadata))
            entry = OutputEntry(partition_key, uri, size_bytes, checksum, plain, chosen, key)
            # As the server will read it: a wrong type is told where it was given.
            msgspec.convert(msgspec.to_builtins(entry), OutputEntry)
        except (TypeError, ValueError, RecursionError) as error:
            raise Invalid("output", f"cannot be sent: {error}") from error
        self.entries.append(entry)

    @property
    def _versions(self) -> dict[str, int]:
        return {
            output.dataset: output.version
            for output in self._declared
            if isinstance(output.version, int)
        }

    def version(self, dataset: str | None = None) -> int:
        """Say which version of a dataset this task fills; of the only one, if none is named."""
        return self._versions[self._choose(dataset)]

    def _choose(self, dataset: str | None) -> str:
        declared = ", ".join(self._versions) or "none"
        if dataset is None:
            if len(self._versions) != 1:
                raise Invalid("dataset", f"name one of those that this job writes: {declared}")
            [dataset] = self._versions
        if dataset not in self._versions:
            raise Invalid("dataset", f"{dataset} is not one that this job writes: {declared}")
        return dataset
